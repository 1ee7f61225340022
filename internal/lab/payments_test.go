//go:build !race

package lab

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Sums of payments have the mean that regret is computed with, which the cut at 1 lowers; payments that come too late do not count.
// Each of 200,000 within 7 standard errors (3·10⁻¹² each).
func TestDelayModel_Instalments(t *testing.T) {
	const seed, draws = 14, 200_000
	m := eventsOf(t, "instalments", seed)
	luck := newStream(seed, 1, forPayoffs)
	for item := range policy.Item(10) {
		o, horizon, _ := offered("instalments", m.quality[item])
		means := map[int64]float64{horizon: meanSum(o.paid)}
		// Of exponential delays of mean 3,000 below 12,000, those below 2,000.
		early := -math.Expm1(-2000./3000) / -math.Expm1(-12_000./3000)
		means[2000] = meanSum(o.paid * early)
		require.InDelta(t, m.means()[item], means[horizon], 1e-12)
		for within, mean := range means {
			var sum, squares float64
			for range draws {
				m.next(1)
				r := m.replyInParts(item, luck.float64(), within)
				x := r.Payoff
				requireParts(t, r, within)
				if !(x >= 0 && x <= 1) {
					t.Fatalf("item %d: payoff %v", item, x)
				}
				sum += x
				squares += x * x
			}
			deviation := math.Sqrt(squares/draws - mean*mean)
			require.InDelta(t, mean, sum/draws, 7*deviation/math.Sqrt(draws), "item %d within %d, seed %d", item, within, seed)
		}
	}
	require.Zero(t, meanSum(0))
	require.InDelta(t, 0.02, meanSum(0.1), 1e-6, "hardly ever cut")
	require.InDelta(t, 1, meanSum(100), 1e-6, "always cut")
}

// requireParts checks that parts come in the order of time, before the whole, which is the last sum of parts.
func requireParts(t *testing.T, r Reply, within int64) {
	t.Helper()
	ordered := slices.IsSortedFunc(r.parts, func(a, b part) int { return cmp.Compare(a.late, b.late) })
	if r.Late != within || r.Paid != (len(r.parts) > 0) || !ordered {
		t.Fatalf("%+v", r)
	}
	if last := len(r.parts) - 1; r.Paid && (r.parts[last].late >= within || r.parts[last].sum != r.Payoff) || !r.Paid && r.Payoff != 0 {
		t.Fatalf("%+v", r)
	}
}

// Of sales whose sums count, those of Refunds are returned, 10 days later: the means are as defined, within 7 standard errors of
// 400,000 (3·10⁻¹² each).
func TestDelayModel_RefundsSum(t *testing.T) {
	const seed, draws = 16, 400_000
	m := eventsOf(t, "refunds-sum", seed)
	luck := newStream(seed, 1, forPayoffs)
	for _, item := range []policy.Item{0, 4, 9} {
		var sum, back float64
		for range draws {
			m.next(1)
			r := m.replyInParts(item, luck.float64(), 43_200)
			requireParts(t, r, 43_200)
			if len(r.parts) == 2 {
				require.Equal(t, part{r.parts[0].late + 14_400, 0}, r.parts[1])
				back++
			}
			sum += r.Payoff
		}
		q := m.quality[item]
		returned := (0.01 + 0.03*q) * -math.Expm1(-20./3) / -math.Expm1(-10)
		mean := 0.02 + 0.08*q - returned
		require.InDelta(t, mean, m.means()[item], 1e-12)
		require.InDelta(t, mean, sum/draws, 7*math.Sqrt(mean/draws), "seed %d", seed)
		require.InDelta(t, returned, back/draws, 7*math.Sqrt(returned/draws), "seed %d", seed)
	}
}

// Parts of payoffs, received as they come, change decisions long before their sums.
func TestParts_AreLearnedFromAsTheyCome(t *testing.T) {
	e := defaults("instalments", 1)
	e.Horizon, e.Runs = 20_000, 2
	waits := regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{"waits"}})
	for _, law := range []string{"at_once", "ages"} {
		require.Less(t, 3*regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{law}}).Regret.Mean, waits.Regret.Mean, law)
	}
}
