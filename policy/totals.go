package policy

import (
	"cmp"
	"iter"
	"slices"
)

// Summand is what Totals adds up. Its zero value stands for nothing: adding it changes nothing. Add may round, so that
// the order of additions matters, and need not have an inverse.
type Summand[S any] interface {
	Add(S) S
}

// Count is a number of something, such as selections, to be added up.
type Count int64

// Add is the number of both.
func (c Count) Add(o Count) Count { return c + o }

// Totals hold, for each of some things numbered densely from 0, what this partition itself has counted or summed up, what
// other sources (partitions) have published of theirs, and the total of both, which decisions read. What a source
// publishes is its whole sum and replaces what it had before, so that a reading may come twice, or be smaller than the
// last.
//
// A total is added up anew at each change and in a fixed order: the sources ascending, then one's own to their sum. So it
// is a function of the parts as they are now, to the last bit, and not of how they came about. A change takes one
// addition where it is one's own, and one for each source of that thing where it is a source's, unless ReplaceBy says how to do with less.
//
// What nobody has told of takes next to no memory (Pages). Of what others have there is a sum and a list for each thing, and a place
// in the list for each source that has told of it. Reading allocates nothing, and neither does a change of what is
// there. The zero value is of no things, and has no onChange. Totals must not be copied once they are used, and are not
// safe for concurrent use.
type Totals[S Summand[S]] struct {
	n        int
	pooled   Pages[S] // what decisions read
	own      Pages[S]
	others   Pages[others[S]]
	staged   Changes                        // of others: things whose sum is older than from
	changes  Changes                        // of own
	onChange func(i int32, before, after S) // nil: not called
	replace  func(sum, old, by S) (S, bool) // nil: there is none

	// Part of a whole, see Share; nil where it is none. Nothing is pooled here then.
	whole  *Totals[S]
	source int32
	number func(i int32) int32
}

// others is what all other sources have of one thing.
type others[S any] struct {
	sum  S         // as far as taken in
	from []part[S] // in ascending order of source; includes what is staged
}

// part is what one source has of one thing.
type part[S any] struct {
	source int32
	sum    S
}

// NewTotals makes Totals of no things yet, which call onChange whenever a total was added up anew: with what it was and what
// it is, which may be the same. It is for what is derived from the totals of many things.
func NewTotals[S Summand[S]](onChange func(i int32, before, after S)) Totals[S] {
	return Totals[S]{onChange: onChange}
}

// ReplaceBy says how one part of a sum is replaced by another, where that comes to the same as adding all up anew: ok tells where.
func (t *Totals[S]) ReplaceBy(replace func(sum, old, by S) (s S, ok bool)) { t.replace = replace }

// Grow makes room for things 0..n-1. It never shrinks.
func (t *Totals[S]) Grow(n int) {
	t.n = max(t.n, n)
}

// extend appends more zero elements.
func extend[T any](s []T, more int) []T {
	n := len(s)
	s = slices.Grow(s, more)[:n+more]
	clear(s[n:])
	return s
}

// Len is the number of things.
func (t *Totals[S]) Len() int { return t.n }

// Pooled is the total of i over this partition and all sources.
func (t *Totals[S]) Pooled(i int32) S {
	if t.whole != nil {
		return t.whole.without(t.source, t.number(i)).Add(t.own.Get(i))
	}
	return t.pooled.Get(i)
}

// AllOwn are this partition's own parts, in the order of their numbers.
func (t *Totals[S]) AllOwn() []S {
	all := make([]S, t.n)
	for i := range all {
		all[i] = t.own.Get(int32(i))
	}
	return all
}

// Own is what this partition itself has of i.
func (t *Totals[S]) Own(i int32) S { return t.own.Get(i) }

// Changes are the things whose own part has changed since that was last told. A caller that keeps more by the same numbers
// may note there what of that has changed, with bits of its own.
func (t *Totals[S]) Changes() *Changes { return &t.changes }

// AddOwn adds to what this partition has of i, and notes what has changed by that: bits, at least one of them set.
func (t *Totals[S]) AddOwn(i int32, s S, what uint8) {
	own := t.own.At(i)
	*own = (*own).Add(s)
	t.changes.Note(i, what)
	t.pool(i)
}

// Set replaces what this partition has of i, by what is stored of it: it is no change.
func (t *Totals[S]) Set(i int32, s S) {
	*t.own.At(i) = s
	t.pool(i)
}

// From is what source has told of i, staged or taken in, and whether it has told anything. It may have told of nothing.
func (t *Totals[S]) From(source, i int32) (s S, told bool) {
	from := t.others.Get(i).from
	at, told := find(from, source)
	if told {
		s = from[at].sum
	}
	return s, told
}

// Sources gives the sources that have told of i, in ascending order. What they have told may not change meanwhile.
func (t *Totals[S]) Sources(i int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, p := range t.others.Get(i).from {
			if !yield(p.source) {
				return
			}
		}
	}
}

// SetSource sets what source has of i, in place of what it had before, and takes in whatever is staged.
func (t *Totals[S]) SetSource(source, i int32, s S) {
	t.TakeStaged()
	old, _ := t.From(source, i)
	t.Stage(source, i, s)
	o := t.others.At(i)
	if t.replace != nil {
		if sum, ok := t.replace(o.sum, old, s); ok {
			o.sum = sum
			t.staged.Clear()
			t.pool(i)
			return
		}
	}
	t.TakeStaged()
}

// Drop forgets that source has ever told of i, and takes in whatever is staged.
func (t *Totals[S]) Drop(source, i int32) {
	if from := t.others.Get(i).from; len(from) > 0 {
		if at, told := find(from, source); told {
			t.others.At(i).from = slices.Delete(from, at, at+1)
			t.staged.Note(i, 1)
		}
	}
	t.TakeStaged()
}

// Forget makes all that there is of i nothing: this partition's own, and what other sources have told. It is no change that is noted.
// A whole, if there is one, keeps what it was told.
func (t *Totals[S]) Forget(i int32) {
	if len(t.others.Get(i).from) > 0 {
		*t.others.At(i) = others[S]{}
	}
	var none S
	t.Set(i, none)
}

// Release gives back the memory of something that was forgotten, and of which no change is noted.
func (t *Totals[S]) Release(i int32) {
	t.pooled.Remove(i)
	t.own.Remove(i)
	t.others.Remove(i)
	t.changes.Release(i)
}

// Stage notes what source has of i, in place of what it had before, but leaves the total as it is until TakeStaged. Only
// the newest of each source and thing is kept, so what is staged is bounded by what is pooled.
func (t *Totals[S]) Stage(source, i int32, s S) {
	o := t.others.At(i)
	at, told := find(o.from, source)
	if told {
		o.from[at].sum = s
	} else {
		o.from = slices.Insert(o.from, at, part[S]{source, s})
	}
	t.staged.Note(i, 1)
}

// TakeStaged takes in all that is staged.
func (t *Totals[S]) TakeStaged() {
	for i := range t.staged.All() {
		o := t.others.At(i)
		var sum S
		for k := range o.from {
			sum = sum.Add(o.from[k].sum)
		}
		o.sum = sum
		t.pool(i)
	}
	t.staged.Clear()
}

// pool adds up the total of i anew.
func (t *Totals[S]) pool(i int32) {
	if t.whole != nil {
		if t.onChange != nil {
			now := t.Pooled(i)
			t.onChange(i, now, now) // what it was is not kept
		}
		return
	}
	pooled := t.pooled.At(i)
	before := *pooled
	total := t.others.Get(i).sum.Add(t.own.Get(i))
	*pooled = total
	if t.onChange != nil {
		t.onChange(i, before, total)
	}
}

// find is where source stands, or belongs, in a list ascending by source. Sources of one thing are few, and often asked
// for in order.
func find[S any](from []part[S], source int32) (at int, found bool) {
	return slices.BinarySearchFunc(from, source, func(p part[S], source int32) int { return cmp.Compare(p.source, source) })
}
