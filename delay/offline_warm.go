package delay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrWarm is wrapped by errors about learners that cannot begin with past selections.
var ErrWarm = errors.New("delay: the learner cannot begin with past selections")

// Warming adds past selections to a learner without state, as if impressions had been ranked by another policy in an unknown order. So
// payoffs are learned; windows, shares of selections, the order of utilities and delays of payoffs are not.
//
// Selections are weighed down: of each item as many count as the weight times their number, rounded, with the mean and the mean square of
// all. A learner whose payoffs lose weight with time gets them in small groups, each as of its last selection.
type Warming struct {
	learner Learner
	of      *base
	robust  *Robust // nil for other learners
	weight  float64
	dated   bool
	groups  map[policy.Item]*pastGroup
	fed     int64
}

// Past is a selection that has ended. Its payoff is normalised, and 0 is an unknown propensity.
type Past struct {
	Began              int64 // event time of its impression in milliseconds
	Payoff, Propensity float64
	Defaulted          bool // its payoff is the default of unpaid ones
}

// pastSums are sums over selections of one item.
type pastSums struct {
	policy.Sums
	outcomes inflight.Outcomes
	chances  int64 // recency.Selections.D
}

// pastGroup are an item's selections.
type pastGroup struct {
	waiting   pastSums // not fed yet
	seen, fed int64    // numbers, fed weighed down
	began     int64    // of the last
}

// NewWarming begins to add past selections to a learner, with a weight in (0,1]. It fails with ErrWarm.
func NewWarming(l Learner, weight float64) (*Warming, error) {
	if !(weight > 0 && weight <= 1) {
		return nil, fmt.Errorf("%w: weight %v, must be above 0 and at most 1", ErrWarm, weight)
	}
	w := &Warming{learner: l, weight: weight, groups: map[policy.Item]*pastGroup{}}
	if p, ok := l.(*Preferring); ok {
		l = p.Learner
	}
	switch l := l.(type) {
	case *QPMD:
		w.of = &l.base
	case *Direct:
		if w.of = &l.base; l.contexts != nil {
			return nil, fmt.Errorf("%w: its payoffs depend on features or segments, which are not in the file", ErrWarm)
		}
	case *Robust:
		w.of, w.robust = &l.base, l
	default:
		return nil, fmt.Errorf("%w: its policy learns from probabilities of its own decisions", ErrWarm)
	}
	w.dated = w.robust != nil || w.of.flights.drift != nil
	return w, nil
}

// Dated reports whether each selection needs its time: payoffs lose weight with their age.
func (w *Warming) Dated() bool { return w.dated }

// Add adds a selection. If the learner is Dated, they come in the order of time.
func (w *Warming) Add(i policy.Item, p *Past) {
	s := pastSums{Sums: policy.Sums{N: 1, R: p.Payoff, Q: float64(p.Payoff * p.Payoff)}, chances: recency.SelectionOf(p.Payoff, p.Propensity).D}
	if p.Defaulted {
		s.outcomes.Unpaid = 1
	} else {
		s.outcomes = paidOutcome(p.Payoff, w.of.flights.silence.Default)
	}
	if w.dated {
		w.learner.Advance(p.Began)
	}
	w.add(i, p.Began, s)
}

// AddSums adds selections of an item without times, for a learner that is not Dated.
func (w *Warming) AddSums(i policy.Item, sums policy.Sums) {
	s := pastSums{Sums: sums}
	if w.of.flights.silence.Default == 0 && sums.Q == sums.R { // each payoff is 0 or 1
		s.outcomes.Paid = int64(math.Round(sums.R))
		s.outcomes.Unpaid = sums.N - s.outcomes.Paid
	}
	w.add(i, 0, s)
}

func (w *Warming) add(i policy.Item, began int64, s pastSums) {
	g := w.groups[i]
	if g == nil {
		g = &pastGroup{}
		w.groups[i] = g
	}
	g.waiting.Sums, g.waiting.outcomes = g.waiting.Sums.Add(s.Sums), g.waiting.outcomes.Add(s.outcomes)
	g.waiting.chances += s.chances
	g.seen, g.began = g.seen+s.N, began
	if w.dated || w.weight == 1 {
		const rounding = 1e-9
		w.feed(i, g, int64(w.weight*float64(g.seen)+rounding)-g.fed)
	}
}

// End feeds the rest. It returns how many selections were fed, weighed down, the number of items, and how many had too few for one.
func (w *Warming) End() (fed int64, items, tooFew int) {
	for _, i := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[i]
		w.feed(i, g, int64(math.Round(w.weight*float64(g.seen)))-g.fed)
		if g.fed == 0 {
			tooFew++
		}
	}
	return w.fed, len(w.groups), tooFew
}

// feed feeds an item's waiting selections as n.
func (w *Warming) feed(i policy.Item, g *pastGroup, n int64) {
	if n <= 0 || g.waiting.N == 0 {
		return
	}
	s := g.waiting.scaled(n)
	g.waiting, g.fed, w.fed = pastSums{}, g.fed+n, w.fed+n
	if a := w.of.flights.awaiting; a != nil && !a.law.InParts && s.outcomes != (inflight.Outcomes{}) {
		a.settled.AddOwn(i, s.outcomes, 1)
	}
	w.of.table.AddOwn(i, s.Sums, policy.SumsChanged)
	if !w.dated {
		return
	}
	payoffs := history.Payoffs{N: n, R: history.InUnits(s.R), Q: history.InUnits(s.Q)}
	if d := w.of.flights.drift; d != nil {
		d.At(i).Count(&d.grid, g.began, d.tick, payoffs)
		d.Changed(i, 1)
	}
	if w.robust != nil {
		w.robust.count(i, g.began, recency.Selections{Payoffs: payoffs, D: s.chances})
	}
}

// scaled returns the sums of n selections with the same means.
func (s pastSums) scaled(n int64) pastSums {
	if n == s.N {
		return s
	}
	f := float64(n) / float64(s.N)
	times := func(x int64) int64 { return int64(math.Round(float64(x) * f)) }
	all := pastSums{Sums: policy.Sums{N: n, R: s.R * f, Q: s.Q * f}, chances: times(s.chances)}
	if s.outcomes.Paid+s.outcomes.Unpaid > 0 {
		all.outcomes = inflight.Outcomes{Paid: times(s.outcomes.Paid), Below: times(s.outcomes.Below)}
		if all.outcomes.Unpaid = n - all.outcomes.Paid; all.outcomes.Below > 0 { // the mean stays in [0,1]
			all.outcomes.Low = int64(math.Round(float64(s.outcomes.Low) / float64(s.outcomes.Below) * float64(all.outcomes.Below)))
		}
	}
	return all
}
