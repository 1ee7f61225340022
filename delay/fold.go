package delay

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Folder is a learner that can take over what others of its kind know: those of other partitions, when the number of
// partitions changes, or one that was exported. It is used between loading and the first decision.
type Folder interface {
	Learner
	// Fold takes over what from knows. numbers gives our own number, within those that Grow told of, for each item of
	// from; it may be nil where neither s.Additive is set nor FoldsItems. It fails with ErrFold.
	Fold(from Learner, numbers []policy.Item, s Share) error
	// FoldsItems tells whether what is no sum refers to items.
	FoldsItems() bool
	// Carry notes an impression that is pending here from now on, and was decided elsewhere. selected says that its
	// selection was told to that learner, o is what it is or would be told with. Exactly the calls follow that would have
	// followed there.
	Carry(fb Feedback, selected bool)
}

// ErrFold says that a learner cannot take over what another knows.
var ErrFold = errors.New("delay: what is known cannot be folded")

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
	_ Folder = (*QPMD)(nil)
	_ Folder = (*Direct)(nil)
	_ Folder = (*BOLD)(nil)
	_ Folder = (*Preferring)(nil)
)

// Fold implements Folder. A hold is not taken over: the step that it is in the middle of is cancelled, as when its
// selection expires.
func (q *QPMD) Fold(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*QPMD)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrFold, q, from)
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
	return q.base.fold(&f.base, numbers, s)
}

// Fold implements Folder.
func (d *Direct) Fold(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*Direct)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrFold, d, from)
	}
	return d.base.fold(&f.base, numbers, s)
}

func (b *base) fold(from *base, numbers []policy.Item, s Share) error {
	if s.Additive {
		for i, to := range numbers {
			if theirs := from.table.Own(policy.Item(i)); theirs != (policy.Sums{}) {
				b.table.Set(to, plus(b.table.Own(to), theirs))
				b.changes.Note(to, sumsChanged)
			}
		}
	}
	return b.windows.takeOver(&from.windows, s)
}

func plus(a, b policy.Sums) policy.Sums { return policy.Sums{N: a.N + b.N, R: a.R + b.R, Q: a.Q + b.Q} }

// FoldsItems implements Folder: all that belongs to items is sums.
func (b *base) FoldsItems() bool { return false }

// Carry implements Folder.
func (b *base) Carry(fb Feedback, selected bool) {
	if selected {
		b.flights.begin(fb.Item)
		b.changes.Note(fb.Item, flightsChanged)
	}
}

// Fold implements Folder.
func (b *BOLD) Fold(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*BOLD)
	if !ok || f.index != b.index {
		return fmt.Errorf("%w: %T from %T", ErrFold, b, from)
	}
	if s.Additive {
		for i, to := range numbers {
			if theirs := f.sums[i]; theirs != (policy.Sums{}) {
				b.sums[to] = plus(b.sums[to], theirs)
				b.fed += theirs.N
				b.changes.Note(to, sumsChanged)
			}
		}
	}
	for _, i := range f.pool.list {
		b.foldInstance(i, numbers, s)
	}
	for _, number := range slices.Sorted(maps.Keys(f.pool.beside)) {
		b.foldInstance(f.pool.beside[number], numbers, s)
	}
	return b.windows.takeOver(&f.windows, s)
}

func (b *BOLD) foldInstance(from *instance, numbers []policy.Item, s Share) {
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

// FoldsItems implements Folder.
func (b *BOLD) FoldsItems() bool { return b.index == ByItem }

// Carry implements Folder: the decision's instance waits for it here.
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
		for high := 1; high <= from.counts.Max(); high++ {
			for low := 1; low <= high; low++ {
				if n := from.counts.Own(low, high); n > 0 {
					l, h := min(low, longest), min(high, longest)
					w.counts.Load(l, h, n)
					w.counts.Touch(l, h)
				}
			}
		}
	}
	if w.from > 0 || from.from == 0 || len(w.q) != len(from.q) {
		return nil
	}
	copy(w.q, from.q)
	w.from, w.period, w.unwritten = from.from, from.period, true
	return w.take()
}

// Fold implements Folder: the order found is additive.
func (p *Preferring) Fold(from Learner, numbers []policy.Item, s Share) error {
	f, ok := from.(*Preferring)
	inner, folds := p.inner.(Folder)
	if !ok || !folds {
		return fmt.Errorf("%w: %T from %T", ErrFold, p, from)
	}
	if s.Additive {
		if err := p.finder.Fold(f.finder, numbers); err != nil {
			return fmt.Errorf("%w: %w", ErrFold, err)
		}
	}
	return inner.Fold(f.inner, numbers, s)
}

// FoldsItems implements Folder.
func (p *Preferring) FoldsItems() bool {
	inner, folds := p.inner.(Folder)
	return folds && inner.FoldsItems()
}

// Carry implements Folder.
func (p *Preferring) Carry(fb Feedback, selected bool) {
	if inner, folds := p.inner.(Folder); folds {
		inner.Carry(forInner(fb), selected)
	}
}
