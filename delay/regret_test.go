package delay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// simulation has one user after another, with items labelled in increasing utility and payoffs N(mean, 1). The payoff of
// impression t can be used from decision t+lag+1 on.
type simulation struct {
	means   []float64
	horizon int
	lag     int
	window  func(t int, rng *rand.Rand) int // of impression t, from 0; 0 where nobody selects
	seed    uint64
}

// regret runs the paper's algorithm with its radius and δ = 0.05 under QPM-D.
func (s simulation) regret(t testing.TB) float64 {
	base, err := policy.NewElimination(policy.Confidence{Radius: policy.Paper, Delta: 0.05})
	require.NoError(t, err)
	return s.regretOf(NewQPMD(base))
}

func (s simulation) regretOf(l Learner) float64 {
	l.Grow(len(s.means))
	rng := rand.New(rand.NewPCG(s.seed, 1))
	candidates := make([]policy.Item, len(s.means))
	for i := range candidates {
		candidates[i] = policy.Item(i)
	}
	var d Decision
	var regret float64
	outcomes := make([]Feedback, s.horizon)
	for now := range s.horizon {
		if late := now - s.lag - 1; late >= 0 && outcomes[late].Ref >= 0 {
			l.Paid(outcomes[late])
		}
		l.Decide(candidates, policy.DecisionKey(s.seed, 0, "", 0, int64(now)), &d)
		window := s.window(now, rng)
		if window == 0 {
			outcomes[now].Ref = -1
			continue
		}
		item := policy.Select(d.Order, window)
		regret += policy.BestMean(s.means, window) - s.means[item]
		fb := Feedback{Ref: int64(now), Item: item, Payoff: s.means[item] + rng.NormFloat64(), Candidates: candidates}
		fb.Order = d.Order // until the next decision
		l.Selected(fb)
		l.Advance(int64(now) * 100)
		fb.Order = nil
		outcomes[now] = fb
	}
	return regret
}

// lazy is the distribution P(w) ∝ e^{−(w−1)/2} on 1..n.
func lazy(n int) func(int, *rand.Rand) int {
	cumulative := make([]float64, n)
	var sum float64
	for w := range n {
		sum += math.Exp(-float64(w) / 2)
		cumulative[w] = sum
	}
	return func(_ int, rng *rand.Rand) int {
		u := rng.Float64() * sum
		for w, c := range cumulative {
			if u < c {
				return w + 1
			}
		}
		return n
	}
}

// falling are means that fall in utility, 1 − (i−1)/n.
func falling(n int) []float64 {
	means := make([]float64, n)
	for i := range means {
		means[i] = 1 - float64(i)/float64(n)
	}
	return means
}

func TestAppendixC2_DelayAddsAtMostNTauUnderLazyWindows(t *testing.T) {
	const n, horizon, runs = 10, 20_000, 12
	for _, lag := range []int{30, 300} {
		var sum, squares float64
		for run := range uint64(runs) {
			s := simulation{means: falling(n), horizon: horizon, window: lazy(n), seed: 100 + run}
			undelayed := s.regret(t)
			s.lag = lag
			more := s.regret(t) - undelayed
			sum += more
			squares += more * more
		}
		mean := sum / runs
		deviation := math.Sqrt((squares - sum*mean) / (runs - 1))
		// The bound is five or more standard errors away from what is expected, so that it fails by chance less than once
		// in a million times; the seeds are fixed besides.
		t.Logf("τ = %d: %.0f more regret (standard deviation %.0f a run), bound %d", lag, mean, deviation, n*lag)
		require.LessOrEqual(t, mean, float64(n*lag))
	}
}

// Where windows are not drawn independently, QPM-D may be held up for ever. Here item 3, of the highest utility, is by
// far the best, and the only one of which anything is known. Then, over and over, a user with window 3 selects it, and
// begins a hold for it, and the next τ users look at one item only, and get item 1 or 2, as yet unseen. These payoffs
// are never fed, for BASE is asked again only when the next user with window 3 has come. Nothing that is drawn matters,
// so the regret is known exactly, and is linear; the same users without delay cost little.
func TestAppendixC2_LinearRegretUnderBlockWindows(t *testing.T) {
	const tau, gap = 100, 0.8
	blocks := func(t int, _ *rand.Rand) int {
		switch {
		case t%(tau+1) == 0:
			return 3
		case t < tau+1:
			return 0 // the first payoff comes before there is another user
		}
		return 1
	}
	for _, horizon := range []int{10_000, 20_000, 40_000} {
		s := simulation{means: []float64{0, 0, gap}, horizon: horizon, window: blocks, seed: 5}
		undelayed := s.regret(t)
		s.lag = tau
		delayed := s.regret(t)
		t.Logf("T = %d: regret %.0f, without delay %.0f", horizon, delayed, undelayed)
		waits := 0
		for now := range horizon {
			if blocks(now, nil) == 1 {
				waits++
			}
		}
		require.InDelta(t, gap*float64(waits), delayed, 1e-6)
		require.Less(t, undelayed, 0.1*delayed)
	}
}

// ε-greedy's regret grows as T^{2/3}: eightfold T costs about four times as much, with or without delay, with windows
// given, and learned, which after a while makes no difference. Means of 12 runs, which vary by a tenth or so; the seeds are
// fixed, so that nothing is left to chance.
func TestSection41_RegretGrowsAsTheTwoThirdsPower(t *testing.T) {
	const n, runs, short, long = 10, 12, 4_000, 32_000
	weights := make([]float64, n)
	var sum float64
	for w := range weights {
		weights[w] = math.Exp(-float64(w) / 2)
		sum += weights[w]
	}
	for w := range weights {
		weights[w] /= sum
	}
	given, err := admissible.NewWindows(weights)
	require.NoError(t, err)
	for _, lag := range []int{0, 200} {
		regret := func(horizon int, w WindowsConfig) (mean float64) {
			for run := range uint64(runs) {
				d, err := NewExploringDirect(policy.NewEpsilonGreedy(), w, Silence{})
				require.NoError(t, err)
				s := simulation{means: falling(n), horizon: horizon, lag: lag, window: lazy(n), seed: 700 + run}
				mean += s.regretOf(d) / runs
			}
			return mean
		}
		early, late := regret(short, WindowsConfig{Given: given}), regret(long, WindowsConfig{Given: given})
		learned := regret(long, WindowsConfig{Max: n})
		t.Logf("τ = %d: regret %.0f at T = %d, %.0f at %d, windows learned %.0f", lag, early, short, late, long, learned)
		require.Less(t, late/early, math.Pow(8, 0.75))
		require.Greater(t, late/early, math.Pow(8, 0.5))
		require.InDelta(t, late, learned, 0.2*late)
	}
}

// Under late payoffs, direct feeding with counts of what is in flight costs less than QPM-D, for every policy with a bonus
// or a posterior, and a fraction of what QPM-D costs with the paper's own policy. Means of 8 runs under lazy windows; the
// seeds are fixed, so that nothing is left to chance.
func TestDirect_LatePayoffsCostLessThanWithQPMD(t *testing.T) {
	const n, horizon, lag, runs = 10, 40_000, 1000, 8
	mean := func(make func() Learner) (mean float64) {
		for run := range uint64(runs) {
			s := simulation{means: falling(n), horizon: horizon, lag: lag, window: lazy(n), seed: 900 + run}
			mean += s.regretOf(make()) / runs
		}
		return mean
	}
	elimination, err := policy.NewElimination(policy.Confidence{Radius: policy.Paper, Delta: 0.05})
	require.NoError(t, err)
	paper := mean(func() Learner { return NewQPMD(elimination) })
	t.Logf("elimination: qpmd %.0f", paper)
	unit := policy.Belief{Sigma: 1}
	optimistic, err := policy.NewOptimistic(unit)
	require.NoError(t, err)
	moss, err := policy.NewMOSS(unit)
	require.NoError(t, err)
	thompson, err := policy.NewThompson(unit)
	require.NoError(t, err)
	for _, p := range []policy.Policy{optimistic, moss, thompson} {
		direct, qpmd := mean(func() Learner { return NewDirect(p, Silence{}) }), mean(func() Learner { return NewQPMD(p) })
		t.Logf("%T: direct %.0f, qpmd %.0f", p, direct, qpmd)
		require.Less(t, direct, qpmd)
		require.Less(t, direct, 0.25*paper)
	}
}
