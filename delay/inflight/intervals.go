package inflight

import (
	"cmp"
	"maps"
	"slices"
)

// Interval is how many selections whose payoff is awaited began in a block.
type Interval struct {
	Bucket
	N int64
	// Expected is what their decisions expected of them above the default, in units of the caller's; 0 where they say nothing.
	Expected int64
	// Come is the share of payoffs that have come by the block's age, see Lateness. Where some are below the default, Above is that of
	// those that are not, and Below that of those that are. They are derived, and not stored.
	Come, Above, Below float64
}

// Intervals are the selections of one item whose payoff is awaited, by when they began, in ascending order of time. No two of them
// overlap. The zero value is of none.
type Intervals []Interval

// at finds the span around a time, or where it belongs.
func (s Intervals) at(time int64) (at int, found bool) {
	at, _ = slices.BinarySearchFunc(s, time, func(x Interval, time int64) int {
		if x.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(s) && s[at].Start() <= time
}

// Begin counts a selection that began at a time, of which so much was expected, in the block of that time unless it stands in a
// longer one already. It gives where.
func (s *Intervals) Begin(g *Scheme, time, pass, expected int64) *Interval {
	at, found := s.at(time)
	if !found {
		*s = slices.Insert(*s, at, Interval{Bucket: g.BucketOf(time, pass)})
	}
	x := &(*s)[at]
	x.take(Interval{N: 1, Expected: expected})
	return x
}

// take adds the selections of another span.
func (x *Interval) take(o Interval) { x.N, x.Expected = x.N+o.N, x.Expected+o.Expected }

// End takes a selection out that began at a time, and what was expected of it, or of the last one all that is left; it gives what it
// took. false where none is known of.
func (s *Intervals) End(time, expected int64) (taken int64, ok bool) {
	at, found := s.at(time)
	if !found {
		return 0, false
	}
	x := &(*s)[at]
	if x.N > 1 {
		x.take(Interval{N: -1, Expected: -expected})
		return expected, true
	}
	expected = x.Expected
	*s = slices.Delete(*s, at, at+1)
	return expected, true
}

// Remove takes selections out that were counted here, each in the block of its own time or in a longer one.
func (s *Intervals) Remove(gone Intervals) {
	for _, x := range gone {
		at, found := s.at(x.Start())
		if !found {
			continue
		}
		if (*s)[at].take(Interval{N: -x.N, Expected: -x.Expected}); (*s)[at].N <= 0 {
			*s = slices.Delete(*s, at, at+1)
		}
	}
}

// Merge brings the spans to the blocks of a pass, and tells whether that changed any.
func (s *Intervals) Merge(g *Scheme, pass int64) (changed bool) {
	kept := (*s)[:0]
	for _, x := range *s {
		b := g.Merged(x.Bucket, pass)
		changed = changed || b != x.Bucket
		if last := len(kept) - 1; last >= 0 && kept[last].End() > b.Start() { // of one block now
			kept[last].take(x)
			continue
		}
		if b != x.Bucket {
			x = Interval{Bucket: b, N: x.N, Expected: x.Expected}
		}
		kept = append(kept, x)
	}
	*s = kept
	return changed
}

// Count is the number of selections.
func (s Intervals) Count() (n int64) {
	for i := range s {
		n += s[i].N
	}
	return n
}

// Add is the spans of both, where others' go into the longer of two blocks that overlap. It is the summand of what is pooled.
func (s Intervals) Add(o Intervals) Intervals {
	if len(s) == 0 {
		return o
	}
	if len(o) == 0 {
		return s
	}
	all := append(slices.Clone(s), o...)
	slices.SortFunc(all, func(a, b Interval) int { return a.order(b) })
	kept := all[:1]
	for _, x := range all[1:] {
		last := &kept[len(kept)-1]
		if x.Start() < last.End() { // within it, for it is the longer one
			last.take(x)
			continue
		}
		kept = append(kept, x)
	}
	return kept
}

// order sorts by time, and of two that begin at once the longer first.
func (s Interval) order(o Interval) int {
	return cmp.Or(cmp.Compare(s.Start(), o.Start()), cmp.Compare(o.Level, s.Level))
}

// IntervalsOf are spans by their blocks, in the order of time. They may overlap.
func IntervalsOf(counts map[Bucket]Interval) Intervals {
	return slices.SortedFunc(maps.Values(counts), Interval.order)
}
