package syntheticlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Leaving is a world of the laboratory whose users may leave without a selection, with a learner's records. Items are numbered in rising
// utility, and each impression has all of them.
type Leaving struct {
	World
	users *lab.World
}

// leavingInterval is the time between impressions in milliseconds.
const leavingInterval = 1000

// NewLeaving plays a run. If leavers count, a user who left is known to the learner after 50 impressions. Otherwise it maximises payoff per
// selection. Payoffs after the experiment's horizon do not count.
func NewLeaving(e *lab.Experiment, run int, leavers bool, settings ...config.Setting) (*Leaving, error) {
	users, err := lab.NewWorld(e, run)
	if err != nil {
		return nil, err
	}
	horizon := fmt.Sprintf("%ds", e.PayoffHorizon)
	l, _, err := config.ReadLearner("feed", true, append([]config.Setting{{"payoff_horizon", horizon}, {"selection_timeout", "50s"}}, settings...))
	if err != nil {
		return nil, err
	}
	w := &Leaving{World: World{Learner: l}, users: users}
	made, err := learners.New(&w.Learner)
	if err != nil {
		return nil, err
	}
	w.play(made(), e, run, leavers)
	return w, nil
}

func (w *Leaving) play(l delay.Learner, e *lab.Experiment, run int, leavers bool) {
	rng := rand.New(rand.NewPCG(e.Seed, uint64(run)))
	items := make([]policy.Item, e.Items)
	imp := event.Impression{HasTime: true, HasUtilities: true}
	for i := range items {
		items[i] = policy.Item(i)
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: strconv.AppendInt(nil, int64(i), 10), Utility: float64(i)})
	}
	l.Grow(len(items))
	agenda := make([][]func(at int64), e.Horizon+e.PayoffHorizon+2) // by impression
	var d delay.Decision
	for t := range agenda {
		now := int64(t) * leavingInterval
		for _, f := range agenda[t] {
			f(now)
		}
		l.Advance(now)
		if int64(t) >= e.Horizon {
			continue
		}
		imp.ID, imp.Time = fmt.Appendf(nil, "i-%d", t), now
		l.Decide(items, nil, policy.Key(rng.Uint64()), &d)
		w.rank(&imp, &d)
		later := func(impressions int64, f func(at int64)) {
			agenda[int64(t)+impressions] = append(agenda[int64(t)+impressions], f)
		}
		w.visit(l, &imp, &d, items, e.PayoffHorizon, leavers, later)
	}
}

func (w *Leaving) rank(imp *event.Impression, d *delay.Decision) {
	w.put(event.Impressions, event.AppendImpression(nil, imp))
	r := event.Ranking{ID: imp.ID, Learner: []byte(w.Learner.Name), Time: imp.Time, Decision: event.Decision{Group: "g", Policy: string(w.Learner.Policy),
		Delay: string(w.Learner.Delay), Layout: 1, Propensities: d.Propensities, Instance: d.Instance, Began: imp.Time, HasSelection: true,
		SelectionDeadline: imp.Time + w.Learner.SelectionTimeout.Milliseconds(), PayoffDeadline: imp.Time + w.Learner.PayoffHorizon.Milliseconds()}}
	for _, rank := range d.Order {
		r.Items = append(r.Items, imp.Candidates[rank].Item)
	}
	w.put(event.Rankings, event.AppendRanking(nil, &r))
}

// visit lets the next user look at a ranking, and schedules the records and updates of its selection and payoff.
func (w *Leaving) visit(l delay.Learner, imp *event.Impression, d *delay.Decision, items []policy.Item, horizon int64, leavers bool, later func(int64, func(at int64))) {
	w.users.Next()
	place := w.users.Select(d.Order)
	id := slices.Clone(imp.ID)
	fb := delay.Feedback{Began: imp.Time, Instance: d.Instance, Candidates: items, Order: slices.Clone(d.Order)}
	if place < 0 {
		if leavers {
			later(w.Learner.SelectionTimeout.Milliseconds()/leavingInterval+1, func(int64) { l.Unselected(fb) })
		}
		return
	}
	fb.Item = items[d.Order[place]]
	if len(d.Propensities) > 0 {
		fb.Propensity = d.Propensities[place]
	}
	if len(d.Expected) > 0 {
		fb.Expected, fb.HasExpected = d.Expected[place], true
	}
	l.Selected(fb)
	w.put(event.Selections, event.AppendSelection(nil, &event.Selection{ID: id, Item: imp.Candidates[fb.Item].Item, Time: imp.Time, HasTime: true}))
	r := w.users.Reply(d.Order[place])
	late := min(1+r.Late, horizon+1)
	later(late, func(at int64) {
		if fb.Age = at - fb.Began; late > horizon {
			fb.Defaulted = true
		} else {
			fb.Payoff = r.Payoff
			w.put(event.Payoffs, event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: r.Payoff, Time: at, HasTime: true}))
		}
		l.Paid(fb)
	})
}

// Worth returns the mean payoff of a ranking with these users: order holds utility ranks in the order shown.
func (w *Leaving) Worth(order []int32) float64 { return w.users.Worth(order) }
