package preference

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// MaxItems bounds the items whose order a Sorted finds: their relation takes 8 MiB.
const MaxItems = 8192

// Sorted finds the order of users who are deterministic: they all like the items in the same order, and select what they
// like best within their window. The selection of the item at position k then certifies that it is liked better than
// every item shown above it, and nothing else. What is certified, and all that follows, is kept as a transitively closed
// relation.
//
// An impression whose candidates' order is not certified explores: it shows a pair on top whose order is not known, in
// random order, and below it a run of others in increasing utility as far as that can be guessed, each undecided against
// the one before, so that a user who looks further certifies more. In one impression of eight the pair is chosen as
// binary insertion would, so that the burn-in's length has a bound of the order n·log n; in the others it stands where
// the guess has the longest stretch of undecided neighbours, which is faster in the mean. See docs/algorithms.md for the
// bound and its proof.
//
// Users may contradict each other. Of each pair that was compared directly, both counts are kept; it is decided by those,
// see majority. Where decided pairs still contradict each other in a cycle, those of the smallest majority in each
// strongly connected component are left out, as often as it takes. So the relation is an order whatever users do, it is a
// function of the counts alone, and what was left out is undecided, hence explored again.
//
// Where users contradict each other by more than chance, their own tastes vary: then what is looked for is the order of the
// items' mean utilities, well enough for a price that is bounded; see scores, wanting and compare.
//
// What a selection adds to the counts depends on what was known when its impression was decided: pairs that follow from
// that are not counted. With deterministic users there is nothing left to count after the burn-in.
//
// It is stored in the hash "preferences": "<better>:<worse>", two numbers of items, maps to the number of selections of the
// first in which the second was shown above it, in impressions ranked to find the order, and behind a blank, where there is any,
// to their number in others, which contradict an order that was taken for certain. Items numbered MaxItems or above are not learned: they count as lower
// than all others, in the order of their numbers.
type Sorted struct {
	relation Relation
	counts   counts
	items    int

	stale          bool // the relation, or the scores, are not what the counts say; they are made so before they are used
	conflicted     bool // decided pairs contradict each other, so that a new one may change more than itself
	cyclic         bool // those do that explored impressions decide
	scores         scores
	contradictions int64

	entries []entry // scratch of Sort
	blocks  []int32 // scratch of Selected: by rank
	highest []int32 // scratch of Selected: by block
	chain   []int32 // scratch of Explore: ranks
	numbers []int32 // scratch of Explore: ranks in the order of the items' numbers
	taken   []bool  // scratch of Explore: by rank
}

var _ Finder = (*Sorted)(nil)

// NewSorted makes one that knows no items yet.
func NewSorted() *Sorted {
	s := &Sorted{}
	s.counts.init()
	return s
}

// entry is a candidate to be sorted.
type entry struct {
	key      uint64
	position int32
}

// Grow implements Finder.
func (s *Sorted) Grow(items int) {
	s.items = max(s.items, items)
	s.relation.Grow(min(items, MaxItems))
	s.counts.grow(min(items, MaxItems))
	if s.varied() {
		s.stale = true // the scores are of fewer items
	}
}

// tracked tells whether the item's place in the order is learned.
func tracked(i policy.Item) bool { return i < MaxItems }

// decided tells whether the order of two items is certain.
func (s *Sorted) decided(a, b policy.Item) bool {
	if !tracked(a) || !tracked(b) {
		return true
	}
	if s.varied() {
		return s.scores.apart(a, b)
	}
	return s.relation.Decided(a, b)
}

// position is where an item is guessed to stand among all, within 0 and 1.
func (s *Sorted) position(i policy.Item, varied bool) float64 {
	if varied {
		return s.scores.position(i)
	}
	return s.relation.Position(i)
}

// Sort implements Finder.
func (s *Sorted) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	undecided, budget := s.sort(candidates, key, order, undecided)
	if len(undecided) > 0 && budget == spent && (s.varied() || key.Float64(drawRest) >= restShare) {
		return undecided[:0]
	}
	if s.varied() && len(undecided) > 0 {
		// Each is a block of its own, so that a selection is counted against all that were shown above: all pairs are
		// compared alike.
		undecided = undecided[:0]
		for r := 1; r < len(candidates); r++ {
			undecided = append(undecided, int32(r))
		}
	}
	return undecided
}

// budget tells whether there is anything left to be spent on finding the order.
type budget bool

const spent budget = false

// sort is Sort, but for what is good enough: undecided tells of all that is not certain, and budget whether any item of those
// has been compared less often than is to be spent on it.
func (s *Sorted) sort(candidates []policy.Item, key policy.Key, order, undecided []int32) ([]int32, budget) {
	if s.stale {
		s.rebuild()
	}
	varied := s.varied()
	s.entries = slices.Grow(s.entries[:0], len(candidates))
	for k, i := range candidates {
		e := entry{position: int32(k), key: uint64(i)}
		if tracked(i) {
			// Different positions of up to MaxItems items differ by 2⁻²⁷ and more, so 32 bits tell them apart, and the
			// rest breaks ties.
			e.key = uint64(s.position(i, varied)*(1<<32))<<32 | key.Uint64(uint64(k))>>32
		}
		s.entries = append(s.entries, e)
	}
	slices.SortFunc(s.entries, func(a, b entry) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.position, b.position)
	})
	left := spent
	for r, e := range s.entries {
		order[r] = e.position
		if r == 0 {
			continue
		}
		a, b := candidates[order[r-1]], candidates[e.position]
		if certain := s.decided(a, b); !certain {
			undecided = append(undecided, int32(r))
			left = left || budget(s.wanting(a) || s.wanting(b))
		}
	}
	return undecided, left
}

const (
	insertionShare = 0.125 // of the exploring impressions: they compare a pair as binary insertion would
	swapShare      = 1.0 / 3
	longestStretch = 4 // beyond it, a longer stretch is no better a place to look
)

// Explore implements Finder.
func (s *Sorted) Explore(items []policy.Item, undecided []int32, key policy.Key, shown []int32) {
	if s.varied() {
		s.compare(items, key, shown)
		return
	}
	var low, high int32
	if key.Float64(drawKind) < insertionShare {
		low, high = s.insertion(items)
	} else {
		high = longest(undecided, key.Float64(drawStart))
		low = high - 1
	}
	shown[0], shown[1] = low, high
	if key.Float64(drawSwap) < swapShare {
		shown[0], shown[1] = high, low
	}
	s.taken = slices.Grow(s.taken[:0], len(items))[:len(items)]
	clear(s.taken)
	s.taken[low], s.taken[high] = true, true
	n, last := 2, items[shown[1]]
	for r := high + 1; int(r) < len(items); r++ {
		if !s.decided(last, items[r]) {
			shown[n], last, s.taken[r] = r, items[r], true
			n++
		}
	}
	// Those below the run come first: they take no selection from it.
	for r := range items {
		if !s.taken[r] {
			shown[n] = int32(r)
			n++
		}
	}
}

// longest is the first undecided rank of a stretch of undecided neighbours that goes on for longer than others, but is
// not longer than it matters; u, within [0,1), chooses among several.
func longest(undecided []int32, u float64) int32 {
	best, count := 0, 0
	each := func(f func(rank int32, length int)) {
		length := 0
		for k := len(undecided) - 1; k >= 0; k-- {
			if k+1 < len(undecided) && undecided[k+1] == undecided[k]+1 {
				length = min(length+1, longestStretch)
			} else {
				length = 1
			}
			f(undecided[k], length)
		}
	}
	each(func(_ int32, length int) {
		if length > best {
			best, count = length, 0
		}
		if length == best {
			count++
		}
	})
	choice := int(u * float64(count))
	chosen := undecided[0]
	each(func(rank int32, length int) {
		if length == best {
			if choice == 0 {
				chosen = rank
			}
			choice--
		}
	})
	return chosen
}

// insertion is the pair, lower rank first, that binary insertion in the order of the items' numbers would compare next:
// the first item whose place among those before it is not certain, and the middle one of those that it is undecided
// against. The order of the items is not certain.
func (s *Sorted) insertion(items []policy.Item) (low, high int32) {
	s.numbers = slices.Grow(s.numbers[:0], len(items))
	for r := range items {
		s.numbers = append(s.numbers, int32(r))
	}
	slices.SortFunc(s.numbers, func(a, b int32) int { return cmp.Compare(items[a], items[b]) })
	s.chain = slices.Grow(s.chain[:0], len(items)) // ranks, all of whose items are in a certain order
	for _, r := range s.numbers {
		z := items[r]
		if !tracked(z) {
			break
		}
		from, _ := slices.BinarySearchFunc(s.chain, z, func(c int32, z policy.Item) int {
			if s.relation.Above(z, items[c]) {
				return -1
			}
			return 1
		})
		to, _ := slices.BinarySearchFunc(s.chain[from:], z, func(c int32, z policy.Item) int {
			if s.relation.Above(items[c], z) {
				return 1
			}
			return -1
		})
		if to > 0 {
			middle := s.chain[from+to/2]
			return min(middle, r), max(middle, r)
		}
		s.chain = slices.Insert(s.chain, from, r)
	}
	panic("preference: an order that is certain was to be explored")
}

// Selected implements Finder.
func (s *Sorted) Selected(sel *Selection) {
	y := sel.selected()
	if len(sel.Order) == 0 {
		for _, x := range sel.Items[:sel.At] {
			s.evidence(y, x, reported{explored: 1})
		}
		return
	}
	// Items between two undecided ranks are a block: within it the order was certain. So of each block only the highest
	// that was shown above need be counted, for the others follow; and of the selected item's own block only what
	// contradicts.
	n := len(sel.Items)
	s.blocks = slices.Grow(s.blocks[:0], n)[:n]
	block := int32(0)
	for r, next := 0, 0; r < n; r++ {
		if next < len(sel.Undecided) && int(sel.Undecided[next]) == r {
			block++
			next++
		}
		s.blocks[r] = block
	}
	s.highest = slices.Grow(s.highest[:0], int(block)+1)[:block+1]
	for b := range s.highest {
		s.highest[b] = -1
	}
	for _, r := range sel.Order[:sel.At] {
		b := s.blocks[r]
		s.highest[b] = max(s.highest[b], r)
	}
	rank := sel.Order[sel.At]
	one := reported{explored: 1}
	if len(sel.Undecided) == 0 {
		one = reported{against: 1}
	}
	for b, r := range s.highest {
		if r >= 0 && (int32(b) != s.blocks[rank] || r > rank) {
			s.evidence(y, sel.Items[r], one)
		}
	}
}

// evidence takes in that y was selected over x, in an explored impression or against an order that was taken for certain.
func (s *Sorted) evidence(y, x policy.Item, one reported) {
	if x == y || !tracked(max(x, y)) {
		return
	}
	was := s.varied()
	if one.against > 0 || !was && s.relation.Above(x, y) {
		s.contradictions++
	}
	_, majority := s.counts.add(y, x, one)
	if was && one.explored == 0 { // scores are of what was explored
		return
	}
	s.apply(y, x, majority)
}

// apply brings the relation up to date with a changed majority on a pair: at once where it is no more than a new certainty,
// and else before the relation is used.
func (s *Sorted) apply(y, x policy.Item, majority int64) {
	switch {
	case s.conflicted || s.counts.opposed > 0 || s.cyclic: // scores are of all counts
		s.stale = true
	case majority > 0 && !s.relation.Add(y, x), majority < 0 && !s.relation.Add(x, y):
		s.stale = true
	case majority == 0 && s.relation.Decided(x, y):
		s.stale = true
	}
}

// Advance implements Finder: nothing is done on a schedule.
func (s *Sorted) Advance(int64) {}

// Hash implements Finder.
func (s *Sorted) Hash() string { return "preferences" }

// Harvest implements Finder.
func (s *Sorted) Harvest(f func(field, value []byte)) { s.counts.harvest(f) }

// Load implements Finder.
func (s *Sorted) Load(field, value []byte) error {
	if err := s.counts.load(field, value, min(s.items, MaxItems)); err != nil {
		return fmt.Errorf("%w: hash %q, field %.64q, value %.64q: %w", ErrState, s.Hash(), field, value, err)
	}
	return nil
}

// Loaded implements Finder.
func (s *Sorted) Loaded() { s.rebuild() }

// SetSource implements Finder.
func (s *Sorted) SetSource(source int32, field, value []byte, items func(policy.Item) (policy.Item, bool)) {
	a, b, err := parsePair(field)
	if err != nil {
		return
	}
	var n reported
	if value != nil {
		if n, err = parseTold(value); err != nil {
			return
		}
	}
	a, okA := items(a)
	b, okB := items(b)
	if !okA || !okB || a == b || !tracked(max(a, b)) || int(max(a, b)) >= s.items {
		return
	}
	before, after := s.counts.imports(source, a, b, n)
	if before != 0 && (after > 0) != (before > 0) {
		s.stale = true // what followed from it may not follow any more
	}
	s.apply(a, b, after)
}

// Status implements Finder.
func (s *Sorted) Status() Status {
	n := int64(s.relation.Len())
	status := Status{Undecided: n*(n-1)/2 - s.relation.DecidedPairs(), Contradictions: s.contradictions}
	if s.varied() {
		status.Undecided = s.scores.open
	}
	return status
}

// Report implements Finder.
func (s *Sorted) Report(r *Report) {
	all := make([]policy.Item, s.items)
	for i := range all {
		all[i] = policy.Item(i)
	}
	order := make([]int32, s.items)
	r.Undecided, _ = s.sort(all, 0, order, r.Undecided[:0])
	r.Items = append(r.Items[:0], order...)
	r.Status = s.Status()
	r.Expected = s.expected()
}
