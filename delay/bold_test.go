package delay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

func osmdBase(t require.TestingT, horizon int64) policy.Adversarial {
	var p policy.Parameters
	if horizon > 0 {
		p.Eta = math.Sqrt(2 / float64(horizon))
	}
	o, err := policy.SpecOf("osmd").Oppose(&p)
	require.NoError(t, err)
	return o
}

func ftrlBase(t require.TestingT, index LossIndex) policy.Adversarial {
	f, err := policy.NewFTRL(1, index == LossByItem)
	require.NoError(t, err)
	return f
}

func geometricWindows(t require.TestingT) *admissible.Windows {
	w, err := admissible.Geometric(0.7, 20)
	require.NoError(t, err)
	return w
}

func newBOLD(t require.TestingT, c BOLDConfig, items int) *BOLD {
	b, err := NewBOLD(c)
	require.NoError(t, err)
	b.Grow(items)
	return b
}

// feedback is the partition's feedback on a decision once item candidates[rank] is selected.
func feedback(ref int64, candidates []policy.Item, d *Decision, rank int32) Feedback {
	fb := Feedback{Ref: ref, Item: candidates[rank], Candidates: slices.Clone(candidates), Instance: d.Instance,
		Order: slices.Clone(d.Order)}
	if len(d.Propensities) > 0 {
		fb.Propensity = d.Propensities[slices.Index(d.Order, rank)]
	}
	if len(d.Expected) > 0 {
		fb.Expected, fb.HasExpected = d.Expected[slices.Index(d.Order, rank)], true
	}
	return fb
}

func allItems(n int) []policy.Item {
	items := make([]policy.Item, n)
	for i := range items {
		items[i] = policy.Item(i)
	}
	return items
}

// crowd are users with windows P(w) ∝ 0.7^(w−1), w ≤ n, and Bernoulli payoffs of mean(t, item).
type crowd struct {
	n    int
	seed uint64
	mean func(t, item int) float64
}

func (c crowd) window(t int) int {
	u, w := policy.DecisionKey(c.seed, 1, "window", 0, int64(t)).Float64(0), 1
	total := (1 - math.Pow(0.7, float64(c.n))) / 0.3
	for u *= total; w < c.n && u >= math.Pow(0.7, float64(w-1)); w++ {
		u -= math.Pow(0.7, float64(w-1))
	}
	return w
}

func (c crowd) payoff(t int, item policy.Item) float64 {
	if policy.DecisionKey(c.seed, 2, "payoff", 0, int64(t)).Float64(uint64(item)) < c.mean(t+1, int(item)+1) {
		return 1
	}
	return 0
}

func (c crowd) key(t int) policy.Key { return policy.DecisionKey(c.seed, 0, "decision", 0, int64(t)) }

// The payoff scenarios, by round from 1 and item from 1.
func stationary(n int) func(t, i int) float64 {
	return func(_, i int) float64 { return 0.8 - 0.6*float64(i-1)/float64(n) }
}

func constrained(t, i int) float64 {
	mean := 0.0
	if int(math.Log(float64(t+1))/math.Log(1.6))%2 == 1 {
		mean = 0.8
	}
	if i == 3 {
		mean += 0.15
	}
	return mean
}

// interleaved are the checks that with a constant delay of τ, BOLD is τ+1 learners without delay, each of which has every
// (τ+1)th impression: to the bit.
func interleaved() (checks []check) {
	const n = 6
	for _, index := range []LossIndex{LossByItem, LossByRank} {
		for name, base := range map[string]func(testing.TB) policy.Adversarial{
			"ftrl":    func(t testing.TB) policy.Adversarial { return ftrlBase(t, index) },
			"osmd":    func(t testing.TB) policy.Adversarial { return osmdBase(t, 50) },
			"doubled": func(t testing.TB) policy.Adversarial { return osmdBase(t, 0) },
		} {
			for _, tau := range []int{0, 1, 7, 40} {
				checks = append(checks, check{World: fmt.Sprintf("%s, losses of index %d, τ = %d", name, index, tau), Run: func(t testing.TB, i instead) error {
					config := BOLDConfig{Base: base(t), Index: index, Windows: WindowsConfig{Given: geometricWindows(t)}}
					runs := make([]Learner, tau+1)
					for k := range runs {
						runs[k] = newBOLD(t, config, n)
					}
					return takingTurns(i(newBOLD(t, config, n)), runs, n)
				}})
			}
		}
	}
	return checks
}

// takingTurns checks that a learner, whose payoffs come when each of the others has had its impression, decides as these do, whose
// payoffs come at once.
func takingTurns(delayed Learner, runs []Learner, n int) error {
	const horizon = 400
	users := crowd{n: n, seed: 11, mean: stationary(n)}
	feedbacks := make([]Feedback, horizon)
	for now := range horizon {
		if late := now - len(runs); late >= 0 {
			delayed.Paid(feedbacks[late])
		}
		var d, want Decision
		delayed.Decide(allItems(n), nil, users.key(now), &d)
		at := now % len(runs)
		runs[at].Decide(allItems(n), nil, users.key(now), &want)
		want.Instance = int32(at)
		if !reflect.DeepEqual(want, d) {
			return fmt.Errorf("impression %d: %+v, and should be %+v", now, d, want)
		}
		fb := feedback(int64(now), allItems(n), &d, policytest.Select(d.Order, users.window(now)))
		fb.Payoff = users.payoff(now, fb.Item)
		delayed.Selected(fb)
		feedbacks[now] = fb
		fb.Instance = 0
		runs[at].Selected(fb)
		runs[at].Paid(fb)
	}
	if s := delayed.Status(); s.Instances != int64(len(runs)) || s.Unfed > 0 {
		return fmt.Errorf("%d instances instead of %d, %d payoffs unfed", s.Instances, len(runs), s.Unfed)
	}
	return nil
}

func TestAppendixC2_BOLDWithConstantDelayIsInterleavedRuns(t *testing.T) {
	theoremtest.Holds(t, interleaved(), itself)
}

// One instance without delay is the algorithm by itself, and the same seed gives the same bytes.
func TestBOLD_OneInstanceWithoutDelayIsTheUndelayedLearner(t *testing.T) {
	const n, horizon = 6, 300
	users := crowd{n: n, seed: 12, mean: stationary(n)}
	for _, base := range []policy.Adversarial{ftrlBase(t, LossByItem), osmdBase(t, horizon)} {
		b := newBOLD(t, BOLDConfig{Base: base, MaxInstances: 1, Windows: WindowsConfig{Given: geometricWindows(t)}}, n)
		again := newBOLD(t, BOLDConfig{Base: base, MaxInstances: 1, Windows: WindowsConfig{Given: geometricWindows(t)}}, n)
		var v policy.Vector
		var ws policy.AdversarialWorkspace
		q, p, order := geometricWindows(t).Fold(make([]float64, n)), make([]float64, n), make([]int32, n)
		var sampler admissible.Sampler
		var d, second Decision
		for now := range horizon {
			base.Point(&v, allItems(n), q, p, &ws)
			sampler.Sample(p, q, users.key(now).Float64(0), order)
			b.Decide(allItems(n), nil, users.key(now), &d)
			again.Decide(allItems(n), nil, users.key(now), &second)
			require.Equal(t, order, d.Order)
			require.Equal(t, d, second)
			for k, rank := range order {
				require.Equal(t, p[rank], d.Propensities[k])
			}
			rank := policytest.Select(order, users.window(now))
			fb := feedback(int64(now), allItems(n), &d, rank)
			fb.Payoff = users.payoff(now, fb.Item)
			b.Paid(fb)
			again.Paid(fb)
			require.True(t, base.Feed(&v, allItems(n), int(rank), fb.Payoff, p[rank], q, &ws))
		}
		one, two := newStore(b), newStore(again)
		require.Equal(t, one.harvest(), two.harvest())
	}
}

// Recorded propensities are those served: over random users, each candidate is selected as often as its propensity says. Pearson's
// χ² of 100,000 selections on 8 cells, made normal by Wilson and Hilferty's cube root; above 6 by chance once in 10⁹ times.
func TestBOLD_PropensitiesAreThoseServed(t *testing.T) {
	const n, draws = 8, 100_000
	w, err := admissible.Geometric(0.7, n)
	require.NoError(t, err)
	users := crowd{n: n, seed: 31}
	for _, base := range []policy.Adversarial{ftrlBase(t, LossByItem), osmdBase(t, 100)} {
		b := newBOLD(t, BOLDConfig{Base: base, MaxInstances: 1, Windows: WindowsConfig{Given: w}}, n)
		var d Decision
		rng := rand.New(rand.NewPCG(31, 31))
		for k := range 20 {
			b.Decide(allItems(n), nil, policy.Key(k), &d)
			fb := feedback(int64(k), allItems(n), &d, policytest.Select(d.Order, 1))
			fb.Payoff = rng.Float64()
			b.Paid(fb)
		}
		var counts, expected [n]float64
		for now := range draws {
			b.Decide(allItems(n), nil, users.key(now), &d)
			b.Unselected(Feedback{Instance: d.Instance})
			counts[policytest.Select(d.Order, users.window(now))]++
			for k, rank := range d.Order {
				expected[rank] += d.Propensities[k]
			}
		}
		var chi2, sum float64
		for i := range counts {
			require.Greater(t, expected[i], 50.0, "cells must not be small")
			chi2 += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i]
			sum += expected[i]
		}
		require.InDelta(t, draws, sum, 1e-6)
		const freedom = n - 1.0
		z := (math.Cbrt(chi2/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom))
		require.Less(t, z, 6.0, "%s: %v selected, %.0f expected", base.Name(), counts, expected)
	}
}

// Unselected impressions, expiries and decisions that are not BOLD's own free their instances, and no others.
func TestBOLD_WhatEndsFreesItsInstance(t *testing.T) {
	b := newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByItem), Windows: WindowsConfig{Given: geometricWindows(t)}}, 3)
	var d Decision
	for k := range int32(4) {
		b.Decide(allItems(3), nil, 1, &d)
		require.Equal(t, k, d.Instance)
	}
	b.Unselected(Feedback{Instance: -1})
	b.Expired(Feedback{Instance: -1})
	b.Unselected(Feedback{Instance: 77})
	require.EqualValues(t, 4, b.Status().Flights)
	b.Expired(Feedback{Instance: 2})
	b.Unselected(Feedback{Instance: 1})
	require.EqualValues(t, 2, b.Status().Flights)
	for _, want := range []int32{1, 2, 4} {
		b.Decide(allItems(3), nil, 1, &d)
		require.Equal(t, want, d.Instance)
	}
	// A payoff of a decision without propensities, an order or an instance is taken in, teaches nothing, and frees.
	b.Paid(Feedback{Item: 1, Payoff: 1, Instance: 4, Candidates: allItems(3)})
	b.Paid(Feedback{Item: 1, Payoff: 1, Instance: -1, Propensity: 0.5, Candidates: allItems(3)})
	b.Paid(Feedback{Item: 1, Payoff: 1, Instance: 3, Propensity: 0x1p-1040, Candidates: allItems(3)})
	require.Equal(t, policy.Sums{N: 3, R: 3, Q: 3}, b.Sums(1))
	require.EqualValues(t, 3, b.Status().Unfed)
	require.EqualValues(t, 3, b.Status().Flights)
	s := newStore(b)
	s.harvest()
	require.Empty(t, s.hashes["vectors"])
	require.Equal(t, map[string]string{"0": "1", "1": "1", "2": "1"}, s.hashes["instances"])
}

// An adopted decision takes its instance even if that waits already. Instances above a lowered bound only drain, and their
// knowledge is dropped.
func TestBOLD_InstancesAboveALoweredBoundDrain(t *testing.T) {
	b := newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByItem), Windows: WindowsConfig{Given: geometricWindows(t)}}, 3)
	s := newStore(b)
	var d Decision
	var feedbacks []Feedback
	for k := range 6 {
		b.Decide(allItems(3), nil, policy.Key(k), &d)
		feedbacks = append(feedbacks, feedback(int64(k), allItems(3), &d, 1))
	}
	b.Paid(feedbacks[3])
	b.Paid(feedbacks[5])
	s.harvest()
	lowered := newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByItem), Windows: WindowsConfig{Given: geometricWindows(t)}, MaxInstances: 2}, 3)
	rapid.Check(t, func(rt *rapid.T) {
		lowered = newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByItem), Windows: WindowsConfig{Given: geometricWindows(t)}, MaxInstances: 2}, 3)
		s.load(rt, 3, lowered)
	})
	after := newStore(lowered)
	after.hashes = s.hashes
	after.harvest()
	require.NotContains(t, s.hashes["rounds"], "3", "what waited for nothing above the bound is gone")
	lowered.Adopt(7, &Decision{Instance: 4})
	lowered.Adopt(8, &Decision{Instance: math.MaxInt32})
	for _, want := range []int32{0, 1, 0, 1} {
		lowered.Decide(allItems(3), nil, 1, &d)
		require.Equal(t, want, d.Instance)
	}
	lowered.Paid(feedbacks[4])
	after.harvest()
	require.Contains(t, s.hashes["rounds"], "4")
	fb := feedbacks[4]
	fb.Ref = 7
	lowered.Paid(fb)
	lowered.Expired(Feedback{Ref: 8, Instance: math.MaxInt32})
	lowered.Expired(feedbacks[2])
	after.harvest()
	require.Empty(t, s.hashes["rounds"])
	require.Empty(t, s.hashes["vectors"])
	require.Equal(t, map[string]string{"0": "3", "1": "3"}, s.hashes["instances"])
}

func TestNewBOLD_RefusesWhatMakesNoSense(t *testing.T) {
	for name, c := range map[string]BOLDConfig{
		"no base": {}, "instances": {Base: ftrlBase(t, LossByItem), MaxInstances: -1},
		"index": {Base: osmdBase(t, 1), Index: 2}, "not shifted": {Base: ftrlBase(t, LossByRank)},
		"shifted": {Base: ftrlBase(t, LossByItem), Index: LossByRank}, "window": {Base: osmdBase(t, 1), Windows: WindowsConfig{Max: -1}},
		"windows": {Base: osmdBase(t, 1), Windows: WindowsConfig{Max: policy.MaxWindows + 1}},
		"period":  {Base: osmdBase(t, 1), Windows: WindowsConfig{EstimateEvery: -1}},
	} {
		_, err := NewBOLD(c)
		require.ErrorIs(t, err, ErrBOLD, name)
	}
}

// Windows that are learned come out as they are, in a new period of event time and not before, and decisions then go by
// them. 30,000 selections; the tolerance is above ten standard errors.
func TestBOLD_LearnsWindowsOnAScheduleOfEventTime(t *testing.T) {
	const n = 8
	b := newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByItem), MaxInstances: 1, Windows: WindowsConfig{Max: n, EstimateEvery: 1000}}, n)
	want := []float64{0.1, 0.4, 0.05, 0.2, 0.1, 0.05, 0.05, 0.05}
	rng := rand.New(rand.NewPCG(21, 21))
	prior, _ := b.Windows(nil)
	var d Decision
	for now := range 30_000 {
		candidates := make([]policy.Item, n)
		for i, at := range rng.Perm(n) {
			candidates[i] = policy.Item(at)
		}
		b.Decide(candidates, nil, policy.Key(now), &d)
		u, window := rng.Float64(), 1
		for ; window < n && u >= want[window-1]; window++ {
			u -= want[window-1]
		}
		fb := feedback(int64(now), candidates, &d, policytest.Select(d.Order, window))
		fb.Payoff = rng.Float64()
		b.Selected(fb)
		b.Paid(fb)
		b.Advance(999)
	}
	same, selections := b.Windows(nil)
	require.Equal(t, prior, same)
	require.EqualValues(t, 30_000, selections)
	for period := range int64(20) {
		b.Advance(1000 * (period + 1))
		b.SetSourceField(3, hashWindows, []byte("1::"), strconv.AppendInt(nil, period+1, 10), nil) // says nothing, but is something new
	}
	got, _ := b.Windows(nil)
	t.Logf("%.3f", got)
	for w := range want {
		require.InDelta(t, want[w], got[w], 0.06, "window %d", w+1)
	}
	b.Decide(allItems(n), nil, 1, &d)
	p := make([]float64, n)
	for k, rank := range d.Order {
		p[rank] = d.Propensities[k]
	}
	require.NoError(t, admissibletest.Contains(p, got, 1e-9))
}

// TestBOLD_AnOnlyCandidateIsNoRound: the payoffs of impressions with one candidate compare nothing, so they do not lower the
// learning rate. After any number of them the learner decides as one without them, and stores the same.
func TestBOLD_AnOnlyCandidateIsNoRound(t *testing.T) {
	for _, index := range []LossIndex{LossByItem, LossByRank} {
		ftrl, err := policy.NewFTRL(1, index == LossByItem)
		require.NoError(t, err)
		for _, base := range []policy.Adversarial{ftrl, osmdBase(t, 0)} {
			given, err := admissible.NewWindows([]float64{0.5, 0.3, 0.2})
			require.NoError(t, err)
			var learners [2]*BOLD
			for k := range learners {
				learners[k], err = NewBOLD(BOLDConfig{Base: base, MaxInstances: 1, Index: index, Windows: WindowsConfig{Given: given}})
				require.NoError(t, err)
				learners[k].Grow(3)
			}
			play := func(b *BOLD, ref int64, candidates []policy.Item) Decision {
				var d Decision
				b.Decide(candidates, nil, policy.DecisionKey(1, 0, "", 0, ref), &d)
				b.Paid(Feedback{Ref: ref, Item: candidates[d.Order[0]], Candidates: candidates, Order: slices.Clone(d.Order),
					Propensity: d.Propensities[0], Instance: d.Instance, Payoff: float64(d.Order[0]) / 4})
				return d
			}
			for ref := range int64(50) {
				for only := range int64(20) {
					play(learners[0], 1000*ref+only, []policy.Item{policy.Item(only % 3)})
				}
				require.Equal(t, play(learners[1], ref, []policy.Item{0, 1, 2}), play(learners[0], ref, []policy.Item{0, 1, 2}), base.Name())
			}
			require.Zero(t, learners[0].Status().Unfed)
			require.EqualValues(t, 1050, learners[0].Status().Fed)
			if index == LossByItem {
				require.EqualValues(t, 50, learners[0].pool.get(0).vector(0).Rounds())
			} else {
				require.Nil(t, learners[0].pool.get(0).vector(1))
			}
		}
	}
}
