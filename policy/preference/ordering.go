package preference

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// ordering is the order of items that counts lead to, in seats: the numbers of its items, from 0 on.
//
// A finder's own ordering seats each item by its number. A global one, whose numbers mean nothing outside of the process, seats those
// that have been compared, by their marks. So the order is a function of names and counts.
type ordering struct {
	relation relation // of seats, as are scores
	scores   scores
	counts   counts // of numbers
	items    int    // that there are

	stale      bool // the relation, or the scores, must be rebuilt before use
	conflicted bool // decided pairs form cycles, so that a new one may change more than itself
	cyclic     bool // pairs decided by explored impressions do

	mark    func(policy.Item) uint64 // identifies items; nil where each has the seat of its number
	seats   policy.Pages[int32]      // by number: the seat plus 1
	numbers []policy.Item            // by seat
}

// len returns the number of items that are learned.
func (s *ordering) len() int { return max(min(s.items, MaxItems), s.relation.Len()) }

// seatOf returns the seat of an item's number, -1 if it has none.
func (s *ordering) seatOf(i policy.Item) policy.Item {
	if s.mark == nil {
		return i
	}
	return s.seats.Get(i) - 1
}

// numberOf returns the number of the item in a seat.
func (s *ordering) numberOf(seat policy.Item) policy.Item {
	if s.mark == nil {
		return seat
	}
	return s.numbers[seat]
}

// reseat gives the items that have been compared, at most MaxItems, their seats in the order of their marks.
func (s *ordering) reseat() {
	if s.mark == nil {
		return
	}
	compared := map[policy.Item]bool{}
	for at, p := range s.counts.pairs {
		if s.counts.sums.Pooled(int32(at)) != (pairCount{}) {
			compared[p.low], compared[p.high] = true, true
		}
	}
	s.numbers, s.seats = s.numbers[:0], policy.Pages[int32]{}
	for i := range compared {
		s.numbers = append(s.numbers, i)
	}
	slices.SortFunc(s.numbers, func(a, b policy.Item) int { return cmp.Compare(s.mark(a), s.mark(b)) })
	s.numbers = s.numbers[:min(len(s.numbers), MaxItems)]
	for seat, i := range s.numbers {
		*s.seats.At(i) = int32(seat) + 1
	}
	if s.relation.Len() != len(s.numbers) {
		s.relation = relation{}
		s.relation.Grow(len(s.numbers))
	}
}

// seatedPairs iterates over the pairs of seated items, by their seats, with their pooled counts.
func (s *ordering) seatedPairs() iter.Seq2[pair, pairCount] {
	return func(yield func(pair, pairCount) bool) {
		for at, p := range s.counts.pairs {
			seated := pair{s.seatOf(p.low), s.seatOf(p.high)}
			if seated.low >= 0 && seated.high >= 0 && !yield(seated, s.counts.sums.Pooled(int32(at))) {
				return
			}
		}
	}
}

// tracked returns whether an item is learned, by its seat. A negative one stands for an item that has not been compared.
func tracked(i policy.Item) bool { return i < MaxItems }

// above returns whether a is known to have the higher utility.
func (s *ordering) above(a, b policy.Item) bool { return a >= 0 && b >= 0 && s.relation.Above(a, b) }

// decided returns whether the order of two items is certain.
func (s *ordering) decided(a, b policy.Item) bool {
	switch {
	case !tracked(a) || !tracked(b):
		return true
	case a < 0 || b < 0:
		return false
	case s.varied():
		return s.scores.apart(a, b)
	}
	return s.relation.Decided(a, b)
}

// position returns an item's guessed place among all, in [0,1].
func (s *ordering) position(i policy.Item, varied bool) float64 {
	switch {
	case i < 0:
		return 0.5
	case varied:
		return s.scores.position(i)
	}
	return s.relation.Position(i)
}

// place returns an item's seat in the ordering that decisions read. Without one it is negative, and MaxItems or more if none is left.
func (s *Sorted) place(i policy.Item) policy.Item {
	if s.read == s.ordering {
		return i
	}
	switch seat := s.read.seatOf(s.number(i)); {
	case seat >= 0:
		return seat
	case tracked(i) && len(s.read.numbers) < MaxItems:
		return -1 - i
	}
	return MaxItems + i
}

// placed returns the seats of items. They are valid until the next call.
func (s *Sorted) placed(items []policy.Item) []policy.Item {
	if s.read == s.ordering {
		return items
	}
	s.places = s.places[:0]
	for _, i := range items {
		s.places = append(s.places, s.place(i))
	}
	return s.places
}

func (s *Sorted) Share(global Finder, number func(policy.Item) policy.Item) {
	s.read, s.number = global.(*Sorted).ordering, number
}

func (s *Sorted) BeGlobal(mark func(policy.Item) uint64) { s.mark = mark }

func (s *Sorted) Commit(items int) {
	varied := s.varied()
	if s.items = items; s.stale || s.varied() != varied {
		s.rebuild()
	}
}

func (s *Sorted) BeginResync(source int32) { s.resyncs.Begin(source) }

func (s *Sorted) EndResync(source int32, _ func(policy.Item) bool) {
	read := s.resyncs.End(source)
	for at := range s.counts.sums.Of(source) {
		p := s.counts.pairs[at]
		for _, at := range [][2]policy.Item{{p.low, p.high}, {p.high, p.low}} {
			if !read[at] {
				s.imports(source, at[0], at[1], reported{})
			}
		}
	}
}
