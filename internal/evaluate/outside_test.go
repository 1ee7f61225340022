package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
)

// flatWorld draws a flat log. Its candidates are numbers, and its target is "new".
type flatWorld struct {
	rows     int
	policy   []float64 // of the log
	claimed  []float64 // propensities in the log; nil: the policy
	target   []float64
	blind    bool // without propensities of all candidates
	pay      func(rng *rand.Rand, action int) float64
	payRange config.Range
}

func (w *flatWorld) log(seed uint64) *bytes.Buffer {
	rng := rand.New(rand.NewPCG(seed, 1))
	claimed := w.claimed
	if claimed == nil {
		claimed = w.policy
	}
	var b bytes.Buffer
	line := func(v any) {
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			panic(err)
		}
	}
	var names []string
	for a := range w.policy {
		names = append(names, fmt.Sprint(a))
	}
	line(map[string]any{"flat": 1, "candidates": names, "targets": map[string]any{"new": w.target}})
	for range w.rows {
		a := draw(rng, w.policy)
		row := map[string]any{"action": names[a], "propensity": claimed[a], "payoff": w.pay(rng, a)}
		if !w.blind {
			row["propensities"] = claimed
		}
		line(row)
	}
	return &b
}

func (w *flatWorld) judge(t testing.TB, seed uint64, targets ...string) *Report {
	opt := unit()
	if w.payRange.Max != 0 {
		opt.Units = w.payRange
	}
	r, err := Flat(context.Background(), "f", w.log(seed), targets, opt)
	require.NoError(t, err)
	return r
}

// coins pay 1 with an item's probability, else 0.
func coins(means ...float64) func(*rand.Rand, int) float64 {
	return func(rng *rand.Rand, a int) float64 {
		if rng.Float64() < means[a] {
			return 1
		}
		return 0
	}
}

// four is a world of four items. The target is worth 0.48.
func four(rows int) flatWorld {
	return flatWorld{rows: rows, policy: []float64{0.4, 0.3, 0.2, 0.1}, target: []float64{0.1, 0.2, 0.3, 0.4}, pay: coins(0.2, 0.4, 0.6, 0.5)}
}

// covers requires that at most 27 of 200 intervals of a target miss the truth, and at most 27 at any look. If one in twenty does, there are more
// with a probability below 10⁻⁶.
func covers(t *testing.T, w flatWorld, truth float64) {
	t.Helper()
	var wrong, atAnyLook int
	for seed := range uint64(200) {
		got := w.judge(t, seed, "new").Targets[0]
		require.Equal(t, OK, got.Verdict, got.Reasons)
		if math.Abs(got.DR.Value-truth) > deviations*got.DR.Stderr {
			wrong++
		}
		if got.Sequence.Lower > truth || got.Sequence.Upper < truth {
			atAnyLook++
		}
	}
	t.Logf("of 200 intervals %d miss the truth, %d at any look", wrong, atAnyLook)
	require.LessOrEqual(t, wrong, 27)
	require.LessOrEqual(t, atAnyLook, 27)
}

// TestFlat_Blind: without propensities of all candidates, wrong propensities and selections that the log never makes show in the mean weight.
func TestFlat_Blind(t *testing.T) {
	w := four(2000)
	w.blind = true
	require.Nil(t, w.judge(t, 1, "new").Targets[0].Unsupported)
	covers(t, w, 0.48)
	always := w
	always.policy, always.claimed = []float64{1, 0, 0, 0}, []float64{1, 1, 1, 1}
	got := always.judge(t, 1, "new", Uniform)
	require.Contains(t, got.Targets[0].Reasons[0], "its weights have a mean of 0.1, not 1")
	require.Contains(t, got.Targets[1].Reasons[0], "its weights have a mean of 0.25, not 1")
	require.False(t, got.Targets[1].Bounded)
	wrong := w
	wrong.claimed = []float64{0.25, 0.25, 0.25, 0.25}
	require.Contains(t, wrong.judge(t, 1, "new").Targets[0].Reasons[0], "its weights have a mean of")
}

// TestFlat_Itself: a policy's worth is its payoff, even if its propensities are wrong.
func TestFlat_Itself(t *testing.T) {
	w := four(500)
	w.claimed = []float64{0.1, 0.1, 0.1, 0.7}
	w.target = w.claimed
	r := w.judge(t, 1, "new")
	require.InDelta(t, *r.Log.Logged, r.Targets[0].DR.Value, 1e-12)
	require.Zero(t, r.Targets[0].Difference.Value)
}

// TestFlat_WideRange: the value does not depend on the payoff range, and bounds at any look follow the payoffs.
func TestFlat_WideRange(t *testing.T) {
	w := four(10_000)
	w.target = []float64{0.3, 0.3, 0.2, 0.2}
	truth := 0.06 + 0.12 + 0.12 + 0.1
	narrow := w.judge(t, 1, "new").Targets[0]
	for _, payRange := range []config.Range{{Min: 0, Max: 500}, {Min: 0, Max: 5000}, {Min: -5000, Max: 5000}} {
		w.payRange = payRange
		r := w.judge(t, 1, "new", Logging)
		wide := r.Targets[0]
		t.Log(payRange, wide.Sequence, r.Targets[1].Sequence)
		require.InDelta(t, narrow.DR.Value, wide.DR.Value, 1e-6)
		require.InDelta(t, narrow.DR.Stderr, wide.DR.Stderr, 1e-6)
		require.True(t, wide.Sequence.Lower < truth && truth < wide.Sequence.Upper)
		require.Less(t, wide.Sequence.Upper, truth+0.004*(payRange.Max-payRange.Min))
		if payRange.Min == 0 {
			require.Greater(t, wide.Sequence.Lower, truth/2)
		}
	}
	w.rows, w.payRange = 2000, config.Range{Min: 0, Max: 500}
	covers(t, w, truth)
}

// TestFlat_AnyLook: bounds at any look are wrong in at most 5 % of logs, with payoffs that use their range, are far below its end, or have
// heavy tails. Of 300 logs, more than 37 are wrong by chance with a probability below 10⁻⁶.
func TestFlat_AnyLook(t *testing.T) {
	for name, quantile := range map[string]func(u float64) float64{
		"coin":  func(u float64) float64 { return math.Round(u) },
		"small": func(u float64) float64 { return 1e-4 * u },
		"rare":  func(u float64) float64 { return math.Floor(u + 0.002) },
		"tail":  func(u float64) float64 { return min(1, 0.001*math.Pow(1-u, -1/1.1)) },
	} {
		truth := 0.0
		for k := range 100_000 {
			truth += quantile((float64(k)+0.5)/100_000) / 100_000
		}
		wrong, target := 0, []float64{0.1, 0.2, 0.7}
		for seed := range uint64(300) {
			rng := rand.New(rand.NewPCG(seed, 2))
			e, m := newEstimator(math.Inf(1)), means{}
			p := []float64{0.5, 0.35, 0.15}
			for k := range 500 {
				x := row{selected: draw(rng, p), payoff: quantile(rng.Float64()), logged: p}
				x.p = p[x.selected]
				m.predict(&x, []int32{0, 1, 2})
				m.paid(int32(x.selected), x.payoff)
				if e.add(&x, target); k%50 == 49 && (truth < e.lower.bound(alpha) || truth > 1-e.upper.bound(alpha)) {
					wrong++
					break
				}
			}
		}
		t.Log(name, truth, wrong)
		require.LessOrEqual(t, wrong, 37, name)
	}
}

// TestFlat_HeavyTails: no interval of one look is printed where a single payoff makes up much of the variance, and no value where it makes up
// most.
func TestFlat_HeavyTails(t *testing.T) {
	const upTo = 1e6
	w := four(2000)
	w.payRange = config.Range{Min: 0, Max: upTo}
	intervals, refused := 0, 0
	for seed := range uint64(200) {
		w.pay = func(rng *rand.Rand, _ int) float64 { return min(upTo, math.Pow(1-rng.Float64(), -1/1.1)) }
		got := w.judge(t, seed, "new").Targets[0]
		if got.Verdict == Refused {
			refused++
			require.Contains(t, got.Reasons[0], "of their variance")
			require.True(t, got.Bounded)
		} else if got.DR.Lower != nil {
			intervals++
		}
	}
	t.Logf("%d refused, %d with an interval, of 200", refused, intervals)
	require.Greater(t, refused, 30)
	require.Less(t, intervals, 25)
}

// TestFlat_Extremes: whatever a log holds, a report is JSON, and its counts are not negative.
func TestFlat_Extremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extreme := rapid.SampledFrom([]float64{0, 1e-300, 1e-12, 1e-9, 1e-6, 0.1, 0.5, 1})
		w := four(rapid.IntRange(0, 60).Draw(t, "rows"))
		w.blind = rapid.Bool().Draw(t, "blind")
		p := extreme.Draw(t, "p")
		w.claimed = []float64{1 - p, p, 0, 0}
		w.policy = []float64{0.5, 0.5, 0, 0}
		pi := extreme.Draw(t, "pi")
		w.target = []float64{pi, 1 - pi, 0, 0}
		end := rapid.SampledFrom([]float64{1, 1e-100, 1e100}).Draw(t, "range")
		w.payRange = config.Range{Min: 0, Max: end}
		w.pay = func(rng *rand.Rand, a int) float64 { return end * rng.Float64() }
		opt := unit()
		opt.Units = w.payRange
		r, err := Flat(context.Background(), "f", w.log(1), nil, opt)
		if err != nil {
			require.ErrorContains(t, err, "propensity is")
			return
		}
		_, err = json.Marshal(r)
		require.NoError(t, err)
		for _, x := range r.Targets {
			require.GreaterOrEqual(t, x.EffectiveSamples, 0.0)
			require.LessOrEqual(t, x.EffectiveSamples, float64(w.rows)+1e-6)
		}
	})
}
