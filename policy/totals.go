package policy

import "iter"

// Summand is added up by Totals. Its zero value must be neutral. Add may round, and need not have an inverse.
type Summand[S any] interface {
	Add(S) S
}

// Count is a summand that counts, for example selections.
type Count int64

func (c Count) Add(o Count) Count { return c + o }

// Totals hold, for entries numbered densely from 0, this partition's own value, the values that other sources (partitions) have
// published, and their total, which decisions read. A source publishes its whole value, which replaces its previous one, so a read
// may repeat, or be smaller than the last.
//
// A total is recomputed at each change in a fixed order: sources ascending, then the own value. So it is a function of the present
// values to the last bit. An own change takes one addition, a source's one per source of that entry, unless ReplaceBy allows less.
//
// Unset entries take next to no memory (Pages). Reads do not allocate, nor do changes of set entries. The zero value is empty,
// without onChange. Totals must not be copied after use, and are not safe for concurrent use.
type Totals[S Summand[S]] struct {
	n        int
	pooled   Pages[S] // read by decisions
	own      Pages[S]
	others   Pages[others[S]]
	changes  Changes                        // of own
	onChange func(i int32, before, after S) // may be nil
	replace  func(sum, old, by S) (S, bool) // may be nil
	apart    bool                           // pooled is empty, see KeepApart
	packing  *Packing[S]                    // of sources' values; may be nil
	changed  uint64                         // number of changes of others

	// Of a partition below a global Totals, see Share; pooled is empty then.
	global *Totals[S]
	source int32
	number func(i int32) int32
	latest struct { // of Others: feedback asks for the same entry several times
		i       int32
		changed uint64
		sum     S
	}
	rests Set // own values that the global one holds, see Rest
}

// NewTotals returns empty Totals that call onChange with the old and new total, which may be equal, after each recomputation. Where no
// total is kept, both are zero.
func NewTotals[S Summand[S]](onChange func(i int32, before, after S)) Totals[S] {
	return Totals[S]{onChange: onChange}
}

// ReplaceBy sets a shortcut that replaces one value in a sum; ok is false where it would differ from adding all up again.
func (t *Totals[S]) ReplaceBy(replace func(sum, old, by S) (s S, ok bool)) { t.replace = replace }

// PackBy makes empty t keep sources' values packed.
func (t *Totals[S]) PackBy(p Packing[S]) { t.packing = &p }

// KeepApart makes empty t keep no totals: Pooled adds at each call. It is for values that are long, or whose own part is read alone.
func (t *Totals[S]) KeepApart() { t.apart = true }

// Grow makes room for entries 0..n-1. It never shrinks.
func (t *Totals[S]) Grow(n int) {
	t.n = max(t.n, n)
}

func (t *Totals[S]) Len() int { return t.n }

// Pooled returns the total of i over this partition and all sources.
func (t *Totals[S]) Pooled(i int32) S {
	if t.global == nil && !t.apart {
		return t.pooled.Get(i)
	}
	own := t.Own(i)
	if t.global != nil && t.global.replace != nil {
		if sum, ok := t.global.replace(t.Global(i), t.Published(i), own); ok {
			return sum
		}
	}
	return t.Others(i).Add(own)
}

// Others returns the total of i over all other sources.
func (t *Totals[S]) Others(i int32) S {
	if t.global == nil {
		return t.others.Get(i).sum
	}
	if l := &t.latest; l.i != i || l.changed != t.global.changed {
		l.i, l.changed, l.sum = i, t.global.changed, t.global.without(t.source, t.number(i))
	}
	return t.latest.sum
}

// AllOwn iterates over this partition's own values in order of numbers, those at rest included, and some of them zero. The current one may be
// changed meanwhile.
func (t *Totals[S]) AllOwn() iter.Seq2[int32, S] {
	return func(yield func(int32, S) bool) {
		for i := range int32(t.n) {
			if (t.own.has(i) || t.rests.Has(i)) && !yield(i, t.Own(i)) {
				return
			}
		}
	}
}

// Own returns this partition's own value of i.
func (t *Totals[S]) Own(i int32) S {
	if t.rests.Has(i) {
		return t.Published(i)
	}
	return t.own.Get(i)
}

// EachOwn iterates over this partition's own values in order of numbers, some of them zero, without those at rest. They may be changed
// meanwhile, see At.
func (t *Totals[S]) EachOwn() iter.Seq2[int32, *S] { return t.own.All() }

// Changes returns the entries whose own value has changed since Clear. Callers may note other changes in bits of their own.
func (t *Totals[S]) Changes() *Changes { return &t.changes }

// AddOwn adds to this partition's own value of i, and notes the change with bits, at least one of them set.
func (t *Totals[S]) AddOwn(i int32, s S, what uint8) {
	own := t.At(i)
	*own = (*own).Add(s)
	t.Changed(i, what)
}

// At returns this partition's own value of i, to be changed in place; Changed must follow.
func (t *Totals[S]) At(i int32) *S {
	if t.rests.Has(i) {
		s := t.Published(i)
		t.rests.Remove(i)
		*t.own.At(i) = s
	}
	return t.own.At(i)
}

// Changed notes with bits, at least one of them set, that this partition's own value of i has been changed in place.
func (t *Totals[S]) Changed(i int32, what uint8) {
	t.changes.Note(i, what)
	t.pool(i)
}

// Trim frees the memory of this partition's own value of i, which must be zero.
func (t *Totals[S]) Trim(i int32) { t.own.Remove(i) }

// Set sets this partition's own value of i as loaded, without noting a change.
func (t *Totals[S]) Set(i int32, s S) {
	t.rests.Remove(i)
	*t.own.At(i) = s
	t.pool(i)
}

// From returns a source's value of i, and whether there is one; it may be zero.
func (t *Totals[S]) From(source, i int32) (s S, found bool) {
	o := t.others.Get(i)
	_, _, s, found = o.find(t.packing, source)
	return s, found
}

// Sources iterates over the sources of i in ascending order. Their values must not change meanwhile.
func (t *Totals[S]) Sources(i int32) iter.Seq[int32] {
	o := t.others.Get(i)
	return func(yield func(int32) bool) {
		for source := range o.each(t.packing) {
			if !yield(source) {
				return
			}
		}
	}
}

// Of iterates over the entries that a source has published. The current one may be dropped meanwhile.
func (t *Totals[S]) Of(source int32) iter.Seq[int32] {
	return t.Unread(source, func(int32) bool { return false })
}

// Unread iterates like Of, without the entries for which read is true. The search for the source among an entry's takes longer than read.
func (t *Totals[S]) Unread(source int32, read func(i int32) bool) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i, o := range t.others.All() {
			if o.none() || read(i) {
				continue
			}
			if _, _, _, found := o.find(t.packing, source); found && !yield(i) {
				return
			}
		}
	}
}

// SetSource replaces a source's value of i.
func (t *Totals[S]) SetSource(source, i int32, s S) {
	t.changed++
	o := t.others.At(i)
	old := o.set(t.packing, source, s)
	if t.replace != nil {
		if sum, ok := t.replace(o.sum, old, s); ok {
			o.sum = sum
			t.pool(i)
			return
		}
	}
	t.sumUp(i)
}

// Drop removes a source's value of i.
func (t *Totals[S]) Drop(source, i int32) {
	if o := t.others.Get(i); o.none() {
		return
	}
	if t.others.At(i).remove(t.packing, source) {
		t.changed++
		t.sumUp(i)
	}
}

// sumUp adds up the other sources' values of i.
func (t *Totals[S]) sumUp(i int32) {
	o := t.others.At(i)
	var sum S
	for _, s := range o.each(t.packing) {
		sum = sum.Add(s)
	}
	o.sum = sum
	t.pool(i)
}

// Forget removes all values of i, without noting a change. A global Totals keeps its own.
func (t *Totals[S]) Forget(i int32) {
	if o := t.others.Get(i); !o.none() {
		t.changed++
		*t.others.At(i) = others[S]{}
	}
	var none S
	t.Set(i, none)
}

// Release frees the memory of a forgotten entry without changes.
func (t *Totals[S]) Release(i int32) {
	t.pooled.Remove(i)
	t.own.Remove(i)
	t.rests.Remove(i)
	t.changed++
	t.others.Remove(i)
}

func (t *Totals[S]) pool(i int32) {
	if t.global != nil || t.apart {
		if t.onChange != nil {
			var none S
			t.onChange(i, none, none)
		}
		return
	}
	pooled := t.pooled.At(i)
	before := *pooled
	total := t.others.Get(i).sum.Add(t.own.Get(i)) // without a global one nothing rests
	*pooled = total
	if t.onChange != nil {
		t.onChange(i, before, total)
	}
}
