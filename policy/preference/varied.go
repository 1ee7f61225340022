package preference

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Where tastes vary, no order agrees with all selections. The order of mean utilities is learned then, at a bounded price.
const (
	// mostCompared is the number of others that an item is compared with while users agree: all in shorter lists; with thousands,
	// three times as many as a sort needs.
	mostCompared = 32
	// restShare is the share of uncertain impressions explored after that, while users agree, so that all becomes certain.
	restShare = 0.125
	// disputedShare and opposedShare are the numbers of contradicting selections per item, of explored impressions and of all, from
	// which tastes vary. So does a cycle of pairs decided by explored impressions.
	disputedShare, opposedShare = 0.5, 20.0
	// apartBy is the number of standard errors between two scores whose order counts as certain.
	apartBy = 2.0
	// enough is the wanted information of a score, that of 16 comparisons with equals; as much more for each 2,048 selections
	// against the order, since tastes may drift.
	enough, drift = 4.0, 512.0
)

func (s *ordering) varied() bool {
	n := float64(s.len())
	return s.cyclic || float64(s.counts.disputed) > disputedShare*n || float64(s.counts.opposed) > opposedShare*n
}

// wanting returns whether an item needs more data: information on its score if tastes vary, else comparisons with others.
func (s *ordering) wanting(i policy.Item) bool {
	switch {
	case !tracked(i):
		return false
	case i < 0:
		return true
	case s.varied():
		return s.scores.known[i] < s.wanted(i)
	}
	return s.counts.compared[s.numberOf(i)] < mostCompared
}

// known returns the information on the score of a tracked item.
func (s *ordering) known(i policy.Item) float64 {
	if i < 0 {
		return unmet
	}
	return s.scores.known[i]
}

// expectedOfScores returns the rough number of selections until all scores are known; one between equals gives each a quarter.
func (s *ordering) expectedOfScores() (selections float64) {
	for i, known := range s.scores.known {
		selections += max(0, s.wanted(policy.Item(i))-known) * 4 / 2
	}
	return selections
}

func (s *ordering) wanted(i policy.Item) float64 {
	return enough + float64(s.counts.against[s.numberOf(i)])/drift
}

// compare shows the items in random order, with two neighbours of uncertain order on top, one of which was compared the least.
func (s *ordering) compare(items []policy.Item, key policy.Key, shown []int32) {
	for r := range items {
		shown[r] = int32(r)
	}
	for k := len(shown) - 1; k > 0; k-- {
		j, _ := bits.Mul64(key.Uint64(drawShuffle+uint64(k)), uint64(k+1))
		shown[k], shown[j] = shown[j], shown[k]
	}
	least, at := math.Inf(1), 0
	for k, r := range shown { // ties at random
		if r == 0 || s.decided(items[r-1], items[r]) {
			continue
		}
		for _, i := range items[r-1 : r+1] {
			if tracked(i) && s.known(i) < least {
				least, at = s.known(i), k
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

// scores are the items' mean utilities up to a scale, by maximum likelihood in explored impressions. An item of score x is selected
// over one of score y with probability 1/(1+e^{y-x}) (R. Bradley, M. Terry, "Rank analysis of incomplete block designs", Biometrika
// 1952). Each item has one prior comparison with the mean, 0, half won, so that scores are finite.
type scores struct {
	score []float64 // by item
	odds  []float64 // by item: exp(score)
	known []float64 // by item: Fisher information
	open  int64     // neighbouring pairs whose order is not certain
	order []policy.Item

	first    []int32 // by item: start of its comparisons; one element more
	next     []int32
	with     []comparison
	unsorted []comparison
}

type comparison struct {
	with policy.Item
	won  float64
	of   float64
}

// unmet is the information on the score of an item without comparisons: that of the prior one.
const unmet = 0.25

// passes is the number of iterations. They start from 0, so that scores are a function of the counts.
const passes = 10

// estimate computes the scores of n items by Newton's method, one item after the other.
func (s *scores) estimate(o *ordering, n int) {
	s.gather(o, n)
	s.score, s.known = slices.Grow(s.score[:0], n)[:n], slices.Grow(s.known[:0], n)[:n]
	clear(s.score)
	s.odds = slices.Grow(s.odds[:0], n)[:n]
	for range passes {
		s.centre() // otherwise the common level converges slowly
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

// gather lists each item's comparisons ordered by the other item, so that sums do not depend on history.
func (s *scores) gather(o *ordering, n int) {
	s.first = slices.Grow(s.first[:0], n+1)[:n+1]
	clear(s.first)
	for p := range o.seatedPairs() {
		s.first[p.low+1]++
		s.first[p.high+1]++
	}
	for i := range n {
		s.first[i+1] += s.first[i]
	}
	all := int(s.first[n])
	s.unsorted, s.with = slices.Grow(s.unsorted[:0], all)[:all], slices.Grow(s.with[:0], all)[:all]
	s.next = append(s.next[:0], s.first...)
	for p, sums := range o.seatedPairs() {
		t := sums.explored
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

// apart returns whether the order of two items is certain.
func (s *scores) apart(a, b policy.Item) bool {
	d := s.score[a] - s.score[b]
	return d*d > apartBy*apartBy*(1/s.known[a]+1/s.known[b])
}

// position maps an item's score to (0,1), increasing.
func (s *scores) position(i policy.Item) float64 { return 1 / (1 + math.Exp(-s.score[i])) }
