package preference

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

type decidedPair struct {
	better, worse policy.Item
	majority      int64
}

// decided returns the pairs decided by their counts, ordered by the better item.
func (s *ordering) decidedPairs(items int, majority func(pairCount) int64) []decidedPair {
	end := make([]int32, items+1) // by better item, the end of its edges
	each := func(f func(decidedPair)) {
		for p, sums := range s.seatedPairs() {
			switch v := majority(sums); {
			case v > 0:
				f(decidedPair{p.low, p.high, v})
			case v < 0:
				f(decidedPair{p.high, p.low, -v})
			}
		}
	}
	each(func(e decidedPair) { end[e.better+1]++ })
	for i := range items {
		end[i+1] += end[i]
	}
	edges := make([]decidedPair, end[items])
	each(func(e decidedPair) {
		edges[end[e.better]] = e
		end[e.better]++
	})
	return edges
}

// rebuild computes the closure of the decided pairs, without the weakest of those in cycles, in O(pairs·n/64).
func (s *ordering) rebuild() {
	s.reseat()
	n := s.relation.Len()
	c := newComponents(n)
	s.cyclic = c.cyclic(s.decidedPairs(n, pairCount.exploredMajority))
	if s.stale = false; s.varied() {
		s.scores.estimate(s, n)
		return
	}
	edges := s.decidedPairs(n, pairCount.firstMajority)
	all := len(edges)
	for c.find(edges); ; c.find(edges) {
		before := len(edges)
		edges = c.leaveOutWeakest(edges)
		if len(edges) == before {
			break
		}
	}
	s.conflicted = len(edges) < all
	// Components are numbered from the lowest up, each of a single item now.
	s.relation.clear()
	lowestFirst := make([]policy.Item, n)
	for i, at := range c.of {
		lowestFirst[at] = policy.Item(i)
	}
	for _, i := range lowestFirst {
		for _, e := range edges[c.first[i]:c.first[i+1]] {
			s.relation.lower(i, e.worse, s.relation.row(e.worse))
		}
	}
}

// components are the strongly connected components of a graph with edges sorted by better item: R. Tarjan, "Depth-first search and
// linear graph algorithms", SIAM J. Computing 1972, with an explicit stack.
type components struct {
	of    []int32 // by item; edges lead to the same or a smaller component
	first []int32 // by item: its first edge; one element more
	count int32

	index, low []int32 // 0: not visited
	next       []int32 // by item: its next edge
	open       []policy.Item
	isOpen     []bool
	path       []policy.Item
}

func (c *components) cyclic(edges []decidedPair) bool {
	c.find(edges)
	return int(c.count) < len(c.of)
}

func newComponents(n int) *components {
	return &components{
		of: make([]int32, n), first: make([]int32, n+1), index: make([]int32, n), low: make([]int32, n), next: make([]int32, n),
		isOpen: make([]bool, n),
	}
}

func (c *components) find(edges []decidedPair) {
	at := int32(0)
	for i := range c.of {
		for int(at) < len(edges) && int(edges[at].better) < i {
			at++
		}
		c.first[i] = at
	}
	c.first[len(c.of)] = int32(len(edges))
	clear(c.index)
	c.count = 0
	visited := int32(0)
	for i := range c.of {
		if c.index[i] == 0 {
			visited = c.visit(policy.Item(i), edges, visited)
		}
	}
}

func (c *components) visit(root policy.Item, edges []decidedPair, visited int32) int32 {
	enter := func(i policy.Item) {
		visited++
		c.index[i], c.low[i], c.next[i] = visited, visited, c.first[i]
		c.open, c.path, c.isOpen[i] = append(c.open, i), append(c.path, i), true
	}
	enter(root)
	for len(c.path) > 0 {
		i := c.path[len(c.path)-1]
		if c.next[i] < c.first[i+1] {
			to := edges[c.next[i]].worse
			c.next[i]++
			switch {
			case c.index[to] == 0:
				enter(to)
			case c.isOpen[to]:
				c.low[i] = min(c.low[i], c.index[to])
			}
			continue
		}
		c.path = c.path[:len(c.path)-1]
		if len(c.path) > 0 {
			up := c.path[len(c.path)-1]
			c.low[up] = min(c.low[up], c.low[i])
		}
		if c.low[i] == c.index[i] {
			c.close(i)
		}
	}
	return visited
}

func (c *components) close(first policy.Item) {
	for {
		i := c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
		c.isOpen[i] = false
		c.of[i] = c.count
		if i == first {
			break
		}
	}
	c.count++
}

// leaveOutWeakest removes, in each component of several items, the edges of the smallest majority.
func (c *components) leaveOutWeakest(edges []decidedPair) []decidedPair {
	var weakest []int64 // by component
	for _, e := range edges {
		if at := c.of[e.better]; at == c.of[e.worse] {
			if weakest == nil {
				weakest = make([]int64, c.count)
				for k := range weakest {
					weakest[k] = math.MaxInt64
				}
			}
			weakest[at] = min(weakest[at], e.majority)
		}
	}
	if weakest == nil {
		return edges
	}
	return slices.DeleteFunc(edges, func(e decidedPair) bool {
		at := c.of[e.better]
		return at == c.of[e.worse] && e.majority == weakest[at]
	})
}

// perInsertion is the number of selections that halve an item's possible places, measured by BenchmarkBurnIn.
const perInsertion = 1.65

// expected returns the rough remaining length of the burn-in: for each item the selections to halve its undecided pairs until none
// is left, each pair counted once.
func (s *ordering) expected() float64 {
	n := s.relation.Len()
	if s.varied() {
		return s.expectedOfScores()
	}
	var halvings float64
	for i := range n {
		open := n - 1 - int(s.relation.below[i]) - int(s.relation.above[i])
		halvings += math.Log2(1 + float64(open)/2)
	}
	return perInsertion * halvings
}
