//go:build !race

package lab

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Each item of Traces pays once in each span, as it is defined. The spans' sums over 100,000 selections of one item have the means,
// the deviations and the correlations of the definition. Each is within 7 standard errors (fewer than 50 comparisons of 3·10⁻¹²
// each).
func TestTraces_AsDefined(t *testing.T) {
	const seed, draws = 21, 100_000
	ends := []int64{70, 300, 900, 1800}
	shares := []float64{0.15 * 70 / 300 / 0.45, 0.15 * 230 / 300 / 0.45, 0.3 * 600 / 1500 / 0.45, 0.3 * 900 / 1500 / 0.45}
	x := newTraced(3, 0.9, newStream(seed, 0, forItems))
	keys := newStream(seed, 0, forParts)
	const item = 1
	means := []float64{x.early[item] * 70 / 300, x.early[item] * 230 / 300, x.late[item] * 600 / 1500, x.late[item] * 900 / 1500}
	var sum, middle [4]float64
	var products [4][4]float64
	var whole float64
	for range draws {
		parts := x.pay(item, policy.Key(keys.Uint64()), nil)
		require.Len(t, parts, 4)
		var from int64
		var total float64
		for k, p := range parts {
			if p.late < from || p.late >= ends[k] {
				t.Fatalf("a part of span %d after %d", k, p.late)
			}
			middle[k] += (float64(p.late-from) + 0.5) / float64(ends[k]-from)
			from = ends[k]
			total += p.sum
			sum[k] += p.sum
			for l := range k + 1 {
				products[k][l] += (p.sum - means[k]) * (parts[l].sum - means[l])
			}
		}
		whole += min(max(total, 0), 1)
	}
	variance := func(k, l int) float64 {
		v := 0.25 * 0.25 * 0.36 * shares[k] * shares[l]
		if k == l {
			v += 0.25 * 0.25 * 0.64 * shares[k]
		}
		return v
	}
	for k := range 4 {
		require.InDelta(t, 0.5, middle[k]/draws, 7*math.Sqrt(1./12/draws), "seed %d", seed)
		require.InDelta(t, means[k], sum[k]/draws, 7*math.Sqrt(variance(k, k)/draws), "seed %d", seed)
		for l := range k + 1 {
			width := math.Sqrt((variance(k, k)*variance(l, l) + variance(k, l)*variance(k, l)) / draws)
			require.InDelta(t, variance(k, l), products[k][l]/draws, 7*width, "seed %d", seed)
		}
	}
	require.InDelta(t, x.mean(item), whole/draws, 7*0.25/math.Sqrt(draws), "seed %d", seed)
}

// Items' early and late payoffs have the deviations and the correlation of the scenario: of 20,000 items, within 7 standard errors.
// Each scenario has its correlation: of 2,000.
func TestTraces_Items(t *testing.T) {
	const seed, items = 22, 20_000
	for _, r := range []float64{0, 0.9, -0.7} {
		x := newTraced(items, r, newStream(seed, 0, forItems))
		var e, l, ee, ll, el float64
		for i := range items {
			a, b := (x.early[i]-0.15)/0.03, (x.late[i]-0.3)/0.06
			e, l, ee, ll, el = e+a, l+b, ee+a*a, ll+b*b, el+a*b
		}
		width := 7 / math.Sqrt(items)
		require.InDelta(t, 0, e/items, width, "seed %d", seed)
		require.InDelta(t, 0, l/items, width, "seed %d", seed)
		require.InDelta(t, 1, ee/items, math.Sqrt2*width, "seed %d", seed)
		require.InDelta(t, 1, ll/items, math.Sqrt2*width, "seed %d", seed)
		require.InDelta(t, r, el/items, math.Sqrt(1+r*r)*width, "seed %d", seed)
	}
	for s, r := range map[Scenario]float64{"traces": 0, "traces-alike": 0.9, "traces-contrary": -0.7} {
		const items = 2000
		w, err := NewWorld(&Experiment{Scenario: s, Items: items, Horizon: 1, Seed: seed}, 0)
		require.NoError(t, err)
		x := w.events.course.(*traced)
		var el float64
		for i := range items {
			el += (x.early[i] - 0.15) / 0.03 * (x.late[i] - 0.3) / 0.06
		}
		require.InDelta(t, r, el/items, 7*math.Sqrt((1+r*r)/items), "%s, seed %d", s, seed)
	}
}

// Customers buy as often as in BG/NBD in the mean (P. Fader, B. Hardie, K. L. Lee 2005, equation 9), which is below the 2 that one
// of 4 may buy. Their mean spend is pγ/(q−1). Of 400,000, within 7 standard errors, by the deviations found.
func TestCustomers_AsModelled(t *testing.T) {
	const seed, draws = 23, 400_000
	r := rand.New(newStream(seed, 0, forItems))
	var n, nn, first, squares float64
	for range draws {
		bought := newCustomer(r)
		again := float64(len(bought) - 1)
		n, nn = n+again, nn+again*again
		first, squares = first+bought[0].spent, squares+bought[0].spent*bought[0].spent
	}
	const a, b, shape, alpha, weeks = 0.793, 2.426, 0.243, 4.414, 52.
	z := weeks / (alpha + weeks)
	hyper, term := 0.0, 1.0 // 2F1(r, b; a+b−1; z)
	for k := 0.0; term > 1e-17; k++ {
		hyper += term
		term *= (shape + k) * (b + k) / (a + b - 1 + k) / (k + 1) * z
	}
	expected := (a + b - 1) / (a - 1) * (1 - math.Pow(alpha/(alpha+weeks), shape)*hyper)
	mean := n / draws
	require.InDelta(t, expected, mean, 7*math.Sqrt((nn/draws-mean*mean)/draws), "seed %d", seed)
	spent := first / draws
	require.InDelta(t, 6.25*15.44/2.74, spent, 7*math.Sqrt((squares/draws-spent*spent)/draws), "seed %d", seed)
}

// Items have groups of customers of the same size, those of a band alike; each customer is in one. A selection's payoff is the
// spend of one of the group within the year. Its mean is the one that regret is computed with.
func TestCustomers_Groups(t *testing.T) {
	const seed, draws = 24, 50_000
	for _, items := range []int{1, 5, 8, 12, 96} {
		c := newCustomers(items, newStream(seed, 0, forItems))
		var all int
		for _, group := range c.groups {
			all += len(group)
			require.InDelta(t, 23_570/float64(items), float64(len(group)), 23_570/float64(items)*0.61, "%d items", items)
		}
		require.Equal(t, 23_570, all)
	}
	w, err := NewWorld(defaults("customers", seed), 0)
	require.NoError(t, err)
	m := w.events
	best, worst := policy.Item(0), policy.Item(0)
	for i := range policy.Item(8) {
		if m.course.mean(i) > m.course.mean(best) {
			best = i
		}
		if m.course.mean(i) < m.course.mean(worst) {
			worst = i
		}
	}
	require.Greater(t, m.course.mean(best), 1.5*m.course.mean(worst), "who spends more first spends more later")
	var sum, squares float64
	for range draws {
		m.next(1)
		r := m.replyInParts(best, 0, 3640)
		requireParts(t, r, 3640)
		sum, squares = sum+r.Payoff, squares+r.Payoff*r.Payoff
	}
	mean := sum / draws
	require.InDelta(t, m.course.mean(best), mean, 7*math.Sqrt((squares/draws-mean*mean)/draws), "seed %d", seed)
	low, high := Scenario("customers").payoffRange()
	require.Equal(t, []float64{0, 300}, []float64{low, high})
	require.Empty(t, newCustomers(30_000, newStream(seed, 0, forItems)).pay(29_999, 1, nil), "of more items than customers")
}

// A gamma variable of a shape has that mean and variance; 7 standard errors of 400,000.
func TestGamma(t *testing.T) {
	const seed, draws = 25, 400_000
	r := rand.New(newStream(seed, 0, forItems))
	for _, shape := range []float64{0.243, 1, 6.25} {
		var sum, squares float64
		for range draws {
			x := gamma(r, shape)
			sum, squares = sum+x, squares+(x-shape)*(x-shape)
		}
		require.InDelta(t, shape, sum/draws, 7*math.Sqrt(shape/draws), "seed %d", seed)
		// The fourth central moment is 3k² + 6k.
		require.InDelta(t, shape, squares/draws, 7*math.Sqrt((2*shape*shape+6*shape)/draws), "seed %d", seed)
	}
}
