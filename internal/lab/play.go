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
	instances int64
	seconds   float64
}

// play plays one run of a learner, which knows nothing yet. It ends early, with an error, when ctx does. Progress is
// told of every few thousand impressions.
func play(ctx context.Context, e *Experiment, learner delay.Learner, run int, grid []int64, progress func(int64)) (played, error) {
	began := time.Now()
	w, err := newWorld(e.Scenario, e.Items, e.Horizon, e.Seed, run)
	if err != nil {
		return played{}, err
	}
	var (
		p       = played{regret: make([]float64, 0, len(grid))}
		late    = e.Lateness.drawn(newStream(e.Seed, run, forDelays))
		keys    = newStream(e.Seed, run, forDecisions)
		flights *arrivals
		fixed   []policy.Item
		scratch = make([]float64, w.n)
		sum     float64 // of regret, or of what was earned
		d       delay.Decision
		o       delay.Outcome
	)
	against := e.Scenario.AgainstFixed()
	if e.Scenario.fixedOrder() {
		fixed = w.candidates
	}
	learner.Grow(e.Items)
	for t := int64(1); t <= e.Horizon; t++ {
		if t%often == 0 {
			if ctx.Err() != nil {
				return played{}, context.Cause(ctx)
			}
			progress(often)
		}
		if flights != nil {
			flights.pay(t, learner)
		}
		learner.Advance(t * interval)
		w.next()
		learner.Decide(w.candidates, policy.Key(keys.Uint64()), &d)
		if flights == nil { // what has an instance that decided is fed with its decision
			flights = newArrivals(w.n, fixed, d.Instance >= 0)
		}
		position := policy.Select(d.Order, w.window)
		if against {
			sum += w.mean(position)
		} else {
			sum += w.bestMean() - w.mean(position)
		}
		o = delay.Outcome{
			Ref: t, Item: w.candidates[position], Candidates: w.candidates, Instance: d.Instance, Order: d.Order,
		}
		if len(d.Propensities) > 0 {
			o.Propensity = propensity(&d, position)
		}
		learner.Selected(o)
		o.Payoff = w.payoff(position)
		if arrives := t + 1 + late.draw(e.Horizon); arrives <= e.Horizon {
			flights.send(t, arrives, &o)
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
	p.instances = learner.Status().Instances
	p.seconds = time.Since(began).Seconds()
	return p, nil
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
