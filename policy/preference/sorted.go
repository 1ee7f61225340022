package preference

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// MaxItems bounds the items of a Sorted: its relation takes 8 MiB.
const MaxItems = 8192

// Sorted learns the order of deterministic users, who all share one order and select the best within their window. A selection at position
// k shows that its item exceeds all items shown above it, and nothing else. These pairs and their transitive closure form the relation.
//
// An impression whose order is not certain explores: on top a pair of unknown order, in random order. Below it is a run in
// increasing guessed utility, each undecided against the one before, so that users who look further reveal more. One impression in
// eight chooses the pair by binary insertion, which bounds the burn-in by O(n·log n). The others take the longest stretch of
// undecided neighbours, which is faster on average (TestBurnIn_OrderIsTheTrueOne has the proof).
//
// Users may contradict each other. Both counts of each compared pair decide it, see majority. In cycles the pairs of the smallest
// majority in each strongly connected component are left out, repeatedly. So the relation is always an order, a function of the
// counts, and pairs left out are explored again. If users contradict each other by more than chance, their tastes vary: the order
// of mean utilities is then learned at a bounded price; see scores, wanting and compare.
//
// The budget of an impression is spent once the items of its undecided pairs want no comparisons. Its order is then a guess in 7 of 8
// impressions, or counts as certain where tastes vary.
//
// Only pairs that did not follow from the order at the decision are counted; with deterministic users none are left after burn-in.
//
// Hash "preferences" maps "<better>:<worse>" to the number of selections of the first with the second shown above it: in explored
// impressions, and behind a blank, unless 0, in others. Items from MaxItems on are not learned: they count as lower than all
// others, in the order of their numbers.
type Sorted struct {
	*ordering           // our own: with Share only its counts are used
	read      *ordering // decisions read this one: our own, or the global one
	number    func(policy.Item) policy.Item
	resyncs   policy.Resyncs[[2]policy.Item]

	contradictions int64

	places  []policy.Item // scratch: items by their numbers in read
	entries []entry       // scratch of Sort
	blocks  []int32       // scratch of Selected: by rank
	highest []int32       // scratch of Selected: by block
	chain   []int32       // scratch of Explore: ranks
	numbers []int32       // scratch of Explore: ranks in the order of the items' numbers
	taken   []bool        // scratch of Explore: by rank
}

var _ Finder = (*Sorted)(nil)

// NewSorted returns one without items.
func NewSorted() *Sorted {
	s := &Sorted{ordering: &ordering{}, resyncs: policy.Resyncs[[2]policy.Item]{}}
	s.read = s.ordering
	s.counts.init()
	return s
}

type entry struct {
	key      uint64
	position int32
}

func (s *Sorted) Grow(items int) {
	if s.mark != nil { // items that have been compared get seats
		return
	}
	was := s.varied()
	s.items = max(s.items, items)
	s.counts.grow(min(items, MaxItems))
	if s.read == s.ordering {
		s.relation.Grow(min(items, MaxItems))
		s.stale = s.stale || was || s.varied() // scores are of fewer items, and the relation is not kept beside them
	}
}

func (s *Sorted) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	undecided, budget := s.sort(candidates, key, order, undecided)
	switch varied := s.read.varied(); {
	case len(undecided) == 0:
	case varied && budget == spent:
		return undecided[:0]
	case budget == spent && key.Float64(drawRest) >= restShare:
		return append(undecided[:0], 0)
	case varied:
		// Each is a block of its own, so that a selection counts against all items shown above: all pairs are compared alike.
		undecided = undecided[:0]
		for r := 1; r < len(candidates); r++ {
			undecided = append(undecided, int32(r))
		}
	}
	return undecided
}

// budget says whether exploration may go on.
type budget bool

const spent budget = false

// sort is Sort without a budget: undecided lists all uncertain ranks; budget says whether any of their items wants comparisons.
func (s *Sorted) sort(candidates []policy.Item, key policy.Key, order, undecided []int32) ([]int32, budget) {
	if s.read == s.ordering && s.stale {
		s.rebuild()
	}
	varied := s.read.varied()
	candidates = s.placed(candidates)
	s.entries = slices.Grow(s.entries[:0], len(candidates))
	for k, i := range candidates {
		e := entry{position: int32(k), key: uint64(i)}
		if tracked(i) {
			// Positions of up to MaxItems items differ by at least 2⁻²⁷, so 32 bits suffice; the rest breaks ties.
			e.key = uint64(s.read.position(i, varied)*(1<<32))<<32 | key.Uint64(drawTie+uint64(k))>>32
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
		if certain := s.read.decided(a, b); !certain {
			undecided = append(undecided, int32(r))
			left = left || budget(s.read.wanting(a) || s.read.wanting(b))
		}
	}
	return undecided, left
}

const (
	insertionShare = 0.125 // of exploring impressions: they compare a pair by binary insertion
	swapShare      = 1.0 / 3
	longestStretch = 4 // longer stretches are no better
)

func (s *Sorted) Explore(items []policy.Item, undecided []int32, key policy.Key, shown []int32) {
	items = s.placed(items)
	if s.read.varied() {
		s.read.compare(items, key, shown)
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
		if !s.read.decided(last, items[r]) {
			shown[n], last, s.taken[r] = r, items[r], true
			n++
		}
	}
	// Items below the run come first: they take no selections from it.
	for r := range items {
		if !s.taken[r] {
			shown[n] = int32(r)
			n++
		}
	}
}

// longest returns the first rank of a longest stretch of undecided neighbours, up to longestStretch; u in [0,1) breaks ties.
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

// insertion returns the pair, lower rank first, that binary insertion in the order of item numbers compares next. It is the first
// item whose place among those before it is uncertain, and the middle one of its undecided range. The order must not be certain.
func (s *Sorted) insertion(items []policy.Item) (low, high int32) {
	s.numbers = slices.Grow(s.numbers[:0], len(items))
	for r := range items {
		s.numbers = append(s.numbers, int32(r))
	}
	slices.SortFunc(s.numbers, func(a, b int32) int { return cmp.Compare(items[a], items[b]) })
	s.chain = slices.Grow(s.chain[:0], len(items)) // ranks of items in a certain order
	for _, r := range s.numbers {
		z := items[r]
		if !tracked(z) {
			break
		}
		from, _ := slices.BinarySearchFunc(s.chain, z, func(c int32, z policy.Item) int {
			if s.read.above(z, items[c]) {
				return -1
			}
			return 1
		})
		to, _ := slices.BinarySearchFunc(s.chain[from:], z, func(c int32, z policy.Item) int {
			if s.read.above(items[c], z) {
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

func (s *Sorted) Selected(sel *Selection) {
	y := sel.selected()
	if len(sel.Order) == 0 {
		for _, x := range sel.Items[:sel.At] {
			s.evidence(y, x, reported{explored: 1})
		}
		return
	}
	// Items between two undecided ranks are a block, within which the order was certain. Of each block only the highest shown above
	// counts, since the others follow; of the selection's own block only contradictions.
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
	one := reported{against: 1}
	if Explores(sel.Undecided) {
		one = reported{explored: 1}
	}
	for b, r := range s.highest {
		if r >= 0 && (int32(b) != s.blocks[rank] || r > rank) {
			s.evidence(y, sel.Items[r], one)
		}
	}
}

func (s *Sorted) evidence(y, x policy.Item, one reported) {
	if x == y || !tracked(max(x, y)) {
		return
	}
	was := s.read.varied()
	if one.against > 0 || !was && s.read.above(s.place(x), s.place(y)) {
		s.contradictions++
	}
	_, majority := s.counts.add(y, x, one)
	if s.read != s.ordering || was && one.explored == 0 { // scores use explored impressions only
		return
	}
	s.apply(y, x, majority)
}

// apply updates the relation for a changed majority: at once if it is only a new certainty, else before the next use.
func (s *ordering) apply(y, x policy.Item, majority int64) {
	switch {
	case s.conflicted || s.counts.opposed > 0 || s.cyclic: // scores use all counts
		s.stale = true
	case majority > 0 && !s.relation.Add(y, x), majority < 0 && !s.relation.Add(x, y):
		s.stale = true
	case majority == 0 && s.relation.Decided(x, y):
		s.stale = true
	}
}

// Advance implements Finder; nothing is scheduled.
func (s *Sorted) Advance(int64) {}

func (s *Sorted) Hash() string { return "preferences" }

func (s *Sorted) Harvest(f func(field, value []byte)) { s.counts.harvest(f) }

func (s *Sorted) Load(field, value []byte) error {
	if err := s.counts.load(field, value, min(s.items, MaxItems)); err != nil {
		return fmt.Errorf("%w: hash %q, field %.64q, value %.64q: %w", ErrState, s.Hash(), field, value, err)
	}
	return nil
}

func (s *Sorted) Loaded() {
	if s.read == s.ordering {
		s.rebuild()
	}
}

func (s *Sorted) SetSource(source int32, field, value []byte, items func(policy.Item) (policy.Item, bool)) {
	a, b, err := parsePair(field, math.MaxInt32)
	if err != nil {
		return
	}
	var n reported
	if value != nil {
		if n, err = parseReported(value); err != nil {
			return
		}
	}
	a, okA := items(a)
	b, okB := items(b)
	if !okA || !okB || a == b {
		return
	}
	s.resyncs.Note(source, [2]policy.Item{a, b})
	s.imports(source, a, b, n)
}

// imports sets a source's counts of a over b.
func (s *Sorted) imports(source int32, a, b policy.Item, n reported) {
	if s.mark == nil && (!tracked(max(a, b)) || int(max(a, b)) >= s.items) {
		return
	}
	s.counts.grow(int(max(a, b)) + 1)
	before, after := s.counts.imports(source, a, b, n)
	a, b = s.seatOf(a), s.seatOf(b)
	if a < 0 || b < 0 || before != 0 && (after > 0) != (before > 0) {
		s.stale = true // items are new, or consequences of the old order may be gone
		return
	}
	s.apply(a, b, after)
}

func (s *Sorted) Status() Status {
	n := int64(s.read.len())
	status := Status{Undecided: n*(n-1)/2 - s.read.relation.decided, Contradictions: s.contradictions}
	if s.read.varied() {
		status.Undecided = s.read.scores.open
	}
	return status
}

func (s *Sorted) Report(r *Report) {
	all := make([]policy.Item, s.items)
	for i := range all {
		all[i] = policy.Item(i)
	}
	order := make([]int32, s.items)
	r.Undecided, _ = s.sort(all, 0, order, r.Undecided[:0])
	r.Items = append(r.Items[:0], order...)
	r.Status = s.Status()
	r.Expected = s.read.expected()
}
