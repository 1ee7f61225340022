//go:build !race

package lab

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// literalRun is a run by its definition, with all impressions in memory. The payoff of impression t can be used from decision t+k+1
// on. Those that arrive together come in impression order, and those after T are discarded. An unpaid selection expires after the
// payoff horizon H.
type literalRun struct {
	t        *testing.T
	e        *Experiment
	c        *Combination
	learner  delay.Learner
	feedback []delay.Feedback
	paid     []bool
	arrives  []int64
	parts    [][]literalPart
}

// literalPart is a part of a payoff, and the decision before which it is transmitted.
type literalPart struct {
	arrives  int64
	feedback delay.Feedback
}

func literal(t *testing.T, e *Experiment, c *Combination, run int) (regret, dynamic float64) {
	w, err := NewWorld(e, run)
	require.NoError(t, err)
	l := &literalRun{t: t, e: e, c: c, learner: c.new(), feedback: make([]delay.Feedback, e.Horizon+1), paid: make([]bool, e.Horizon+1),
		arrives: make([]int64, e.Horizon+1), parts: make([][]literalPart, e.Horizon+1)}
	draws := newStream(e.Seed, run, forDelays)
	noise := newStream(e.Seed, run, forNoise)
	keys := newStream(e.Seed, run, forDecisions)
	total := make([]float64, w.n)
	var lost, earned float64
	l.learner.Grow(int(e.every()))
	if w.visitors != nil {
		w.visitors.introduce(l.learner)
	}
	for now := int64(1); now <= e.Horizon; now++ {
		l.feed(now)
		l.learner.Advance(now * e.Scenario.clock().at(1))
		w.Next()
		var d delay.Decision
		candidates := slices.Clone(w.candidates)
		var about *policy.Context
		if w.visitors != nil {
			about = &policy.Context{X: slices.Clone(w.visitors.about.X), Segment: w.visitors.about.Segment}
		}
		l.learner.Decide(candidates, about, policy.Key(keys.Uint64()), &d)
		sober := policytest.Select(d.Order, w.window)
		lost += w.Best() - w.mean(sober)
		earned += w.mean(sober)
		for i := range total {
			total[i] += w.mean(int32(i))
		}
		y := sober
		if e.Noise > 0 {
			u, k := noise.float64(), noise.below(w.window)
			if u < e.Noise {
				y = d.Order[k]
			}
		}
		l.selected(now, w, &d, y, candidates, about.SegmentOf(), about.Row(int(y), w.n), l.late(draws))
	}
	if !e.Scenario.AgainstFixed() {
		return lost, lost
	}
	var best float64
	for window, q := range w.q {
		best += q * slices.Max(total[window:])
	}
	return best - earned, lost
}

// Feeds the learner all that arrives before decision now.
func (l *literalRun) feed(now int64) {
	silence := l.c.Learner.OnExpiry.Default
	low, high := l.e.Scenario.payoffRange()
	period := l.e.Scenario.clock().at(1)
	for before := int64(1); before < now; before++ {
		for _, p := range l.parts[before] {
			if p.arrives == now {
				p.feedback.Age = now*period - p.feedback.Began
				l.learner.Partial(p.feedback)
			}
		}
		switch {
		case l.arrives[before] != now:
		case l.paid[before]:
			fb := l.feedback[before]
			fb.Age = now*period - fb.Began
			l.learner.Paid(fb)
		case silence == nil:
			l.learner.Expired(l.feedback[before])
		default:
			fb := l.feedback[before]
			fb.Payoff, fb.Defaulted = (*silence-low)/(high-low), true
			l.learner.Paid(fb)
		}
	}
}

// late is the delay of an impression's payoff where it is not the scenario's.
func (l *literalRun) late(draws *stream) int64 {
	k := l.e.PayoffDelay.Mean
	if l.e.PayoffDelay.Random {
		m := float64(k)
		u, q := 1-draws.float64(), m/(1+m)
		for k = 0; u <= math.Pow(q, float64(k+1)); k++ { // P(k ≥ j) = q^j
		}
	}
	return k
}

// selected records the selection of the candidate at a position, and its outcome.
func (l *literalRun) selected(now int64, w *World, d *delay.Decision, y int32, candidates []policy.Item, segment int32, x []int8, late int64) {
	fb := delay.Feedback{Ref: now, Began: now * l.e.Scenario.clock().at(1), Item: candidates[y], Candidates: candidates, Instance: d.Instance, Order: d.Order, X: x, Segment: segment}
	if at := slices.Index(d.Order, y); len(d.Propensities) > 0 {
		fb.Propensity = d.Propensities[at]
	}
	if at := slices.Index(d.Order, y); len(d.Expected) > 0 {
		fb.Expected, fb.HasExpected = d.Expected[at], true
	}
	l.learner.Selected(fb)
	low, high := l.e.Scenario.payoffRange()
	r := w.Reply(y)
	paid := r.Paid
	if !l.e.Scenario.OwnDelays() {
		paid = l.e.PayoffHorizon == 0 || late < l.e.PayoffHorizon
		if !paid {
			late = l.e.PayoffHorizon
		}
	} else {
		late = r.Late
	}
	for _, p := range r.parts {
		if !l.e.AtOnce {
			fb.Payoff = (p.sum/l.e.divisor() - low) / (high - low)
			l.parts[now] = append(l.parts[now], literalPart{now + p.late + 1, fb})
			fb.Before, fb.InParts = fb.Payoff, true
		}
	}
	if paid {
		fb.Payoff = (r.Payoff/l.e.divisor() - low) / (high - low)
	}
	if l.e.AtOnce {
		late = 0
	}
	l.feedback[now], l.paid[now], l.arrives[now] = fb, paid, now+late+1
}

// asLiteral compares a run of each of some combinations with its definition.
func asLiteral(t *testing.T, e *Experiment, settings Settings) {
	t.Helper()
	for _, c := range combine(t, e, settings) {
		p, err := play(context.Background(), e, c, 4, Grid(e.Horizon), func(int64) {})
		require.NoError(t, err)
		regret, dynamic := literal(t, e, c, 4)
		require.InDelta(t, regret, p.regret[len(p.regret)-1], 1e-9, "%s, %s, %s, %v", e.Scenario, e.Late(), c.Learner.Policy, c.instances())
		require.InDelta(t, dynamic, p.dynamic, 1e-9, "%s, %s, %s, %v", e.Scenario, e.Late(), c.Learner.Policy, c.instances())
	}
}

// partners are policies and delay handlings that go with a scenario.
func partners(s Scenario) Settings {
	p := Settings{Policies: []string{"elimination", "moss", "egreedy"}, Delays: []string{"qpmd", "direct"}, MaxInstances: []int{0, 1, 7}}
	if s.FitsAdversarial() {
		p.Policies = append(p.Policies, "ftrl", "osmd")
		p.Delays = append(p.Delays, "bold")
	}
	return p
}

func TestPlay_IsTheLiteralLoop(t *testing.T) {
	for _, s := range selecting() {
		for _, late := range []PayoffDelay{{}, {Mean: 1}, {Mean: 37}, {Mean: 37, Random: true}, {Mean: 5000}} {
			if s.OwnDelays() {
				continue
			}
			e := &Experiment{Scenario: s, Items: 6, Horizon: 150, PayoffDelay: late, Runs: 1, Seed: 3}
			asLiteral(t, e, partners(s))
			if s.FitsAdversarial() { // others have no losses
				settings := partners(s)
				settings.Policies, settings.LossIndex = []string{"ftrl", "osmd"}, "rank"
				asLiteral(t, e, settings)
			}
		}
	}
}

// The same where payoffs may be missing, of which more than half are too late here, with users who select at random, and payoffs
// transmitted in parts.
func TestPlay_IsTheLiteralLoopWithSilenceAndNoise(t *testing.T) {
	for _, s := range selecting() {
		e := &Experiment{Scenario: s, Items: 25, Horizon: 150, PayoffHorizon: 60, Runs: 1, Seed: 3, Noise: 0.3, Divisor: 3}
		if !s.OwnDelays() {
			e.PayoffDelay = PayoffDelay{Mean: 100, Random: true}
		}
		for _, silence := range []string{"", "drop", "0.25"} {
			settings := partners(s)
			settings.OnExpiry = silence
			asLiteral(t, e, settings)
		}
		e.AtOnce, e.PayoffDelay = true, PayoffDelay{}
		asLiteral(t, e, partners(s))
	}
}
