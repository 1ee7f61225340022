package lab

import (
	"context"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
)

// often is the number of impressions between checks of the context.
const often = 4096

// played is the result of one run of one combination.
type played struct {
	regret    []float64 // at each time of the grid
	dynamic   float64   // against the best ranking at each time
	payoff    float64   // mean per impression
	burnIn    burnIn
	instances int64
	seconds   float64
	userModel *UserModel // nil except in the first run
}

// play plays one run with a new learner. It fails if ctx ends. It calls progress every few thousand impressions.
func play(ctx context.Context, e *Experiment, c *Combination, run int, grid []int64, progress func(int64)) (played, error) {
	if ctx.Err() != nil {
		return played{}, context.Cause(ctx)
	}
	began := time.Now()
	p, err := newPlayer(e, c, run)
	if err != nil {
		return played{}, err
	}
	out := played{regret: make([]float64, 0, len(grid))}
	for t := int64(1); t <= e.Horizon; t++ {
		if t%often == 0 {
			if ctx.Err() != nil {
				return played{}, context.Cause(ctx)
			}
			progress(often)
		}
		p.impression(t)
		if t == grid[len(out.regret)] {
			out.regret = append(out.regret, p.regret())
		}
	}
	progress(e.Horizon % often)
	if p.veil != nil {
		out.burnIn = p.veil.burnIn
	}
	out.dynamic = p.lost
	out.payoff = p.earned / float64(e.Horizon)
	out.instances = p.learner.Status().Instances
	if p.selections != nil {
		out.userModel = newUserModel(p.selections, min(p.world.n, delay.DefaultMaxWindow))
	}
	out.seconds = time.Since(began).Seconds()
	return out, nil
}

// player plays a learner before the users of a world.
type player struct {
	e       *Experiment
	world   *World
	learner delay.Learner
	veil    *hiddenUtilities // nil for a learner with given utilities
	noise   noise
	flights *arrivals
	keys    *stream
	against bool // regret is against the best fixed ranking
	scale   config.Range
	divisor float64         // divides payoffs for learners
	space   *features.Space // of a learner's clock; nil without
	clocked policy.Context
	earned  float64 // mean payoff of the rankings, for users without noise
	lost    float64 // shortfall from each impression's best ranking
	scratch []float64
	shown   []int32 // scratch: positions in the order shown
	// selections counts users' selections in the first run of a learner with given utilities; else it is nil.
	selections *propensity.Selections
	d          delay.Decision
	fb         delay.Feedback
}

func newPlayer(e *Experiment, c *Combination, run int) (*player, error) {
	w, err := NewWorld(e, run)
	if err != nil {
		return nil, err
	}
	p := &player{
		e: e, world: w, learner: newPartitions(e, c.new), veil: newVeil(e, c.Learner.Utilities, run),
		noise: noise{e.Noise, newStream(e.Seed, run, forNoise)}, keys: newStream(e.Seed, run, forDecisions),
		against: e.against(), scale: c.Learner.PayoffRange, divisor: e.divisor(), scratch: make([]float64, w.n),
	}
	if run == 0 && p.veil == nil {
		p.selections = &propensity.Selections{}
	}
	if c.Learner.Context.On() {
		if p.space, err = features.New(c.Learner.Features()); err != nil {
			return nil, err
		}
	}
	p.flights = &arrivals{clock: w.clock, last: e.Horizon, recorded: c.instances() != nil || w.customers != nil,
		fixed: e.Scenario.definition().fixedOrder() && p.veil == nil}
	if x := c.Learner.OnExpiry.Default; x != nil {
		normalised := p.normalised(*x)
		p.flights.silence = &normalised
	}
	p.learner.Grow(int(e.every()))
	if w.visitors != nil {
		w.visitors.introduce(p.learner)
	}
	return p, nil
}

func (p *player) normalised(payoff float64) float64 {
	return (payoff - p.scale.Min) / (p.scale.Max - p.scale.Min)
}

// impression plays impression t: feedback arrives, the world moves on, learner and user decide, and the outcome is queued.
func (p *player) impression(t int64) {
	w, d := p.world, &p.d
	p.flights.pay(t, p.learner)
	p.learner.Advance(w.clock.at(t))
	w.Next()
	seen, about := w.candidates, p.about()
	if p.veil != nil {
		p.veil.hide(w.candidates)
		seen = p.veil.seen
	}
	p.learner.Decide(seen, about, policy.Key(p.keys.Uint64()), d)
	ranking := d.Order
	if p.veil != nil {
		p.shown = p.veil.shown(d.Order, p.shown)
		ranking = p.shown
	}
	mean, place := p.look(ranking)
	lost := w.Best() - mean
	p.earned += mean
	p.lost += lost
	if p.veil != nil && preference.Explores(d.Undecided) {
		p.burn(t, lost)
	}
	p.feedback(t, seen, about, ranking, max(place, 0))
	if place < 0 {
		p.flights.send(t, t+1+shopTimeout, 0, &p.fb, unselected)
		return
	}
	if p.selections != nil {
		p.selections.Add(d.Order, place)
	}
	p.learner.Selected(p.fb)
	p.send(t, w.Reply(ranking[place]))
}

// look shows the user a ranking: it returns the mean payoff for a user without noise, and the place of the selection, −1 for none.
func (p *player) look(ranking []int32) (mean float64, place int) {
	w := p.world
	if w.customers != nil {
		return w.Earns(ranking), w.Select(ranking)
	}
	utility := w.utility
	if p.veil != nil && p.veil.crowd != nil {
		utility = func(position int32) float64 { return p.veil.crowd.perceives(w.candidates[position]) }
	}
	place = w.favourite(ranking, w.window, utility)
	mean = w.mean(ranking[place])
	if k, any := p.noise.selects(min(w.window, w.n)); any {
		place = k
	}
	return mean, place
}

// about returns the impression's context: of the scenario, or the time for a learner with a clock; nil for none, and with hidden utilities.
func (p *player) about() *policy.Context {
	w := p.world
	switch {
	case p.veil != nil:
		return nil
	case p.space == nil && w.visitors != nil:
		return &w.visitors.about
	case p.space == nil:
		return nil
	}
	p.learner.Meet(w.candidates, w.clock.at(w.t))
	p.clocked.At = w.clock.at(w.t)
	p.clocked.Segment, p.clocked.X = p.space.At(0, p.clocked.At), p.clocked.X[:0]
	for range w.n {
		p.clocked.X = p.space.Vector(p.clocked.X, nil, nil)
	}
	return &p.clocked
}

// feedback prepares the feedback on the selection at a place of the ranking, from 0. seen are the candidates as the learner sees them.
func (p *player) feedback(t int64, seen []policy.Item, about *policy.Context, ranking []int32, place int) {
	w, d := p.world, &p.d
	p.fb = delay.Feedback{Ref: t, Began: w.clock.at(t), Item: seen[d.Order[place]], Candidates: seen, Instance: d.Instance, Order: d.Order,
		X: about.Row(int(d.Order[place]), w.n), Segment: about.SegmentOf()}
	if len(d.Propensities) > 0 {
		p.fb.Propensity = d.Propensities[place]
	}
	if len(d.Expected) > 0 {
		p.fb.Expected, p.fb.HasExpected = d.Expected[place], true
	}
	if p.veil != nil {
		p.veil.complete(&p.fb, d, w.candidates[ranking[place]])
	}
}

// send queues the outcome of a selection in impression t: cumulated partial payoffs, and the complete one.
func (p *player) send(t int64, r Reply) {
	if p.e.AtOnce {
		r.Late, r.undelivered, r.parts = 0, 0, nil
	}
	away := func(late, undelivered int64, payoff float64, what arrival) {
		p.fb.Payoff = p.normalised(payoff / p.divisor)
		p.flights.send(t, t+1+late, undelivered, &p.fb, what)
		p.fb.Before, p.fb.InParts = p.fb.Payoff, true
	}
	for _, part := range r.parts {
		away(part.late, 0, part.sum, partial)
	}
	what := unpaid
	if r.Paid {
		what = whole
	}
	away(r.Late, r.undelivered, r.Payoff, what)
}

func (p *player) regret() float64 {
	if p.against {
		return p.world.bestFixed(p.scratch) - p.earned
	}
	return p.lost
}

// burn counts an impression that was ranked to find the order of utilities.
func (p *player) burn(t int64, lost float64) {
	b := &p.veil.burnIn
	b.impressions++
	b.last = t
	if b.regret += lost; p.against {
		b.regret = p.regret()
	}
}

type noise struct {
	share float64
	draws *stream
}

// selects returns whether the user selects at random, and which of the window's items.
func (n *noise) selects(window int) (k int, any bool) {
	if n.share == 0 {
		return 0, false
	}
	u, k := n.draws.float64(), n.draws.below(window)
	return k, u < n.share
}
