package preference

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// comparisons is Σ ⌈log₂ k⌉, k = 2..n: the most that binary insertion takes.
func comparisons(n int) (sum int) {
	for k := 2; k <= n; k++ {
		sum += int(math.Ceil(math.Log2(float64(k))))
	}
	return sum
}

// TestBurnIn_OrderIsTheTrueOne is the oracle test: over 1,000 random instances the order is the true one, always. It is certain
// within the bound of docs/understand/unknown-utilities.md: 2(m + ln(1/δ))/p impressions, except with a probability of δ = 10⁻¹⁰ each. A
// false alarm thus has a probability of at most 10⁻⁷. The proof of the bound:
//
// n ≤ 33, so that the budget is never spent: an item of an undecided pair has met at most 31 of the 32 others.
//
// The order is true, since nothing wrong is ever certified, and the burn-in ends only when each item is certified to be above the one
// before.
//
// Each impression decides a pair with probability at least q₂/3, whatever came before. The pair on top is undecided. It is shown with its
// true lower item first with probability at least 1/3, independently of the window. If the window is 2, the second item is selected,
// which decides the pair. There are n(n−1)/2 pairs.
//
// Binary insertion: consider the impressions with its pair, one in eight, drawn independently. Let u_k be the number of items before the
// k-th, by number, that it is undecided against. Let Φ = Σ_k (⌊log₂ u_k⌋ + 1) over those with u_k ≥ 1. u_k ≤ k−1 at first, so Φ ≤ Σ ⌈log₂
// k⌉, and u_k never grows. Items before the first item with u_k ≥ 1 are in a certain order, in which those that it is undecided against are
// neighbours. A decision against the one with ⌊u_k/2⌋ of them before it decides, by transitivity, all on one side too. At most ⌊u_k/2⌋ are
// left, and Φ falls by at least one. That happens with probability at least q₂/24 in each impression, whatever came before.
//
// In both cases the burn-in ends after m successes at the latest, each of probability at least p. The number of impressions is at most
// that of Bernoulli trials of p until the m-th success, whose mean is m/p. With t = 2(m+L)/p, L = ln(1/δ), fewer than m of t succeed with
// probability at most exp(−(tp−m)²/(2tp)) (Chernoff), and (m+2L)² ≥ 4L(m+L).
func TestBurnIn_OrderIsTheTrueOne(t *testing.T) {
	const delta = 1e-10
	for seed := range uint64(1000) {
		n := 2 + int(seed%19)
		ratio := []float64{0.3, 0.7, 0.95}[seed%3]
		u := newUsers(n, ratio, seed)
		q2 := u.upTo[1] - u.upTo[0]
		m, p := float64(n*(n-1)/2), swapShare*q2
		if insertion := float64(comparisons(n)); insertion/insertionShare < m {
			m, p = insertion, insertionShare*p
		}
		limit := int(2 * (m + math.Log(1/delta)) / p)
		f := NewSorted()
		require.LessOrEqual(t, burnIn(f, u, seed, limit), limit, "seed %d, n = %d, ratio %v", seed, n, ratio)
		var r Report
		f.Report(&r)
		for rank, i := range r.Items {
			require.Equal(t, rank, u.rank[i], "seed %d", seed)
		}
		require.Empty(t, r.Undecided)
		require.Zero(t, r.Status)
		require.Zero(t, r.Expected)
	}
}

// BenchmarkBurnIn measures the number of impressions of the burn-in, and its ratio to the number (n-1)/(1-q₁) of an oracle that
// knows the order and only has to certify it.
func BenchmarkBurnIn(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		ratio float64
	}{{"n=10", 10, 0.7}, {"n=50", 50, 0.7}, {"n=200", 200, 0.7}, {"n=50,short", 50, 0.3}, {"n=50,long", 50, 0.95}} {
		b.Run(c.name, func(b *testing.B) {
			var sum, expected float64
			runs := 0
			for b.Loop() {
				f := NewSorted()
				f.Grow(c.n)
				expected = f.expected()
				u := newUsers(c.n, c.ratio, uint64(runs))
				sum += float64(burnIn(f, u, uint64(runs), 1<<20))
				runs++
			}
			q1 := geometric(c.ratio, c.n)[0]
			mean := sum / float64(runs)
			b.ReportMetric(mean, "impressions")
			b.ReportMetric(expected, "expected")
			b.ReportMetric(mean*(1-q1)/float64(c.n-1), "x_oracle")
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	const n = 20
	for _, c := range []struct {
		name  string
		known bool
	}{{"exploring", false}, {"certain", true}} {
		b.Run(c.name, func(b *testing.B) {
			f := NewSorted()
			f.Grow(1000)
			candidates := make([]policy.Item, n)
			for i := range candidates {
				candidates[i] = policy.Item(i * 37 % 1000)
			}
			for i := range 999 {
				if c.known || i%2 == 0 {
					f.evidence(policy.Item(i+1), policy.Item(i), explored)
				}
			}
			order, shown := make([]int32, n), make([]int32, n)
			items := make([]policy.Item, n)
			var undecided []int32
			b.ReportAllocs()
			k := policy.Key(0)
			for b.Loop() {
				k++
				undecided = f.Sort(candidates, k, order, undecided[:0])
				for r, at := range order {
					items[r] = candidates[at]
				}
				if len(undecided) > 0 {
					f.Explore(items, undecided, k, shown)
				}
			}
		})
	}
}
