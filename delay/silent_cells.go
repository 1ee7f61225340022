package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// silentCells divides an item's weight in flight among its cells. Cells do not store start times; the item does, and each time
// belongs to one level of the clock. A level whose hour was yesterday has more of the weight than the present one.
type silentCells struct {
	awaiting *awaiting // nil where weights do not depend on age
	clock    *features.Clock
	n, w     []float64 // by level of the clock: an item's selections in flight, and their weight

	item   policy.Item // the item of shares, if known
	known  bool
	shares []float64 // of the weight in flight, by group
}

// read sums up an item's selections in flight by level.
func (s *silentCells) read(i policy.Item) {
	levels := s.clock.Levels()
	s.n, s.w = slices.Grow(s.n[:0], levels)[:levels], slices.Grow(s.w[:0], levels)[:levels]
	clear(s.n)
	clear(s.w)
	if s.awaiting == nil || !s.clock.On() {
		return
	}
	of := s.awaiting.sharesOf(i)
	for _, x := range s.awaiting.spansOf(i) {
		n, w := float64(x.N), x.Weigh(of.paid, of.below).Sum()
		s.clock.Spread(x.Start(), x.End(), func(level int32, share float64) {
			s.n[level] += float64(share * n)
			s.w[level] += float64(share * w)
		})
	}
}
