package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
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

type player struct {
	e       *Experiment
	world   *world
	learner delay.Learner
	shown   []int32          // scratch: positions in the order shown
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
	// selections counts users' selections in the first run of a learner with given utilities; else it is nil.
	selections *propensity.Selections
	d          delay.Decision
	fb         delay.Feedback
}

func newPlayer(e *Experiment, c *Combination, run int) (*player, error) {
	w, err := newWorld(e, run)
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
	var fixed []policy.Item
	if e.Scenario.fixedOrder() && p.veil == nil {
		fixed = w.candidates
	}
	var silence *float64
	if x := c.Learner.OnExpiry.Default; x != nil {
		normalised := p.normalised(*x)
		silence = &normalised
	}
	p.flights = newArrivals(w.n, fixed, c.instances() != nil || w.shop != nil, silence, w.clock)
	p.learner.Grow(int(e.every()))
	if v := p.world.visitors; v != nil {
		v.introduce(p.learner)
	}
	return p, nil
}

func (p *player) normalised(payoff float64) float64 {
	return (payoff - p.scale.Min) / (p.scale.Max - p.scale.Min)
}

// impression plays impression t: feedback arrives, the world moves on, learner and user decide, and the outcome is queued.
func (p *player) impression(t int64) {
	w := p.world
	p.flights.pay(t, p.learner)
	p.learner.Advance(w.clock.at(t))
	w.next()
	key := policy.Key(p.keys.Uint64())
	var sober, selected int32
	if w.shop != nil {
		p.visit(t, key)
		return
	}
	if p.veil == nil {
		sober, selected = p.given(key)
	} else {
		sober, selected = p.hidden(key)
	}
	p.fb.Ref, p.fb.Began = t, w.clock.at(t)
	mean := w.mean(sober)
	lost := w.bestMean() - mean
	p.earned += mean
	p.lost += lost
	if p.veil != nil && len(p.d.Undecided) > 0 {
		p.burn(t, lost)
	}
	p.learner.Selected(p.fb)
	p.send(t, w.reply(selected))
}

// visit plays an impression whose user may leave without a selection.
func (p *player) visit(t int64, key policy.Key) {
	w, d := p.world, &p.d
	var order []int32
	if p.veil == nil {
		var about *policy.Context
		if p.space != nil {
			about = p.atTheTime()
		}
		p.learner.Decide(w.candidates, about, key, d)
		order = d.Order
	} else {
		p.veil.hide(w.candidates)
		p.learner.Decide(p.veil.seen, nil, key, d)
		p.shown = p.veil.shown(d.Order, p.shown)
		order = p.shown
	}
	mean := w.shop.earns(w, order, w.window)
	lost := w.bestMean() - mean
	p.earned += mean
	p.lost += lost
	if p.veil != nil && len(d.Undecided) > 0 {
		p.burn(t, lost)
	}
	at := w.shop.selects(w, order)
	taken := max(at, 0)
	if p.veil == nil {
		p.feedback(order[taken], taken)
		if p.space != nil {
			p.fb.X, p.fb.Segment = p.clocked.Row(int(order[taken]), w.n), p.clocked.Segment
		}
	} else {
		p.fb = delay.Feedback{Instance: d.Instance}
		p.veil.outcome(w, d, taken, &p.fb)
	}
	p.fb.Ref, p.fb.Began = t, w.clock.at(t)
	if at < 0 {
		if ends := t + 1 + shopTimeout; ends <= p.e.Horizon {
			p.flights.send(t, ends, 0, &p.fb, unselected)
		}
		return
	}
	if p.selections != nil {
		p.selections.Add(d.Order, taken)
	}
	p.learner.Selected(p.fb)
	p.send(t, w.reply(order[taken]))
}

// send queues the outcome of a selection in impression t: cumulated partial payoffs, and the complete one.
func (p *player) send(t int64, r reply) {
	if p.e.AtOnce {
		r.late, r.undelivered, r.parts = 0, 0, nil
	}
	away := func(late, undelivered int64, payoff float64, what arrival) {
		p.fb.Payoff = p.normalised(payoff / p.divisor)
		if arrives := t + 1 + late; arrives <= p.e.Horizon {
			p.flights.send(t, arrives, undelivered, &p.fb, what)
		}
		p.fb.Before, p.fb.InParts = p.fb.Payoff, true
	}
	for _, part := range r.parts {
		away(part.late, 0, part.sum, partial)
	}
	what := unpaid
	if r.paid {
		what = whole
	}
	away(r.late, r.undelivered, r.payoff, what)
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

// given plays an impression with given utilities: positions of the selection without noise, and of the actual one.
func (p *player) given(key policy.Key) (sober, selected int32) {
	w, d := p.world, &p.d
	var about *policy.Context
	if w.visitors != nil {
		about = &w.visitors.about
	}
	if p.space != nil {
		about = p.atTheTime()
	}
	p.learner.Decide(w.candidates, about, key, d)
	sober = w.selects(d.Order)
	selected = sober
	if k, any := p.noise.selects(min(w.window, w.n)); any {
		selected = d.Order[k]
	}
	if p.selections != nil {
		p.selections.Add(d.Order, shownAt(d, selected))
	}
	p.feedback(selected, shownAt(d, selected))
	p.fb.X, p.fb.Segment = about.Row(int(selected), w.n), about.SegmentOf()
	return sober, selected
}

// atTheTime returns a context with the impression's time alone.
func (p *player) atTheTime() *policy.Context {
	p.meet()
	p.clocked.At = p.world.clock.at(p.world.t)
	p.clocked.Segment, p.clocked.X = p.space.At(0, p.clocked.At), p.clocked.X[:0]
	for range p.world.n {
		p.clocked.X = p.space.Vector(p.clocked.X, nil, nil)
	}
	return &p.clocked
}

// feedback prepares the feedback on the selection of a candidate, shown at a position from 0.
func (p *player) feedback(selected int32, at int) {
	w, d := p.world, &p.d
	p.fb = delay.Feedback{Item: w.candidates[selected], Candidates: w.candidates, Instance: d.Instance, Order: d.Order}
	if len(d.Propensities) > 0 {
		p.fb.Propensity = d.Propensities[at]
	}
	if len(d.Expected) > 0 {
		p.fb.Expected, p.fb.HasExpected = d.Expected[at], true
	}
}

// hidden is given for a learner that finds the order.
func (p *player) hidden(key policy.Key) (sober, selected int32) {
	w, d, v := p.world, &p.d, p.veil
	v.hide(w.candidates)
	p.learner.Decide(v.seen, nil, key, d)
	shown, sober := v.selects(w, d)
	selected = sober
	if k, any := p.noise.selects(min(w.window, w.n)); any {
		shown, selected = k, v.positions[d.Order[k]]
	}
	p.fb = delay.Feedback{Instance: d.Instance}
	v.outcome(w, d, shown, &p.fb)
	return sober, selected
}

func shownAt(d *delay.Decision, position int32) int {
	for k, x := range d.Order {
		if x == position {
			return k
		}
	}
	panic(fmt.Sprintf("lab: candidate %d is not in the ranking", position))
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
