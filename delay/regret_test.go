package delay

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
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
	instead instead // nil: nothing
}

// regret runs the paper's algorithm with its radius and δ = 0.05 under QPM-D.
func (s simulation) regret(t testing.TB) float64 {
	base, err := policy.NewElimination(policy.Confidence{Radius: policy.Paper, Delta: 0.05})
	require.NoError(t, err)
	return s.regretOf(NewQPMD(base))
}

func (s simulation) regretOf(l Learner) float64 {
	if s.instead != nil {
		l = s.instead(l)
	}
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
		l.Decide(candidates, nil, policy.DecisionKey(s.seed, 0, "", 0, int64(now)), &d)
		window := s.window(now, rng)
		if window == 0 {
			outcomes[now].Ref = -1
			continue
		}
		item := policytest.Select(d.Order, window)
		regret += policytest.BestMean(s.means, window) - s.means[item]
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

// additive are the checks that a delay of τ adds at most n·τ to the regret under lazy windows. With and without it, elimination
// loses less than half of the loss of the better of two learners that ignore payoffs. The seeds are fixed; over 20 others, the
// first limit was eight standard deviations of the difference away, and the others twenty.
func additive() (checks []check) {
	const n, horizon, runs = 10, 20_000, 12
	s := simulation{means: falling(n), horizon: horizon, window: lazy(n)}
	for _, lag := range []int{60, 300} {
		checks = append(checks, check{World: fmt.Sprint("τ = ", lag), Run: func(t testing.TB, i instead) error {
			s := s
			regret := func(lag int, i instead) func(seed uint64) float64 {
				return func(seed uint64) float64 {
					s.lag, s.seed, s.instead = lag, seed, i
					return s.regret(t)
				}
			}
			undelayed, _ := seeded(100).mean(runs, regret(0, i))
			delayed, _ := seeded(100).mean(runs, regret(lag, i))
			least := math.Inf(1)
			for _, learnsNothing := range nonLearners {
				least = min(least, regret(0, learnsNothing)(100))
			}
			t.Logf("τ = %d: %.0f, without delay %.0f, bound %d more; nothing learned %.0f", lag, delayed, undelayed, n*lag, least)
			return cmp.Or(below(delayed-undelayed, n*float64(lag), "more regret, n·τ"),
				below(undelayed, least/2, "regret without delay, half that of nothing learned"),
				below(delayed, least/2, "regret with delay, half that of nothing learned"))
		}})
	}
	return checks
}

func TestAppendixC2_DelayAddsAtMostNTauUnderLazyWindows(t *testing.T) {
	theoremtest.Holds(t, additive(), itself)
}

// heldUp are the checks that where windows are not drawn independently, QPM-D may be held up for ever. Here item 3, of the highest
// utility, is by far the best, and the only one with payoffs. Then, again and again, a user with window 3 selects it, and begins a
// hold for it. The next τ users look at one item only, and get item 1 or 2, as yet unseen. These payoffs are never fed, for BASE is
// asked again only when the next user with window 3 has come. Nothing that is drawn matters, so the regret is known exactly, and is
// linear; the same users without delay cost little.
func heldUp() (checks []check) {
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
		checks = append(checks, check{World: fmt.Sprint("T = ", horizon), Run: func(t testing.TB, i instead) error {
			s := simulation{means: []float64{0, 0, gap}, horizon: horizon, window: blocks, seed: 5, instead: i}
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
			return cmp.Or(below(math.Abs(gap*float64(waits)-delayed), 1e-6, "difference from what is lost while it waits, rounding"),
				below(undelayed, 0.1*delayed, "regret without delay, a tenth of that with it"))
		}})
	}
	return checks
}

func TestAppendixC2_LinearRegretUnderBlockWindows(t *testing.T) {
	theoremtest.Holds(t, heldUp(), itself)
}

// twoThirds are the checks that ε-greedy's regret grows as T^{2/3}: eightfold T costs about four times as much, with or without
// delay. Windows are given, or learned, which after a while makes no difference. Means of 12 runs, which vary by a tenth or so; the
// seeds are fixed, so that nothing is left to chance.
func twoThirds() (checks []check) {
	const n, runs, short, long = 10, 12, 4_000, 32_000
	for _, lag := range []int{0, 200} {
		checks = append(checks, check{World: fmt.Sprint("τ = ", lag), Run: func(t testing.TB, i instead) error {
			regret := func(horizon int, w WindowsConfig) float64 {
				mean, _ := seeded(700).mean(runs, func(seed uint64) float64 {
					d, err := NewExploringDirect(policy.NewEpsilonGreedy(), w, Silence{})
					require.NoError(t, err)
					return simulation{means: falling(n), horizon: horizon, lag: lag, window: lazy(n), seed: seed, instead: i}.regretOf(d)
				})
				return mean
			}
			given := WindowsConfig{Given: lazyWindows(t, n)}
			early, late := regret(short, given), regret(long, given)
			t.Logf("τ = %d: regret %.0f at T = %d, %.0f at %d", lag, early, short, late, long)
			if err := cmp.Or(below(late/early, math.Pow(8, 0.75), "growth, 8^{3/4}"), below(math.Pow(8, 0.5), late/early, "√8, growth")); err != nil {
				return err
			}
			learned := regret(long, WindowsConfig{Max: n})
			t.Logf("windows learned %.0f", learned)
			return below(math.Abs(late-learned), 0.2*late, "difference where windows are learned, a fifth")
		}})
	}
	return checks
}

// lazyWindows are the windows of lazy.
func lazyWindows(t testing.TB, n int) *admissible.Windows {
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
	return given
}

func TestSection41_RegretGrowsAsTheTwoThirdsPower(t *testing.T) {
	theoremtest.Holds(t, twoThirds(), itself)
}

// Under late payoffs, direct feeding with counts in flight costs less than QPM-D, for every policy with a bonus or a posterior. It
// costs a fraction of QPM-D with the paper's own policy. Means of 8 runs under lazy windows; the seeds are fixed, so that nothing
// is left to chance.
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
