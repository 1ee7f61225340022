package preference

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Where users' tastes vary there is no order that all selections agree with, and comparisons never end. What is looked for
// then is the order of the items' mean utilities, well enough, for a price that is bounded.
const (
	// mostCompared is with how many others an item is compared, as long as users do not contradict each other: with all, in lists
	// of no more items; with thousands, three times as many as a sort needs.
	mostCompared = 32
	// restShare is of the impressions whose order is not certain, though as much as is to be spent has been spent on it, those
	// that are explored nevertheless, as long as users do not contradict each other: then all becomes certain in the end.
	restShare = 0.125
	// disputedShare and opposedShare are how many selections, for each item, have to contradict what more of them say, to tell
	// that tastes vary: of explored impressions, and of all. So does a cycle of what explored impressions decide.
	disputedShare, opposedShare = 0.5, 20.0
	// apartBy is by how many standard errors two scores have to differ for their order to be taken for certain.
	apartBy = 2.0
	// enough is the information about an item's score that is good enough: that of 16 comparisons with its like. There may be
	// as much again for each 2,048 times that it was selected against the order, or another against it, for tastes may drift.
	enough, drift = 4.0, 512.0
)

// varied tells whether users contradict each other by more than chance: their own tastes vary.
func (s *Sorted) varied() bool {
	n := float64(len(s.counts.compared))
	return s.cyclic || float64(s.counts.disputed) > disputedShare*n || float64(s.counts.opposed) > opposedShare*n
}

// wanting tells whether less is known of an item than is to be found out: where tastes vary, of its score; else it is to be
// compared with so many others.
func (s *Sorted) wanting(i policy.Item) bool {
	if !tracked(i) {
		return false
	}
	if s.varied() {
		return s.scores.known[i] < s.wanted(i)
	}
	return s.counts.compared[i] < mostCompared
}

// expectedOfScores is about how many more selections it takes until as much is known of all scores as is to be found out: a
// comparison of two items that are liked alike tells a quarter of each.
func (s *Sorted) expectedOfScores() (selections float64) {
	for i, known := range s.scores.known {
		selections += max(0, s.wanted(policy.Item(i))-known) * 4 / 2
	}
	return selections
}

// wanted is the information about an item's score that is to be found out.
func (s *Sorted) wanted(i policy.Item) float64 { return enough + float64(s.counts.against[i])/drift }

// compare shows the items in random order, two neighbours on top whose order is not certain, one of which has been compared
// the least.
func (s *Sorted) compare(items []policy.Item, key policy.Key, shown []int32) {
	for r := range items {
		shown[r] = int32(r)
	}
	for k := len(shown) - 1; k > 0; k-- {
		j, _ := bits.Mul64(key.Uint64(drawShuffle+uint64(k)), uint64(k+1))
		shown[k], shown[j] = shown[j], shown[k]
	}
	least, at := math.Inf(1), 0
	for k, r := range shown { // of several, one at random
		if r == 0 || s.decided(items[r-1], items[r]) {
			continue
		}
		for _, i := range items[r-1 : r+1] {
			if tracked(i) && s.scores.known[i] < least {
				least, at = s.scores.known[i], k
			}
		}
	}
	if math.IsInf(least, 1) {
		return
	}
	high := shown[at]
	low := high - 1
	shown[0], shown[at] = shown[at], shown[0]
	k := slices.Index(shown, low)
	shown[1], shown[k] = shown[k], shown[1]
	if key.Float64(drawSwap) < 0.5 {
		shown[0], shown[1] = low, high
	}
}

// scores are the items' mean utilities, as far as comparisons tell, up to a scale: those that make likeliest, of each pair of
// items, how often one was selected over the other in explored impressions, where a with score x is selected over b with score
// y with probability 1/(1+e^{y-x}) (R. Bradley, M. Terry, "Rank analysis of incomplete block designs", Biometrika 1952). Each
// item is taken to have been compared with the mean of all, 0, once with each outcome half, so that no score is infinite.
type scores struct {
	score []float64 // by item
	odds  []float64 // by item: its exponential
	known []float64 // by item: its Fisher information
	open  int64     // pairs of neighbours whose order is not certain
	order []policy.Item

	first    []int32 // by item, where its comparisons begin; one more at the end
	next     []int32
	with     []comparison
	unsorted []comparison
}

// comparison is of an item with another.
type comparison struct {
	with policy.Item
	won  float64
	of   float64
}

// passes are those of the iteration. It begins anew each time, so that scores are a function of the counts.
const passes = 10

// estimate finds the scores of n items: Newton's method, one item after the other.
func (s *scores) estimate(c *counts, n int) {
	s.gather(c, n)
	s.score, s.known = slices.Grow(s.score[:0], n)[:n], slices.Grow(s.known[:0], n)[:n]
	clear(s.score)
	s.odds = slices.Grow(s.odds[:0], n)[:n]
	for range passes {
		s.centre() // what is common to all scores changes but slowly otherwise
		for i := range n {
			x := s.odds[i]
			p := x / (x + 1)
			slope, known := 0.5-p, p*(1-p)
			for _, c := range s.with[s.first[i]:s.first[i+1]] {
				p := x / (x + s.odds[c.with])
				slope += c.won - float64(c.of*p)
				known += float64(c.of * (p * (1 - p)))
			}
			s.score[i], s.known[i] = s.score[i]+max(-1, min(slope/known, 1)), known
			s.odds[i] = math.Exp(s.score[i])
		}
	}
	s.order = s.order[:0]
	for i := range n {
		s.order = append(s.order, policy.Item(i))
	}
	slices.SortFunc(s.order, func(a, b policy.Item) int { return cmp.Compare(s.score[a], s.score[b]) })
	s.open = 0
	for k := 1; k < n; k++ {
		if !s.apart(s.order[k-1], s.order[k]) {
			s.open++
		}
	}
}

// centre makes the mean of the scores 0.
func (s *scores) centre() {
	var mean float64
	for _, x := range s.score {
		mean += x
	}
	mean /= float64(len(s.score))
	for i := range s.score {
		s.score[i] -= mean
		s.odds[i] = math.Exp(s.score[i])
	}
}

// gather lists each item's comparisons, in the order of the items that they are with: sums do not depend on how counts came
// about.
func (s *scores) gather(c *counts, n int) {
	s.first = slices.Grow(s.first[:0], n+1)[:n+1]
	clear(s.first)
	for _, p := range c.pairs {
		s.first[p.low+1]++
		s.first[p.high+1]++
	}
	for i := range n {
		s.first[i+1] += s.first[i]
	}
	all := int(s.first[n])
	s.unsorted, s.with = slices.Grow(s.unsorted[:0], all)[:all], slices.Grow(s.with[:0], all)[:all]
	s.next = append(s.next[:0], s.first...)
	for at, p := range c.pairs {
		t := c.sums.Pooled(int32(at)).explored
		of := float64(t[0] + t[1])
		s.unsorted[s.next[p.low]] = comparison{p.high, float64(t[0]), of}
		s.unsorted[s.next[p.high]] = comparison{p.low, float64(t[1]), of}
		s.next[p.low]++
		s.next[p.high]++
	}
	copy(s.next, s.first)
	for i := range n {
		for _, x := range s.unsorted[s.first[i]:s.first[i+1]] {
			s.with[s.next[x.with]] = comparison{policy.Item(i), x.of - x.won, x.of}
			s.next[x.with]++
		}
	}
}

// apart tells whether the order of two items is certain.
func (s *scores) apart(a, b policy.Item) bool {
	d := s.score[a] - s.score[b]
	return d*d > apartBy*apartBy*(1/s.known[a]+1/s.known[b])
}

// position is an order-preserving image of an item's score within 0 and 1.
func (s *scores) position(i policy.Item) float64 { return 1 / (1 + math.Exp(-s.score[i])) }
