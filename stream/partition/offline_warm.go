package partition

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Warming adds past selections to a learner of a machine without state, see delay.Warming. Items are kept as if they had been shown now.
type Warming struct {
	*delay.Warming
	m   *Offline
	l   *learner
	now event.Millis
}

// NewWarming begins to add past selections to a learner, with a weight in (0,1]. It fails with delay.ErrWarm.
func NewWarming(m *Offline, learner string, weight float64, now event.Millis) (*Warming, error) {
	l := m.byName[learner]
	w, err := delay.NewWarming(l.delay, weight)
	return &Warming{w, m, l, now}, err
}

// Selection adds a selection. It began at a time, 0 if unknown, and its payoff, in raw units, lies in the payoff range.
func (w *Warming) Selection(item string, began event.Millis, payoff, propensity float64) error {
	switch {
	case item == "":
		return errors.New("the item has no name")
	case began == 0 && w.Dated():
		return errors.New("its time is missing: this learner's payoffs lose weight with their age")
	case began > w.now:
		return errors.New("its time is in the future")
	}
	r, _ := w.l.normalise(payoff)
	d := w.l.cfg.ExpiryDefault
	w.Add(w.item(item), &delay.Past{Began: began, Payoff: r, Propensity: propensity, Defaulted: d != nil && payoff == *d})
	return nil
}

// Total adds all selections of an item: their number, and the sums of payoffs and of their squares, in raw units. Without squares each
// payoff is taken as one end of the range, which never understates their variance.
func (w *Warming) Total(item string, n int64, sum float64, squares *float64) error {
	low, width := w.l.cfg.PayoffMin, w.l.cfg.PayoffMax-w.l.cfg.PayoffMin
	s := policy.Sums{N: n, R: (sum - float64(n)*low) / width}
	if s.Q = s.R; squares != nil {
		s.Q = (*squares - 2*low*sum + float64(n)*low*low) / (width * width)
	}
	const rounding = 1e-9
	room := rounding * float64(n)
	switch {
	case item == "":
		return errors.New("the item has no name")
	case w.Dated():
		return errors.New("totals have no times: this learner's payoffs lose weight with their age; give a flat log")
	case n > 1<<50:
		return fmt.Errorf("%d selections are too many", n)
	case !(s.R >= -room && s.R <= float64(n)+room):
		return fmt.Errorf("payoffs %v of %d selections: the mean lies outside the payoff range [%v, %v]", sum, n, low, low+width)
	case squares != nil && !(s.Q <= s.R+room && s.Q*float64(n) >= s.R*s.R-room*float64(n)):
		return fmt.Errorf("squares %v do not fit to payoffs %v of %d selections in [%v, %v]", *squares, sum, n, low, low+width)
	}
	if n > 0 {
		s.R = min(max(s.R, 0), float64(n))
		s.Q = min(max(s.Q, s.R*s.R/float64(n)), s.R)
		w.AddSums(w.item(item), s)
	}
	return nil
}

func (w *Warming) item(name string) policy.Item {
	i := w.m.decider.intern(w.l, nil, [][]byte{[]byte(name)})[0]
	w.l.carried([]policy.Item{i}, w.now, w.now+w.l.cfg.PayoffHorizon, &w.m.segments)
	return i
}

// CountWarmed counts payoffs of a warm start in the account.
func (o *Offline) CountWarmed(learner string, n int64) {
	l := o.byName[learner]
	o.ledger.add(payoffsWarmed, n)
	l.ledger.add(payoffsWarmed, n)
	l.changed = true
}

// Untouched reports whether a learner has no items, and has decided nothing.
func (o *Offline) Untouched(learner string) bool {
	l := o.byName[learner]
	return l.items.next == 0 && l.ledger == ledger{}
}
