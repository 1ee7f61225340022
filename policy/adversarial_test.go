package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

func newFTRL(t testing.TB, shifted bool) *policy.FTRL {
	f, err := policy.NewFTRL(1, shifted)
	require.NoError(t, err)
	return f
}

// newOSMD returns one for a horizon in payoffs per instance; 0 doubles it.
func newOSMD(t require.TestingT, horizon int64) *policy.OSMD {
	var p policy.Parameters
	if horizon > 0 {
		p.Eta = math.Sqrt(2 / float64(horizon))
	}
	o, err := policy.SpecOf("osmd").Oppose(&p)
	require.NoError(t, err)
	return o.(*policy.OSMD)
}

func workspace() *policy.AdversarialWorkspace {
	return &policy.AdversarialWorkspace{}
}

// geometric are windows with P(w) ∝ 0.7^w, folded for lists of n.
func geometric(t testing.TB, n int) []float64 {
	w, err := admissible.Geometric(0.7, max(n, 2))
	require.NoError(t, err)
	return w.Fold(make([]float64, n))
}

func upTo(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// Averaged over the selections, with the probabilities of any decision, the estimate is the loss: exactly, not by drawing. And the
// update uses the estimate.
func TestSection43_LossEstimatesAreUnbiased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		w, err := admissible.Geometric(0.7, n)
		require.NoError(t, err)
		q := w.Fold(make([]float64, n))
		g, p := make([]float64, n), make([]float64, n)
		for i := range g {
			g[i] = rapid.Float64Range(-100, 100).Draw(t, "g")
		}
		(&admissible.Solver{}).Solve(p, g, q, rapid.Float64Range(1e-3, 10).Draw(t, "eta"))
		for i, propensity := range p {
			payoff := rapid.Float64Range(0, 1).Draw(t, "payoff")
			estimate, ok := policy.Loss(payoff, propensity)
			require.True(t, ok)
			require.InDelta(t, 1-payoff, propensity*estimate, 1e-12, "item %d of propensity %v", i, propensity)
		}
	})
	theoremtest.Holds(t, unbiased(), itself)
}

// unbiased are the checks of the growth of FTRL's cumulative losses. Averaged over the selections, with the probabilities of its
// own decision, it is the loss of each coordinate. Where losses are shifted, it is that minus a term that is the same for all.
// (OSMD keeps no losses; it uses an estimate in Algorithm 5's step.)
func unbiased() (checks []check) {
	for world, shifted := range map[string]bool{"losses of items": true, "losses of ranks": false} {
		checks = append(checks, check{World: world, Run: func(t testing.TB, i instead) error {
			a, ws, rng := i(newFTRL(t, shifted)), workspace(), rand.New(rand.NewPCG(43, 1))
			for n := 2; n <= 8; n++ {
				q, losses := geometric(t, n), make([]float64, n)
				for k := range losses {
					losses[k] = rng.Float64()
				}
				grown, shift := growth(a, losses, q, ws), 0.0
				if shifted {
					shift = losses[0] - grown[0]
				}
				for k, x := range grown {
					x += shift
					if !(math.Abs(x-losses[k]) <= 1e-9) {
						return fmt.Errorf("the loss of %d of %d grows by %g in the mean, and should by %g", k, n, x, losses[k])
					}
				}
			}
			return nil
		}})
	}
	return checks
}

// growth is the mean growth of a's state of each coordinate over its selections, after 50 payoffs.
func growth(a policy.Adversarial, losses, q []float64, ws *policy.AdversarialWorkspace) []float64 {
	n := len(losses)
	p := make([]float64, n)
	learn := func(v *policy.Vector) {
		rng := rand.New(rand.NewPCG(43, 2))
		for range 50 {
			a.Point(v, upTo(n), q, p, ws)
			y := drawn(p, rng)
			a.Feed(v, upTo(n), y, 1-losses[y], p[y], q, ws)
		}
		a.Point(v, upTo(n), q, p, ws)
	}
	grown := make([]float64, n)
	for y := range n {
		var v policy.Vector
		learn(&v)
		for k := range grown {
			before, _ := v.Get(int32(k))
			grown[k] -= p[y] * before
		}
		a.Feed(&v, upTo(n), y, 1-losses[y], p[y], q, ws)
		for k := range grown {
			after, _ := v.Get(int32(k))
			grown[k] += p[y] * after
		}
	}
	return grown
}

// drawn is drawn from p.
func drawn(p []float64, rng *rand.Rand) int {
	u := rng.Float64()
	for y, x := range p {
		if u -= x; u < 0 {
			return y
		}
	}
	return len(p) - 1
}

// By items, an update adds, averaged over the selections, ℓ_i minus the expected loss: the same for all, so that it changes no
// point.
func TestFTRL_TheShiftIsTheSameForAll(t *testing.T) {
	f, ws := newFTRL(t, true), workspace()
	q := geometric(t, 5)
	losses := []float64{0.1, 0.9, 0.4, 0, 1}
	p := make([]float64, 5)
	f.Point(&policy.Vector{}, upTo(5), q, p, ws)
	var added [5]float64
	var expected float64
	for y := range p {
		var v policy.Vector
		require.True(t, f.Feed(&v, upTo(5), y, 1-losses[y], p[y], q, ws))
		for i := range added {
			x, _ := v.Get(int32(i))
			added[i] += p[y] * x
		}
		expected += p[y] * losses[y]
	}
	for i, x := range added {
		require.InDelta(t, losses[i]-expected, x, 1e-12)
	}
}

// With candidates that stay as they are, the two indices are the same algorithm.
func TestFTRL_ItemsAndRanksAreTheSameUnderFixedCandidates(t *testing.T) {
	byItem, byRank, ws := newFTRL(t, true), newFTRL(t, false), workspace()
	rng := rand.New(rand.NewPCG(3, 3))
	const n = 6
	q := geometric(t, n)
	items := []int32{40, 3, 77, 12, 5, 0}
	var a, b policy.Vector
	p, other := make([]float64, n), make([]float64, n)
	for range 2000 {
		byItem.Point(&a, items, q, p, ws)
		byRank.Point(&b, upTo(n), q, other, ws)
		for i := range p {
			require.InEpsilon(t, other[i], p[i], 1e-6)
		}
		y := rng.IntN(n)
		payoff := rng.Float64()
		require.True(t, byItem.Feed(&a, items, y, payoff, p[y], q, ws))
		require.True(t, byRank.Feed(&b, upTo(n), y, payoff, p[y], q, ws))
	}
	require.EqualValues(t, 2000, a.Rounds())
}

// A new item starts at the median of the candidates that are known, the lower one of two, and is stored with its first
// update only.
func TestFTRL_NewItemsStartAtTheMedian(t *testing.T) {
	f, ws := newFTRL(t, true), workspace()
	q := geometric(t, 5)
	var v, all policy.Vector
	for i, x := range []float64{7, -3, 2, 11} {
		v.Set(int32(i), x)
		all.Set(int32(i), x)
	}
	all.Set(9, 2)
	p, want := make([]float64, 5), make([]float64, 5)
	items := []int32{0, 9, 1, 2, 3}
	f.Point(&v, items, q, p, ws)
	f.Point(&all, items, q, want, ws)
	require.Equal(t, want, p)
	_, known := v.Get(9)
	require.False(t, known)
	require.True(t, f.Feed(&v, items, 2, 0.5, 0.25, q, ws))
	for i, x := range map[int32]float64{0: 6.5, 9: 1.5, 1: -3 + 2 - 0.5, 2: 1.5, 3: 10.5} {
		got, _ := v.Get(i)
		require.Equal(t, x, got, "item %d", i)
	}
	require.True(t, f.Feed(&v, []int32{1, 2}, 0, 1, 0.5, q[:2], ws))
	got, _ := v.Get(9)
	require.Equal(t, 1.5, got, "what is absent stays as it is")
}

func TestFTRL_RateFallsWithTheRoot(t *testing.T) {
	f, err := policy.NewFTRL(3, true)
	require.NoError(t, err)
	require.Equal(t, 3.0, f.Eta(0))
	require.Equal(t, 1.5, f.Eta(3))
	for _, faulty := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := policy.NewFTRL(faulty, true)
		require.ErrorIs(t, err, policy.ErrAdversarial)
	}
}

// After 1, 3, 7, … payoffs a doubled horizon starts again, with the rate of the next power of 2.
func TestOSMD_DoubledHorizonRestarts(t *testing.T) {
	o, ws := newOSMD(t, 0), workspace()
	q := geometric(t, 4)
	start, p := make([]float64, 4), make([]float64, 4)
	var v policy.Vector
	o.Point(&v, upTo(4), q, start, ws)
	for fed := range 40 {
		o.Point(&v, upTo(4), q, p, ws)
		restarted := slices.Contains([]int{0, 1, 3, 7, 15, 31}, fed)
		require.Equal(t, restarted, slices.Equal(start, p), "after %d", fed)
		horizon := 1
		for 2*horizon <= fed+1 {
			horizon *= 2
		}
		require.Equal(t, math.Sqrt(2/float64(horizon)), o.Eta(int64(fed)))
		require.True(t, o.Feed(&v, upTo(4), 1, 0.2, p[1], q, ws))
	}
}

// A configured rate is the one of each step.
func TestOSMD_StepsByTheConfiguredRate(t *testing.T) {
	for _, spec := range policy.Specs {
		for _, eta := range []float64{1e-6, 0.55, 0.9, 1.2, 5, 1e6} {
			if spec.Name != "osmd" {
				continue
			}
			o, err := spec.Oppose(&policy.Parameters{Eta: eta})
			require.NoError(t, err)
			require.Equal(t, eta, o.(*policy.OSMD).Eta(7))
		}
	}
}

// mirrorSteps are the checks that the mirror step is the paper's. From p, it is ∇F(p') = ∇F(p) − ηℓ̂, projected by the Bregman
// divergence of F, which is D(x,y) = Σ (√x_i − √y_i)²/√y_i. Nothing in C nearby is closer.
func mirrorSteps() []check {
	return []check{{World: "300 steps of six items", Run: func(t testing.TB, i instead) error {
		o, ws := newOSMD(t, 100), workspace()
		a := i(o)
		rng := rand.New(rand.NewPCG(5, 5))
		const n = 6
		q := geometric(t, n)
		var v policy.Vector
		p, next := make([]float64, n), make([]float64, n)
		for step := range 300 {
			a.Point(&v, upTo(n), q, p, ws)
			y, payoff := rng.IntN(n), rng.Float64()
			mirrored := make([]float64, n)
			for i, x := range p {
				d := 1 / math.Sqrt(x)
				if i == y {
					d += o.Eta(0) * (1 - payoff) / p[y]
				}
				mirrored[i] = 1 / (d * d)
			}
			if !a.Feed(&v, upTo(n), y, payoff, p[y], q, ws) {
				return fmt.Errorf("step %d: a payoff of propensity %g is not fed", step, p[y])
			}
			a.Point(&v, upTo(n), q, next, ws)
			if err := admissibletest.Contains(next, q, 1e-9); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			for range 20 {
				if to := towards(next, q, rng); !(divergence(to, mirrored) >= divergence(next, mirrored)-1e-12) {
					return fmt.Errorf("step %d: %v is nearer than %v", step, to, next)
				}
			}
		}
		return nil
	}}}
}

// divergence is OSMD's D(x,y).
func divergence(x, y []float64) (d float64) {
	for i := range x {
		r := math.Sqrt(x[i]) - math.Sqrt(y[i])
		d += r * r / math.Sqrt(y[i])
	}
	return d
}

// towards goes a little way from p to another point of C: those of rankings, and mixtures.
func towards(p, q []float64, rng *rand.Rand) []float64 {
	g, to := make([]float64, len(p)), make([]float64, len(p))
	for i := range g {
		g[i] = rng.NormFloat64()
	}
	(&admissible.Solver{}).Solve(to, g, q, math.Exp(4*rng.NormFloat64()))
	for i := range to {
		to[i] = p[i] + 1e-3*(to[i]-p[i])
	}
	return to
}

func TestAlgorithm5_TheStepIsTheBregmanProjection(t *testing.T) {
	theoremtest.Holds(t, mirrorSteps(), itself)
}

// Items that no window selects are left out, and the others go on; where a window distribution does not suffice for them, OSMD
// starts again.
func TestOSMD_LeavesOutWhatCannotBeSelected(t *testing.T) {
	o, ws := newOSMD(t, 100), workspace()
	q := []float64{0, 0.5, 0, 0.3, 0.2}
	var v policy.Vector
	p := make([]float64, 5)
	for round := range 50 {
		o.Point(&v, upTo(5), q, p, ws)
		require.NoError(t, admissibletest.Contains(p, q, 1e-9))
		require.Zero(t, p[0])
		require.True(t, o.Feed(&v, upTo(5), 1+round%4, 0.3, p[1+round%4], q, ws))
	}
	// Now windows of 1 exist: the item stays out, the others still suffice.
	o.Point(&v, upTo(5), geometric(t, 5), p, ws)
	require.Zero(t, p[0])
	require.NoError(t, admissibletest.Contains(p, geometric(t, 5), 1e-9))
	// In another order of utilities it is the last, and must be selected: OSMD starts again.
	reversed := []int32{4, 3, 2, 1, 0}
	o.Point(&v, reversed, geometric(t, 5), p, ws)
	want := make([]float64, 5)
	o.Point(&policy.Vector{}, reversed, geometric(t, 5), want, ws)
	require.Equal(t, want, p)
}

// Whatever propensities, payoffs and rates are thrown at them, points stay distributions in C and vectors stay finite and
// valid. Propensities that are no normal numbers are not fed at all.
func TestAdversarial_ExtremesMakeNoNaN(t *testing.T) {
	extremes := []float64{0, 0x1p-1074, 0x1p-1023, policy.LeastPropensity, 1e-300, 1e-100, 1e-10, 0.5, 1, math.NaN(),
		math.Inf(1), -1, 2}
	rapid.Check(t, func(t *rapid.T) {
		shifted, err := policy.NewFTRL(rapid.SampledFrom([]float64{1, 1e-9, 1e9}).Draw(t, "scale"), true)
		require.NoError(t, err)
		plain, err := policy.NewFTRL(1, false)
		require.NoError(t, err)
		known := newOSMD(t, rapid.SampledFrom([]int64{1, 1000, 1 << 60}).Draw(t, "horizon"))
		doubled := newOSMD(t, 0)
		n := rapid.IntRange(1, 40).Draw(t, "n")
		w, err := admissible.Geometric(rapid.SampledFrom([]float64{0.7, 1, 1e-3}).Draw(t, "ratio"), 20)
		require.NoError(t, err)
		ws := workspace()
		for _, a := range []policy.Adversarial{shifted, plain, known, doubled} {
			var v policy.Vector
			v.SetRounds(rapid.SampledFrom([]int64{0, 5, 1 << 40}).Draw(t, "rounds"))
			for range rapid.IntRange(1, 12).Draw(t, "payoffs") {
				m := rapid.IntRange(1, n).Draw(t, "candidates")
				items := rapid.Permutation(upTo(n)).Draw(t, "items")[:m]
				q := w.Fold(make([]float64, m))
				p := make([]float64, m)
				a.Point(&v, items, q, p, ws)
				require.NoError(t, admissibletest.Contains(p, q, 1e-11), "%s: %v", a.Name(), p)
				propensity := rapid.SampledFrom(extremes).Draw(t, "propensity")
				payoff := rapid.SampledFrom([]float64{0, 1, 0.5, 0x1p-1074, math.NaN(), 2, -1}).Draw(t, "payoff")
				fed := a.Feed(&v, items, rapid.IntRange(0, m-1).Draw(t, "selected"), payoff, propensity, q, ws)
				require.Equal(t, propensity >= policy.LeastPropensity && propensity <= 1 && payoff >= 0 && payoff <= 1, fed)
			}
			for _, i := range upTo(n) {
				x, _ := v.Get(i)
				require.True(t, !math.IsNaN(x) && !math.IsInf(x, 0) && a.Valid(x), "%s: %v", a.Name(), x)
			}
		}
	})
}

func BenchmarkAdversarial_Decision(b *testing.B) {
	for _, a := range []policy.Adversarial{newFTRL(b, true), newFTRL(b, false), newOSMD(b, 1<<20)} {
		for _, n := range []int{20, 100, 1000} {
			index := ""
			if f, ok := a.(*policy.FTRL); ok {
				index = map[bool]string{true: "-item", false: "-rank"}[f.Shifted()]
			}
			b.Run(fmt.Sprintf("%s%s/%d", a.Name(), index, n), func(b *testing.B) {
				ws, q, p := workspace(), geometric(b, n), make([]float64, n)
				var v policy.Vector
				var sampler admissible.Sampler
				order := make([]int32, n)
				rng := rand.New(rand.NewPCG(1, 1))
				items := upTo(n)
				b.ReportAllocs()
				for b.Loop() {
					a.Point(&v, items, q, p, ws)
					sampler.Sample(p, q, rng.Float64(), order)
					y := order[0]
					payoff := 0.0
					if rng.Float64() < 0.8-0.6*float64(y)/float64(n) {
						payoff = 1
					}
					a.Feed(&v, items, int(y), payoff, p[y], q, ws)
				}
			})
		}
	}
}
