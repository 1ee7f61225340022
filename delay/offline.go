package delay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// What the files offline*.go declare is asked for by the state commands alone: a learner decides and learns without it.

// Mergeable is a learner that can take over what others of its kind know: those of other partitions, when the number of
// partitions changes, or one that was exported. It is used between loading and the first decision. Sums of items are
// Merge's to add up, so that a learner sees to what is its own.
type Mergeable interface {
	Learner
	// TakeOver takes over what from knows besides its sums. numbers gives our own number, within those that Grow told of,
	// for each item of from; it may be nil where neither s.Additive is set nor NamesItems. It fails with ErrMerge.
	TakeOver(from Learner, numbers []policy.Item, s Share) error
	// NamesItems tells whether what is no sum refers to items.
	NamesItems() bool
	// Carry notes an impression that is pending here from now on, and was decided elsewhere. selected says that its
	// selection was told to that learner, fb is what it is or would be told with. Exactly the calls follow that would have
	// followed there.
	Carry(fb Feedback, selected bool)
}

// ErrMerge says that a learner cannot take over what another knows.
var ErrMerge = errors.New("delay: what is known cannot be merged")

// Merge makes a learner take over what another knows: sums are added up, and the rest is the learner's own to take over.
// numbers are those of TakeOver. The items whose sums have changed are told to changed; Harvest does not give them. It
// fails with ErrMerge.
func Merge(to Mergeable, from Learner, numbers []policy.Item, s Share, changed func(policy.Item)) error {
	if err := to.TakeOver(from, numbers, s); err != nil || !s.Additive {
		return err
	}
	for theirs, ours := range numbers {
		if sums := from.Sums(policy.Item(theirs)); sums != (policy.Sums{}) {
			to.LoadSums(ours, to.Sums(ours).Add(sums))
			changed(ours)
		}
	}
	return nil
}

// Share says which part of a learner's knowledge another one takes over.
type Share struct {
	// Additive parts are sums of items and counts of windows. All that pool must have them only once.
	Additive bool
	// Queues are the payoffs that wait in QPM-D's queues. They go where the sums go.
	Queues bool
	// Of and Rank number instances of BOLD: where knowledge of Of learners goes into one, instance i of the Rank-th of them,
	// from 0 on, becomes i·Of+Rank. So all have their place, and those that were needed first come first. Knowledge of
	// instances that would be above the bound on their number is given up, and an instance that knows something keeps
	// what it knows.
	Of, Rank int32
}

// Instance is the number that instance i has from now on.
func (s Share) Instance(i int32) int32 { return i*max(s.Of, 1) + s.Rank }

var (
	_ Mergeable = (*QPMD)(nil)
	_ Mergeable = (*Direct)(nil)
	_ Mergeable = (*BOLD)(nil)
	_ Mergeable = (*Preferring)(nil)
	_ Mergeable = (*Robust)(nil)
)

// TakeOver implements Mergeable. A hold is not taken over: the step that it is in the middle of is cancelled, as when its
// selection expires.
func (q *QPMD) TakeOver(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*QPMD)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, q, from)
	}
	if s.Queues {
		for i := range f.queues {
			for k := f.queues[i].head; k < f.queues[i].tail; k++ {
				q.queues[numbers[i]].push(f.queues[i].at(k))
				q.queued++
				q.changes.Note(numbers[i], queueChanged)
			}
		}
	}
	return q.windows.takeOver(&f.windows, s)
}

// TakeOver implements Mergeable.
func (d *Direct) TakeOver(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*Direct)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, d, from)
	}
	if (d.users != nil) != (f.users != nil) {
		return fmt.Errorf("%w: one depends on features, one does not", ErrMerge)
	}
	if s.Additive && d.users != nil {
		if err := d.users.takeOver(f.users, numbers); err != nil {
			return err
		}
	}
	if s.Additive && d.flights.awaiting != nil && f.flights.awaiting != nil {
		d.flights.awaiting.takeOver(f.flights.awaiting, numbers)
	}
	if s.Additive && d.flights.drift != nil && f.flights.drift != nil {
		d.flights.drift.takeOver(f.flights.drift, numbers)
	}
	if s.Additive && d.attraction != nil && f.attraction != nil {
		d.attraction.takeOver(f.attraction, numbers)
	}
	return d.windows.takeOver(&f.windows, s)
}

// takeOver adds what is known of what became of selections, and of how late payoffs were. Pending ones are carried.
func (a *awaiting) takeOver(from *awaiting, numbers []policy.Item) {
	for i, to := range numbers { // where payoffs come in parts, there are none
		if n := from.settled.Own(policy.Item(i)); n != (inflight.Outcomes{}) {
			a.settled.AddOwn(to, n, 1)
		}
	}
	for side := range a.ages {
		a.ages[side] = a.ages[side].Plus(&a.grid, from.ages[side])
		a.ages[side].Each(func(row inflight.Bucket) { a.rows[side][row] = struct{}{} })
	}
	a.pass, a.unwritten = max(a.pass, from.pass), true
	a.newest, a.newer = max(a.newest, from.newest), a.newer || from.newest != inflight.Never
}

// takeOver adds what another learner knows.
func (d *drift) takeOver(from *drift, numbers []policy.Item) {
	for i, to := range numbers {
		if rows := from.Own(policy.Item(i)); len(rows) > 0 {
			d.AddOwn(to, slices.Clone(rows), 1)
		}
	}
	if from.since != inflight.Never && (d.since == inflight.Never || from.since < d.since) {
		d.since = from.since
	}
	d.pass, d.moved = max(d.pass, from.pass), true
}

// NamesItems implements Mergeable: all that belongs to items is sums.
func (b *base) NamesItems() bool { return false }

// Carry implements Mergeable.
func (b *base) Carry(fb Feedback, selected bool) {
	if !selected {
		return
	}
	if b.users != nil {
		b.users.begin(&fb)
	}
	b.flights.begin(&fb)
	if b.flights.parts != nil {
		b.flights.parts.replace(fb.Item, history.Payoffs{}, fb.told())
	}
}

// TakeOver implements Mergeable. What all items tell is estimated anew when a payoff has come.
func (r *Robust) TakeOver(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*Robust)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, r, from)
	}
	if s.Additive {
		for i, to := range numbers {
			if rows := f.items.own.Get(policy.Item(i)).Rows; len(rows) > 0 {
				own := r.items.own.At(to)
				own.Rows, own.merged = slices.Clone(own.Rows.Add(rows)), false
				r.items.read.At(to).at = 0
				r.changes.Note(to, recentChanged)
			}
		}
		r.levels.takeOver(&r.grid, f)
		if r.attraction != nil && f.attraction != nil {
			r.attraction.takeOver(f.attraction, numbers)
		}
		if r.flights.awaiting != nil && f.flights.awaiting != nil {
			r.flights.awaiting.takeOver(f.flights.awaiting, numbers)
		}
		r.pass, r.moved = max(r.pass, f.pass), true
	}
	return r.windows.takeOver(&f.windows, s)
}

// takeOver adds what another learner knows of levels.
func (l *recentLevels) takeOver(g *inflight.Scheme, from *Robust) {
	for _, rows := range []history.Rows[recency.Residual]{l.own, from.levels.own} { // where they were and are, blocks may change
		for _, x := range rows {
			l.changes.Note(int32(x.Level), 1)
		}
	}
	l.own = slices.Clone(l.own.Add(from.levels.own))
	l.merge(g, from.pass)
}

// TakeOver implements Mergeable.
func (b *BOLD) TakeOver(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*BOLD)
	if !ok || f.index != b.index {
		return fmt.Errorf("%w: %T from %T", ErrMerge, b, from)
	}
	for _, i := range f.pool.list {
		b.takeInstance(i, numbers, s)
	}
	for _, number := range slices.Sorted(maps.Keys(f.pool.beside)) {
		b.takeInstance(f.pool.beside[number], numbers, s)
	}
	return b.windows.takeOver(&f.windows, s)
}

func (b *BOLD) takeInstance(from *instance, numbers []policy.Item, s Share) {
	number := s.Instance(from.number)
	if number >= b.pool.limit || number < from.number { // the latter: there is no such number
		return
	}
	for k := range from.vectors {
		theirs := &from.vectors[k]
		if theirs.Rounds() == 0 {
			continue
		}
		to := b.pool.make(number)
		ours := to.makeVector(theirs.length)
		if ours.Rounds() > 0 {
			continue
		}
		theirs.Each(func(c int32, x float64) {
			if b.index == ByItem {
				c = numbers[c]
			}
			ours.Set(c, x)
		})
		ours.SetRounds(theirs.Rounds())
		b.pool.note(to)
	}
}

// NamesItems implements Mergeable.
func (b *BOLD) NamesItems() bool { return b.index == ByItem }

// Carry implements Mergeable: the decision's instance waits for it here.
func (b *BOLD) Carry(fb Feedback, _ bool) {
	if fb.Instance >= 0 {
		b.occupy(b.pool.make(fb.Instance))
	}
}

// takeOver takes over counts, and the estimate where there is none of our own.
func (w *windows) takeOver(from *windows, s Share) error {
	if w.counts == nil || from.counts == nil {
		return nil
	}
	if s.Additive {
		longest := w.counts.Max()
		from.counts.EachOwn(func(low, high int, n int64) {
			l, h := min(low, longest), min(high, longest)
			w.counts.Load(l, h, n)
			w.counts.Touch(l, h)
		})
	}
	if w.from > 0 || from.from == 0 || len(w.q) != len(from.q) {
		return nil
	}
	copy(w.q, from.q)
	w.noise, w.from, w.period, w.unwritten = from.noise, from.from, from.period, true
	return w.take()
}

// TakeOver implements Mergeable: the order found is additive.
func (p *Preferring) TakeOver(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*Preferring)
	inner, merges := p.inner.(Mergeable)
	if !ok || !merges {
		return fmt.Errorf("%w: %T from %T", ErrMerge, p, from)
	}
	if s.Additive {
		if err := p.finder.Merge(f.finder, numbers); err != nil {
			return fmt.Errorf("%w: %w", ErrMerge, err)
		}
	}
	return inner.TakeOver(f.inner, numbers, s)
}

// NamesItems implements Mergeable.
func (p *Preferring) NamesItems() bool {
	inner, ok := p.inner.(Mergeable)
	return ok && inner.NamesItems()
}

// Carry implements Mergeable.
func (p *Preferring) Carry(fb Feedback, selected bool) {
	if inner, ok := p.inner.(Mergeable); ok {
		inner.Carry(forInner(fb), selected)
	}
}

// EveryHash names every hash that a learner of this package may have written, whatever it is configured as now.
func EveryHash() []string {
	return []string{hashQueue, hashQueues, hashFlights, hashOpen, hashSettled, hashAges, hashHistory, hashLately, hashLevels, hashAttraction, hashCells, hashCategories, hashMet, hashLinear, hashLearner, hashInstances, hashRounds,
		hashVectors, hashWindows,
		(*preference.Sorted)(nil).Hash(), (*preference.Social)(nil).Hash()}
}

// InstanceOf tells whether a stored field is what an instance of BOLD knows, and of which one: "<number>", or
// "<number>:<length>" where losses belong to ranks.
func InstanceOf(hash string, field []byte) (instance string, ok bool) {
	switch hash {
	case hashRounds:
		return string(field), true
	case hashVectors:
		return string(field[:max(0, bytes.LastIndexByte(field, ':'))]), true
	}
	return "", false
}
