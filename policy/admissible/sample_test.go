package admissible

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// pieces are the points of [0,1] between which the selections do not change as u does, with 0 and 1: where x_w meets a
// T_k.
func pieces(p, q []float64) []float64 {
	cuts := []float64{0, 1}
	var tail float64
	for w := len(q) - 1; w >= 0; w-- {
		var reach float64
		for k := len(p) - 1; k >= 0; k-- {
			reach += p[k]
			if u := (reach - tail) / q[w]; u > 0 && u < 1 {
				cuts = append(cuts, u)
			}
		}
		tail += q[w]
	}
	slices.Sort(cuts)
	return cuts
}

// The propensity is exact: the probability of each item's selection, integrated over u piece by piece and over the
// windows, from the ranking as a user meets it, is p. So are the windows' own distributions those of the coupling.
func TestSample_PropensityIsExact(t *testing.T) {
	rng := newRand(t, 51)
	var s Sampler
	var solver Solver
	for trial := range 600 {
		n := 1 + trial%12
		q := randomWindows(rng, n)
		p := randomMember(rng, q)
		switch trial % 4 {
		case 0:
			copy(p, q)
		case 1:
			solver.Solve(p, randomLosses(rng, n), q, 0.3)
		}
		served := make([]float64, n)
		byWindow := make([][]float64, n)
		for w := range byWindow {
			byWindow[w] = make([]float64, n)
		}
		ranking := make([]int32, n)
		cuts := pieces(p, q)
		for k := range cuts[1:] {
			width := cuts[k+1] - cuts[k]
			s.Sample(p, q, cuts[k]+width/2, ranking)
			requireRanking(t, ranking)
			for w := range n {
				served[selected(ranking, w+1)] += width * q[w]
				byWindow[w][selected(ranking, w+1)] += width
			}
		}
		require.InDeltaSlice(t, p, served, 1e-13, "q %v, p %v", q, p)
		for w, column := range coupling(p, q) {
			if q[w] < 1e-6 {
				continue // which item a window of no probability selects is anyone's choice
			}
			for _, c := range column {
				require.InDelta(t, c.p, byWindow[w][c.item], 1e-9)
			}
		}
	}
}

// An item of probability zero is not selected, at the very end of [0,1) neither, where x_w meets the sums of p.
func TestSample_NothingOfProbabilityZeroIsSelected(t *testing.T) {
	rng := newRand(t, 54)
	var s Sampler
	for trial := range 400 {
		n := 2 + trial%8
		q, p := make([]float64, n), make([]float64, n)
		left := 64
		for k := range n { // binary fractions, so that sums are exact
			take := rng.IntN(left + 1)
			if k == n-1 {
				take = left
			}
			left -= take
			q[k] = float64(take) / 64
		}
		for w, v := range q {
			p[w+rng.IntN(n-w)] += v
		}
		ranking := make([]int32, n)
		for _, u := range []float64{0, 0.25, 0.5, 1 - 0x1p-53} {
			s.Sample(p, q, u, ranking)
			for w, v := range q {
				if v > 0 {
					require.Positive(t, p[selected(ranking, w+1)], "p %v, q %v, u %v, ranking %v", p, q, u, ranking)
				}
			}
		}
	}
}

// Sample draws exactly the rankings of RFSM's decomposition of the coupling, each with its weight. The order of items that no
// window selects is Algorithm 4's in both.
func TestSample_IsADrawFromRFSM(t *testing.T) {
	rng := newRand(t, 52)
	for trial := range 200 {
		n := 1 + trial%8
		q := make([]float64, n)
		for k := range q {
			q[k] = rng.Float64() + 0.05
		}
		normalise(q)
		p := randomMember(rng, q)
		var s Sampler
		ranking := make([]int32, n)
		drawn := map[string]float64{}
		cuts := pieces(p, q)
		for k := range cuts[1:] {
			s.Sample(p, q, (cuts[k]+cuts[k+1])/2, ranking)
			drawn[key(ranking)] += cuts[k+1] - cuts[k]
		}
		found := rfsm(coupling(p, q))
		// rfsm peels the lowest items first, u = 1 downwards: the same order, the same pieces.
		for _, d := range found {
			require.InDelta(t, d.weight, drawn[key(d.ranking)], 1e-11)
		}
	}
}

// Frequencies of the items selected, for u and windows drawn at random, against p by a chi-square test. Each of the 20
// tests rejects with probability 1e-8 when p is right: the test as a whole fails by chance with less than 2e-7.
func TestSample_FrequenciesFollowP(t *testing.T) {
	const draws, level = 20000, 1e-8
	rng := newRand(t, 53)
	var s Sampler
	var solver Solver
	for trial := range 20 {
		n := 2 + trial
		q := randomWindows(rng, n)
		p := make([]float64, n)
		solver.Solve(p, randomLosses(rng, n), q, 0.02)
		counts := make([]float64, n)
		ranking := make([]int32, n)
		for range draws {
			s.Sample(p, q, rng.Float64(), ranking)
			window, x := 1, rng.Float64()
			for x -= q[0]; x >= 0 && window < n; window++ {
				x -= q[window]
			}
			counts[selected(ranking, window)]++
		}
		var statistic, rest, restCount float64 // items that are expected less than ten times are pooled
		cells := 0
		add := func(count, expected float64) {
			statistic += (count - expected) * (count - expected) / expected
			cells++
		}
		for i, v := range p {
			if v*draws < 10 {
				rest, restCount = rest+v*draws, restCount+counts[i]
				continue
			}
			add(counts[i], v*draws)
		}
		if rest >= 10 {
			add(restCount, rest)
		}
		if cells < 2 {
			continue
		}
		limit := distuv.ChiSquared{K: float64(cells - 1)}.Quantile(1 - level)
		require.Less(t, statistic, limit, "n %d, q %v, p %v, counts %v", n, q, p, counts)
	}
}

// Whatever the numbers, even far outside of C, a ranking is a permutation.
func FuzzSample(f *testing.F) {
	f.Add([]byte{1, 2, 3}, 0.5)
	f.Add([]byte{0, 0, 9, 255}, math.NaN())
	f.Fuzz(func(t *testing.T, shape []byte, u float64) {
		if len(shape) == 0 || len(shape) > 100 {
			return
		}
		p, q := make([]float64, len(shape)), make([]float64, len(shape))
		for k, b := range shape {
			p[k], q[k] = float64(b&15)/16, float64(b>>4)/16
			if b == 255 {
				p[k] = math.NaN()
			}
		}
		ranking := make([]int32, len(shape))
		new(Sampler).Sample(p, q, u, ranking)
		requireRanking(t, ranking)
		new(Sampler).SampleByWorth(p, q, q, u, ranking)
		requireRanking(t, ranking)
	})
}

// By worth, each window selects the same item as otherwise. Each place that affects no window has the item of most worth among
// those that are liked less than the leader and not placed yet.
func TestSampleByWorth_TheBlockedStandInFallingWorth(t *testing.T) {
	rng := newRand(t, 54)
	var s Sampler
	var solver Solver
	for trial := range 2000 {
		n := 1 + trial%60
		q := randomWindows(rng, n)
		p, worth := make([]float64, n), make([]float64, n)
		solver.Solve(p, randomLosses(rng, n), q, 0.3)
		for i := range worth {
			worth[i] = float64(rng.IntN(1 + trial%9))
		}
		u := rng.Float64()
		plain, ranking := make([]int32, n), make([]int32, n)
		s.Sample(p, q, u, plain)
		s.SampleByWorth(p, q, worth, u, ranking)
		requireRanking(t, ranking)
		leader := int32(-1)
		for k, at := range ranking {
			require.Equal(t, selected(plain, k+1), selected(ranking, k+1))
			if at > leader {
				leader = at
				continue
			}
			for _, later := range ranking[k+1:] {
				if later < leader {
					require.True(t, worth[at] > worth[later] || worth[at] == worth[later] && at > later, "%v of worth %v", ranking, worth)
				}
			}
		}
	}
}
