//go:build !race

package lab

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
)

// defined is the mean of item (or rank) i at t, both from 1, by the scenario's definition. Not for Catalog and for those with
// delays of their own, whose means are drawn.
func defined(s Scenario, n int, horizon, t int64, i int) float64 {
	mixed := []float64{.2, .9, .1, .7, .6, .3, .5, 0, .4, .15}
	switch s {
	case "blocks", "lazy":
		return 1 - float64(i-1)/float64(n)
	case "mixed", "changing":
		return mixed[(i-1)%10]
	case "stationary", "fatigue": // where nothing is selected
		return 0.8 - 0.6*float64(i-1)/float64(n)
	case "jump", "jump-busy":
		if float64(t) > 0.3*float64(horizon) {
			i = n + 1 - i
		}
		return 0.8 - 0.6*float64(i-1)/float64(n)
	case "rising":
		switch {
		case i == 8:
			return 0.5
		case i == 2 && float64(t) > 0.3*float64(horizon):
			return 0.9
		}
		return 0.1
	case "often":
		if i == []int{8, 2, 6, 3, 9, 1, 4, 7, 5, 10}[(t-1)*10/horizon] {
			return 0.8
		}
		return 0.2
	case "wave":
		mean := 0.8 * float64((t-1)/1000%2)
		if i == 3 {
			mean += 0.15
		}
		return mean
	case "daily":
		return 0.65 - 0.3*float64(i-1)/float64(n) + 0.3*math.Sin(2*math.Pi*float64(t)/86_400)
	case "constrained", "ranks":
		mean := 0.0
		if int(math.Floor(math.Log(float64(t+1))/math.Log(1.6)))%2 == 1 {
			mean = 0.8
		}
		if i == 3 {
			mean += 0.15
		}
		return mean
	case "switching":
		switch {
		case float64(t) <= 0.3*float64(horizon) && float64(i) == math.Ceil(0.8*float64(n)):
			return 0.9
		case float64(t) <= 0.3*float64(horizon):
			return 0.1
		case i == 2:
			return 0.9
		}
		return 0.05
	case "jackpot", "jackpot-0.3":
		switch {
		case i > 1:
			return 0.1
		case s == "jackpot":
			return 0.15
		}
		return 0.3
	case "wandering":
		return 0.5 + 0.3*math.Sin(2*math.Pi*(float64(t)/1e5+float64(7*(i-1)%10)/10))
	}
	panic(s)
}

// weight is P(w) up to a factor, by the definition.
func weight(s Scenario, w int) float64 {
	switch s {
	case "lazy", "changing":
		return math.Exp(-float64(w-1) / 2)
	case "mixed":
		return 1
	case "abandon:uniform", "unseen:uniform":
		if w > 10 {
			return 0
		}
		return 1
	case "abandon:short":
		return math.Pow(0.3, float64(w-1))
	}
	return math.Pow(0.7, float64(w-1))
}

func TestScenarios_MeansAreAsDefined(t *testing.T) {
	for _, s := range selecting() {
		if s.definition().levels == nil {
			continue
		}
		for _, n := range []int{1, 2, 3, 5, 10, 23} {
			const horizon = 3000
			w, err := NewWorld(&Experiment{Scenario: s, Items: n, Horizon: horizon, Seed: 1}, 0)
			require.NoError(t, err)
			for now := int64(1); now <= horizon; now++ {
				w.Next()
				for k, item := range w.candidates {
					i := int(item) + 1
					if s == "ranks" {
						i = k + 1
					}
					if want, got := defined(s, n, horizon, now, i), w.mean(int32(k)); math.Abs(want-got) > 1e-12 {
						t.Fatalf("%s, n = %d, t = %d, item %d: mean %v, not %v", s, n, now, i, got, want)
					}
				}
			}
		}
	}
}

// A selected item tires, and recovers; an item that is not selected has its mean throughout.
func TestScenarios_FatigueIsOfWhatIsSelected(t *testing.T) {
	w, err := NewWorld(&Experiment{Scenario: "fatigue", Items: 4, Horizon: 5000, Seed: 1}, 0)
	require.NoError(t, err)
	load := 0.0
	for now := 1; now <= 5000; now++ {
		w.Next()
		require.InDelta(t, 0.65*(1-load), w.mean(1), 1e-12)
		require.Equal(t, 0.8, w.mean(0))
		best := []float64{0.8, max(w.mean(1), 0.5), 0.5, 0.35} // by window
		require.InDelta(t, best[w.window-1], w.Best(), 1e-12)
		load *= 0.999
		if now <= 2000 {
			w.Reply(1)
			load += 0.001
		}
	}
	require.Less(t, load, 0.1, "it has rested")
}

// A period of Wave is as long as it is said, and the last is cut.
func TestScenarios_WaveHasItsPeriod(t *testing.T) {
	w, err := NewWorld(&Experiment{Scenario: "wave", Items: 4, Horizon: 100, Period: 6, Seed: 1}, 0)
	require.NoError(t, err)
	for now := 1; now <= 100; now++ {
		w.Next()
		require.InDelta(t, 0.8*float64((now-1)/3%2), w.mean(0), 1e-12, "t = %d", now)
	}
}

// Windows have the frequencies of their definition. Each of 50,000 draws lies within 6 standard deviations, and one of the some 300
// fails by chance with a probability below 6·10⁻⁷. The windows of Blocks are known exactly.
func TestScenarios_WindowsAreAsDefined(t *testing.T) {
	const seed, draws = 5, 50_000
	for _, s := range Scenarios() {
		w, err := NewWorld(&Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: draws, Seed: seed}, 0)
		require.NoError(t, err)
		counts := make([]float64, w.n)
		for now := 1; now <= draws; now++ {
			w.Next()
			counts[w.window-1]++
			if s.definition().blocks {
				require.Equal(t, 1+(now-1)*w.n/draws, w.window)
			}
		}
		if s.definition().blocks {
			continue
		}
		var total float64
		for k := range counts {
			total += weight(s, k+1)
		}
		for k, count := range counts {
			p := weight(s, k+1) / total
			require.InDelta(t, p, w.q[k], 1e-12, "%s, window %d", s, k+1)
			require.InDelta(t, p*draws, count, 6*math.Sqrt(p*(1-p)*draws)+1, "%s, window %d, seed %d", s, k+1, seed)
		}
	}
}

// Payoffs have the mean that regret is computed with, and the spread of their definition. Over 30,000 impressions, each is within 7
// standard errors (two-sided, 10⁻⁹ or less each even for the rarest, of which some 60 are expected). There are some 100.
func TestScenarios_PayoffsHaveTheirMeans(t *testing.T) {
	const seed, draws = 6, 30_000
	for _, s := range Scenarios() {
		for position := range int32(min(3, s.DefaultItems())) {
			w, err := NewWorld(&Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: draws, Seed: seed}, 1)
			require.NoError(t, err)
			var off, squares float64
			low, high := s.payoffRange()
			for range draws {
				w.Next()
				r := w.Reply(position)
				if !s.Gaussian() && !(r.Payoff >= low && r.Payoff <= high) {
					t.Fatalf("%s, position %d: payoff %v", s, position, r.Payoff)
				}
				x := r.Payoff - w.mean(position)
				off += x
				squares += x * x
			}
			deviation := math.Sqrt(squares / draws)
			require.InDelta(t, 0, off/draws, 7*deviation/math.Sqrt(draws), "%s, position %d, seed %d", s, position, seed)
			if s.Gaussian() {
				require.InDelta(t, 1, deviation, 6/math.Sqrt(2*draws), "%s", s)
			}
		}
	}
}

// Orders of utilities are fresh in each impression, and uniform: each item is at each rank as often as any other.
func TestScenarios_FreshOrdersAreUniform(t *testing.T) {
	const seed, n, draws = 7, 5, 60_000
	for _, s := range []Scenario{"changing", "ranks"} {
		w, err := NewWorld(&Experiment{Scenario: s, Items: n, Horizon: draws, Seed: seed}, 0)
		require.NoError(t, err)
		var counts [n][n]float64
		for range draws {
			w.Next()
			for k, item := range w.candidates {
				counts[item][k]++
			}
		}
		for i := range counts {
			for k := range counts[i] { // 6 standard deviations: 50 times 2·10⁻⁹
				require.InDelta(t, draws/n, counts[i][k], 6*math.Sqrt(draws*0.2*0.8), "%s, item %d, rank %d, seed %d", s, i, k, seed)
			}
		}
	}
}

func TestScenarios_Catalog(t *testing.T) {
	const seed, items, draws = 8, 200, 20_000
	w, err := NewWorld(&Experiment{Scenario: "catalog", Items: items, Horizon: draws, Seed: seed}, 0)
	require.NoError(t, err)
	counts := make([]float64, items)
	for range draws {
		w.Next()
		require.Len(t, w.candidates, 20)
		require.True(t, slices.IsSorted(w.candidates))
		require.Len(t, slices.Compact(slices.Clone(w.candidates)), 20, "all different")
		for _, item := range w.candidates {
			counts[item]++
		}
	}
	for _, c := range counts { // 6.5 standard deviations: 200 times 10⁻¹⁰
		require.InDelta(t, draws/10, c, 6.5*math.Sqrt(draws*0.1*0.9), "seed %d", seed)
	}
	var sum, squares float64
	for _, c := range w.centres {
		require.True(t, c >= 0 && c <= 1)
		sum += c
		squares += c * c
	}
	mean := sum / items
	require.InDelta(t, 0.75, mean, 6*0.08/math.Sqrt(items))
	require.InDelta(t, 0.08, math.Sqrt(squares/items-mean*mean), 6*0.08/math.Sqrt(2*items))
	few, err := NewWorld(&Experiment{Scenario: "catalog", Items: 7, Horizon: 10, Seed: seed}, 0)
	require.NoError(t, err)
	few.Next()
	require.Len(t, few.candidates, 7)
}

// permutations calls f with every order of n positions.
func permutations(n int, f func(order []int32)) {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
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

// Regret is measured against the best of all n! permutations: for each impression, or over all of them together.
func TestScenarios_BestInHindsightIsThatOfAllPermutations(t *testing.T) {
	for _, s := range selecting() {
		for n := 1; n <= 6; n++ {
			const horizon = 60
			w, err := NewWorld(&Experiment{Scenario: s, Items: n, Horizon: horizon, Seed: uint64(n)}, 2)
			require.NoError(t, err)
			total := make([]float64, n) // by position
			for now := range horizon {
				w.Next()
				for k := range total {
					total[k] += w.mean(int32(k))
				}
				best := math.Inf(-1)
				permutations(n, func(order []int32) { best = max(best, w.mean(policytest.Select(order, w.window))) })
				require.InDelta(t, best, w.Best(), 1e-12, "%s, n = %d, t = %d", s, n, now+1)
			}
			if !s.AgainstFixed() {
				continue
			}
			best := math.Inf(-1)
			permutations(n, func(order []int32) {
				var value float64
				for window := 1; window <= n; window++ {
					value += w.q[window-1] * total[policytest.Select(order, window)]
				}
				best = max(best, value)
			})
			require.InDelta(t, best, w.bestFixed(make([]float64, n)), 1e-9, "%s, n = %d", s, n)
		}
	}
}

// defaults is an experiment with the scenario's defaults.
func defaults(s Scenario, seed uint64) *Experiment {
	return &Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: s.DefaultHorizon(), PayoffDelay: s.DefaultPayoffDelay(), Runs: 1, Seed: seed}
}
