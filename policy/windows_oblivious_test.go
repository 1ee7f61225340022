package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
)

// TestLemma_WhatIsSelectedIsTheBestIndexInReach: a user of window w selects the item of highest utility within it. Under a ranking
// by indices, this is the one with the largest index of those of rank w and above. Ties go as the policy breaks them. within it,
// select the largest index of those of rank w and above. Ties go as the policy breaks them.
func TestLemma_WhatIsSelectedIsTheBestIndexInReach(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	var ws Workspace
	for range 3000 {
		n := 1 + rng.IntN(8)
		in := Input{Items: seq(n), Table: NewTable(n), Key: Key(rng.Uint64()), Known: &Known{Variance: 0.25, Kappa: 4}}
		for range n {
			in.Known.Candidates = append(in.Known.Candidates, Estimate{Mean: float64(rng.IntN(4)) / 4, Weight: float64(1 + rng.IntN(2))})
		}
		belief := Belief{Sigma: 0.5, EstimateSigma: true, Prior: EmpiricalPrior}
		for _, k := range Specs {
			if !k.Contextual {
				continue
			}
			p, err := k.Rank(&Parameters{Belief: belief})
			require.NoError(t, err)
			order := make([]int32, n)
			p.Rank(&in, &ws, order)
			why := make([]Reason, n)
			p.(Explainer).Weigh(&in, &ws, why)
			for w := 1; w <= n; w++ {
				selected := policytest.Select(order, w)
				require.GreaterOrEqual(t, selected, int32(w-1))
				for k := w - 1; k < n; k++ {
					require.GreaterOrEqual(t, why[selected].Index, why[k].Index, "%s: %v, window %d", k, order, w)
				}
			}
		}
	}
}

// TestLemma_InReachAreTheItemsFromTheWindowOn: over all rankings a window w selects each item of rank w and above, and no other.
func TestLemma_InReachAreTheItemsFromTheWindowOn(t *testing.T) {
	for n := 1; n <= 6; n++ {
		reached := make([]map[int32]bool, n+1)
		for w := range reached {
			reached[w] = map[int32]bool{}
		}
		order := seq(n)
		var each func(k int)
		each = func(k int) {
			if k == n {
				for w := 1; w <= n; w++ {
					reached[w][policytest.Select(order, w)] = true
				}
				return
			}
			for j := k; j < n; j++ {
				order[k], order[j] = order[j], order[k]
				each(k + 1)
				order[k], order[j] = order[j], order[k]
			}
		}
		each(0)
		for w := 1; w <= n; w++ {
			for i := range int32(n) {
				require.Equal(t, int(i) >= w-1, reached[w][i], "%d items, window %d, item %d", n, w, i)
			}
		}
	}
}
