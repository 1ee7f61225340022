package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// permutations calls f with every permutation of 0..n-1.
func permutations(n int, f func(order []int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var place func(k int)
	place = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			place(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	place(0)
}

// someCandidates draws candidates whose utilities and means often tie.
func someCandidates(rng *rand.Rand, n int) ([]Candidate, []float64) {
	candidates, means := make([]Candidate, n), make([]float64, n)
	for i, name := range rng.Perm(n) {
		candidates[i] = Candidate{Item: string(rune('a' + name)), Utility: float64(rng.IntN(n + 1))}
		means[i] = float64(rng.IntN(n+2)) / 8
	}
	return candidates, means
}

// slowSelect sorts the items that the user sees, and takes the last.
func slowSelect(candidates []Candidate, order []int, window int) int {
	seen := slices.Clone(order[:min(window, len(order))])
	slices.SortFunc(seen, func(i, j int) int {
		a, b := candidates[i], candidates[j]
		switch {
		case a.Utility < b.Utility || a.Utility == b.Utility && a.Item < b.Item:
			return -1
		default:
			return 1
		}
	})
	return seen[len(seen)-1]
}

func TestSelectionIsTheBestLikedWithinTheWindow(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		n := 1 + rng.IntN(8)
		candidates, _ := someCandidates(rng, n)
		order := rng.Perm(n)
		for window := 1; window <= n+2; window++ {
			require.Equal(t, slowSelect(candidates, order, window), Select(candidates, order, window))
		}
		require.Equal(t, order[0], Select(candidates, order, 0), "everybody sees something")
		require.Equal(t, slowSelect(candidates, order, n), Favourite(candidates))
	}
}

// TestBestIsTheBestOfAllPermutations also shows the half of Lemma 3.3 that makes one "best permutation in hindsight"
// well defined: a single permutation is the best for every window at once.
func TestBestIsTheBestOfAllPermutations(t *testing.T) {
	const seed = 2
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		n := 1 + rng.IntN(6)
		candidates, means := someCandidates(rng, n)
		best := make([]float64, n+1)
		for window := 1; window <= n; window++ {
			best[window] = -1
			permutations(n, func(order []int) {
				best[window] = max(best[window], means[slowSelect(candidates, order, window)])
			})
			mean, position := Best(candidates, means, window)
			require.Equal(t, best[window], mean)
			require.Equal(t, mean, means[position])
		}
		forAll := false
		permutations(n, func(order []int) {
			all := true
			for window := 1; window <= n; window++ {
				all = all && means[slowSelect(candidates, order, window)] == best[window]
			}
			forAll = forAll || all
		})
		require.True(t, forAll, "one permutation is best for all windows: %v %v", candidates, means)
		beyond, _ := Best(candidates, means, n+5)
		require.Equal(t, best[n], beyond)
	}
}
