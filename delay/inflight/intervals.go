package inflight

import (
	"maps"
	"slices"
)

// Interval counts the selections in flight that began in a bucket.
type Interval struct {
	Bucket
	N int64
	// Expected is the sum of their decisions' expectations above the default, in units of the caller's; 0 if not recorded.
	Expected int64
	// Come is the share of payoffs that have come by the bucket's age; Above and Below are those of payoffs above and below the
	// default, if there are any below. They are derived, and not stored.
	Come, Above, Below float64
}

// Intervals are the selections in flight of one item by start time, ascending and disjoint. The zero value is empty.
type Intervals []Interval

// at returns the interval around a time, or the index where to insert it.
func (s Intervals) at(time int64) (at int, found bool) {
	at, _ = slices.BinarySearchFunc(s, time, func(x Interval, time int64) int {
		if x.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(s) && s[at].Start() <= time
}

// Begin counts a selection that began at a time, in the time's bucket or a longer one that is there already, and returns its interval.
func (s *Intervals) Begin(g *Scheme, time, tick, expected int64) *Interval {
	at, found := s.at(time)
	if !found {
		*s = slices.Insert(*s, at, Interval{Bucket: g.BucketOf(time, tick)})
	}
	x := &(*s)[at]
	x.take(Interval{N: 1, Expected: expected})
	return x
}

func (x *Interval) take(o Interval) { x.N, x.Expected = x.N+o.N, x.Expected+o.Expected }

// End removes a selection that began at a time, and its expectation; the last of an interval takes all that is left. It returns the
// expectation removed, and false if no interval contains the time.
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

// Remove removes selections that were counted here, each in its own bucket or a longer one.
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

// Merge merges intervals to the buckets of a tick, and returns whether it changed any.
func (s *Intervals) Merge(g *Scheme, tick int64) (changed bool) {
	kept := (*s)[:0]
	for _, x := range *s {
		b := g.Merged(x.Bucket, tick)
		changed = changed || b != x.Bucket
		if last := len(kept) - 1; last >= 0 && kept[last].End() > b.Start() { // in one bucket now
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

func (s Intervals) Count() (n int64) {
	for i := range s {
		n += s[i].N
	}
	return n
}

// Add returns the intervals of both, in the longer of two overlapping buckets. It implements policy.Summand.
func (s Intervals) Add(o Intervals) Intervals {
	if len(s) == 0 {
		return o
	}
	if len(o) == 0 {
		return s
	}
	all := make(Intervals, 0, len(s)+len(o))
	for len(s)+len(o) > 0 {
		from := &s
		if len(s) == 0 || len(o) > 0 && o[0].Compare(s[0].Bucket) < 0 {
			from = &o
		}
		all = all.put((*from)[0])
		*from = (*from)[1:]
	}
	return all
}

// put appends an interval that is next in order. One within the last, which is longer, is added to that.
func (s Intervals) put(x Interval) Intervals {
	if last := len(s) - 1; last >= 0 && x.Start() < s[last].End() {
		s[last].take(x)
		return s
	}
	return append(s, x)
}

// IntervalsOf returns the intervals of counts, in the longer of two overlapping buckets.
func IntervalsOf(counts map[Bucket]Interval) Intervals {
	all := slices.SortedFunc(maps.Values(counts), func(a, b Interval) int { return a.Compare(b.Bucket) })
	kept := Intervals(all[:0])
	for _, x := range all {
		kept = kept.put(x)
	}
	return kept
}
