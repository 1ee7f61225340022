package delay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// Declarations in offline*.go serve the state commands only; no decision or feedback uses them.

// Mergeable is a learner that can take over state from learners of its kind: from other partitions, when their number changes, or
// from an export. It is used between loading and the first decision. Merge adds the items' sums itself.
type Mergeable interface {
	Learner
	// TakeOver merges from's state besides its sums. numbers maps each item of from to one of our own numbers; it may be nil if
	// neither s.Additive nor NamesItems is true. It fails with ErrMerge.
	TakeOver(from Learner, numbers []policy.Item, s Portion) error
	// NamesItems returns whether state that is no sum refers to items.
	NamesItems() bool
	// Carry adopts an impression that another learner decided and that is pending here from now on. With selected, that learner had
	// received Selected; fb is its feedback. The remaining calls follow here.
	Carry(fb Feedback, selected bool)
}

// ErrMerge is wrapped by errors about state that cannot be merged.
var ErrMerge = errors.New("delay: states cannot be merged")

// Merge adds from's sums to those of a learner, and makes it take over the rest. numbers are those of TakeOver. It calls changed
// for each item whose sums have changed, which Harvest does not report. It fails with ErrMerge.
func Merge(to Mergeable, from Learner, numbers []policy.Item, s Portion, changed func(policy.Item)) error {
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

// Portion selects the parts of a learner's state that another one takes over.
type Portion struct {
	// Additive selects sums of items and counts of windows. Among pooling learners only one may take them.
	Additive bool
	// Queues selects the payoffs in QPM-D's queues. They go where the sums go.
	Queues bool
	// Of and Rank renumber BOLD's instances when Of learners are merged into one: instance i of the Rank-th, from 0 on, becomes i·Of+Rank,
	// so that the first ones stay first. Instances above the bound on their number are dropped; one that has losses keeps them.
	Of, Rank int32
}

// Instance returns the new number of instance i.
func (s Portion) Instance(i int32) int32 { return i*max(s.Of, 1) + s.Rank }

var (
	_ Mergeable = (*QPMD)(nil)
	_ Mergeable = (*Direct)(nil)
	_ Mergeable = (*BOLD)(nil)
	_ Mergeable = (*Preferring)(nil)
	_ Mergeable = (*Robust)(nil)
)

// TakeOver implements Mergeable. A hold is not taken over: its step is cancelled, as at an expiry.
func (q *QPMD) TakeOver(from Learner, numbers []policy.Item, s Portion) error {
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
	return q.takeOver(&f.base, numbers, s)
}

func (d *Direct) TakeOver(from Learner, numbers []policy.Item, s Portion) error {
	f, ok := from.(*Direct)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, d, from)
	}
	if (d.contexts != nil) != (f.contexts != nil) {
		return fmt.Errorf("%w: one depends on features, one does not", ErrMerge)
	}
	return d.takeOver(&f.base, numbers, s)
}

// takeOver merges the state in hashes that both learners have.
func (b *base) takeOver(from *base, numbers []policy.Item, s Portion) error {
	for _, h := range b.hashes {
		if other := from.hash(h.about().Hash); other != nil {
			if err := h.merge(other, numbers, s.Additive); err != nil {
				return fmt.Errorf("%w: %w", ErrMerge, err)
			}
		}
	}
	return nil
}

// NamesItems implements Mergeable. All state by item is sums, but for the times at which items were first met.
func (b *base) NamesItems() bool { return b.hash(hashMet) != nil }

// Carry implements Mergeable.
func (b *base) Carry(fb Feedback, selected bool) {
	if !selected {
		return
	}
	if b.contexts != nil {
		b.contexts.begin(&fb)
	}
	b.flights.begin(&fb)
	b.flights.replacePart(fb.Item, history.Payoffs{}, fb.previous())
}

func (r *Robust) TakeOver(from Learner, numbers []policy.Item, s Portion) error {
	f, ok := from.(*Robust)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, r, from)
	}
	return r.takeOver(&f.base, numbers, s)
}

func (b *BOLD) TakeOver(from Learner, numbers []policy.Item, s Portion) error {
	f, ok := from.(*BOLD)
	if !ok || f.index != b.index {
		return fmt.Errorf("%w: %T from %T", ErrMerge, b, from)
	}
	for _, i := range f.pool.all() {
		b.takeInstance(i, numbers, s)
	}
	return b.windows.merge(&f.windows, numbers, s.Additive)
}

func (b *BOLD) takeInstance(from *instance, numbers []policy.Item, s Portion) {
	number := s.Instance(from.number)
	if number >= b.pool.limit || number < from.number { // the latter is an overflow
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
			if b.index == LossByItem {
				c = numbers[c]
			}
			ours.Set(c, x)
		})
		ours.SetRounds(theirs.Rounds())
		b.pool.note(to)
	}
}

func (b *BOLD) NamesItems() bool { return b.index == LossByItem }

// Carry implements Mergeable. The decision's instance waits for the impression here.
func (b *BOLD) Carry(fb Feedback, _ bool) {
	if fb.Instance >= 0 {
		b.occupy(b.pool.make(fb.Instance))
	}
}

// merge implements storedHash. It adds counts, and takes the estimate if we have none.
func (w *windows) merge(other storedHash, _ []policy.Item, additive bool) error {
	from := other.(*windows)
	if w.counts == nil || from.counts == nil {
		return nil
	}
	if additive {
		from.counts.EachOwn(func(i policy.Interval, n int64) {
			i = w.counts.Clip(i)
			w.counts.Load(i, n)
			w.counts.Touch(i)
		})
	}
	if w.from > 0 || from.from == 0 || len(w.q) != len(from.q) {
		return nil
	}
	copy(w.q, from.q)
	w.noise, w.from, w.period, w.unwritten = from.noise, from.from, from.period, true
	return w.take()
}

// TakeOver implements Mergeable. The order found is additive.
func (p *Preferring) TakeOver(from Learner, numbers []policy.Item, s Portion) error {
	f, ok := from.(*Preferring)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, p, from)
	}
	if s.Additive {
		if err := p.finder.Merge(f.finder, numbers); err != nil {
			return fmt.Errorf("%w: %w", ErrMerge, err)
		}
	}
	return p.Learner.(Mergeable).TakeOver(f.Learner, numbers, s)
}

func (p *Preferring) NamesItems() bool { return p.Learner.(Mergeable).NamesItems() }

func (p *Preferring) Carry(fb Feedback, selected bool) {
	p.Learner.(Mergeable).Carry(forInner(fb), selected)
}

// EveryHash returns the names of all hashes that any learner of this package may write.
func EveryHash() []string {
	return append(slices.Clone(everyHash), HashLearner, (*preference.Sorted)(nil).Hash(), (*preference.Social)(nil).Hash())
}

// InstanceOf returns the instance of BOLD that a stored field belongs to: "<number>", or "<number>:<length>" with LossByRank.
func InstanceOf(hash string, field []byte) (instance string, ok bool) {
	switch hash {
	case hashRounds:
		return string(field), true
	case hashVectors:
		return string(field[:max(0, bytes.LastIndexByte(field, ':'))]), true
	}
	return "", false
}
