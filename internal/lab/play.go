package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// interval is the event time between two impressions, in milliseconds: learners do things on a schedule.
const interval = 1000

// often is how many impressions are played between two looks at the world outside.
const often = 4096

// played is what one run of one combination came to.
type played struct {
	regret    []float64 // at each t of the grid
	burnIn    burnIn
	instances int64
	seconds   float64
}

// play plays one run of a combination, whose learner knows nothing yet. It ends early, with an error, when ctx does. Progress is
// told of every few thousand impressions.
func play(ctx context.Context, e *Experiment, c *Combination, run int, grid []int64, progress func(int64)) (played, error) {
	began := time.Now()
	w, err := newWorld(e.Scenario, e.Items, e.Horizon, e.Seed, run)
	if err != nil {
		return played{}, err
	}
	var (
		p       = played{regret: make([]float64, 0, len(grid))}
		late    = e.Lateness.drawn(newStream(e.Seed, run, forDelays))
		keys    = newStream(e.Seed, run, forDecisions)
		learner = c.new()
		veil    = newVeil(e, c.Learner.Utilities, run)
		fixed   []policy.Item
		scratch = make([]float64, w.n)
		sum     float64 // of regret, or of what was earned
		d       delay.Decision
		fb      delay.Feedback
	)
	against := e.Scenario.AgainstFixed()
	if e.Scenario.fixedOrder() && veil == nil {
		fixed = w.candidates
	}
	flights := newArrivals(w.n, fixed, c.instances() != nil)
	learner.Grow(e.Items)
	for t := int64(1); t <= e.Horizon; t++ {
		if t%often == 0 {
			if ctx.Err() != nil {
				return played{}, context.Cause(ctx)
			}
			progress(often)
		}
		flights.pay(t, learner)
		learner.Advance(t * interval)
		w.next()
		key := policy.Key(keys.Uint64())
		var position int32
		if veil == nil {
			position = given(learner, w, key, &d, &fb)
		} else {
			position = hidden(learner, w, veil, key, &d, &fb)
		}
		fb.Ref = t
		lost := w.mean(position)
		if !against {
			lost = w.bestMean() - lost
		}
		sum += lost
		if veil != nil && len(d.Undecided) > 0 {
			veil.burnIn.impressions++
			veil.burnIn.last = t
			if veil.burnIn.regret += lost; against {
				veil.burnIn.regret = w.bestFixed(scratch) - sum
			}
		}
		learner.Selected(fb)
		fb.Payoff = w.payoff(position)
		if arrives := t + 1 + late.draw(e.Horizon); arrives <= e.Horizon {
			flights.send(t, arrives, &fb)
		}
		if t == grid[len(p.regret)] {
			regret := sum
			if against {
				regret = w.bestFixed(scratch) - sum
			}
			p.regret = append(p.regret, regret)
		}
	}
	progress(e.Horizon % often)
	if veil != nil {
		p.burnIn = veil.burnIn
	}
	p.instances = learner.Status().Instances
	p.seconds = time.Since(began).Seconds()
	return p, nil
}

// given plays an impression with a learner that is given utilities, up to the selection, whose position among the
// candidates it returns.
func given(l delay.Learner, w *world, key policy.Key, d *delay.Decision, fb *delay.Feedback) int32 {
	l.Decide(w.candidates, key, d)
	position := policy.Select(d.Order, w.window)
	*fb = delay.Feedback{Item: w.candidates[position], Candidates: w.candidates, Instance: d.Instance, Order: d.Order}
	if len(d.Propensities) > 0 {
		fb.Propensity = propensity(d, position)
	}
	return position
}

// hidden is the same with a learner that finds their order.
func hidden(l delay.Learner, w *world, v *veil, key policy.Key, d *delay.Decision, fb *delay.Feedback) int32 {
	v.hide(w.candidates)
	l.Decide(v.seen, key, d)
	shown, position := v.selects(w, d)
	*fb = delay.Feedback{Instance: d.Instance}
	v.outcome(w, d, shown, fb)
	return position
}

// propensity is the probability with which the candidate at a position of the candidate list is selected.
func propensity(d *delay.Decision, position int32) float64 {
	for k, x := range d.Order {
		if x == position {
			return d.Propensities[k]
		}
	}
	panic(fmt.Sprintf("lab: candidate %d is not in the ranking", position))
}
