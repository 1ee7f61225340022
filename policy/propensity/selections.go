package propensity

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Selections counts selections by list length, position, and longest window in which the selected leader is the best. The zero
// value is empty. It is not safe for concurrent use.
type Selections struct {
	counts map[seen]int64
	total  int64
	noise  int64 // of blocked items, by noise only
}

// seen is a selection among n items at position low, from 1; windows up to high select it by utility; high is 0 if it is blocked.
type seen struct{ n, low, high int32 }

// Add counts a selection at position at, from 0; order holds utility ranks in the order shown.
func (s *Selections) Add(order []int32, at int) {
	c := seen{n: int32(len(order)), low: int32(at + 1)}
	if Leads(order, at) {
		c.high = int32(policy.NextAbove(order, at, len(order)))
	} else {
		s.noise++
	}
	if s.counts == nil {
		s.counts = make(map[seen]int64)
	}
	s.counts[c]++
	s.total++
}

// Total returns the number of selections, and of these, of blocked items.
func (s *Selections) Total() (n, blocked int64) { return s.total, s.noise }

// Estimate returns the likeliest windows 1..longest, where longer ones count as longest, and share of noise, with policy.PriorWindows as
// the prior. It is policy.Intervals' Estimate by list length: EM (Dempster, Laird, Rubin, JRSS B 1977) divides each count among windows by
// utility and by chance. It ends when an iteration moves less than 1e-9 of all, or after most ones. Without blocked selections noise is 0.
func (s *Selections) Estimate(longest, most int) (q []float64, noise float64) {
	q, prior := make([]float64, longest), make([]float64, longest)
	policy.PriorWindows(q)
	policy.PriorWindows(prior)
	if s.total == 0 {
		return q, 0
	}
	if s.noise > 0 {
		noise = firstNoise
	}
	cells := slices.SortedFunc(maps.Keys(s.counts), func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.low, b.low), cmp.Compare(a.high, b.high))
	})
	given := make([]float64, longest) // selections assigned to each window
	for range most {
		clear(given)
		byChance := 0.0
		for _, c := range cells {
			byChance += s.share(c, q, noise, given)
		}
		next := byChance / float64(s.total)
		moved := max(next-noise, noise-next)
		noise = next
		sum := 0.0
		for w := range q {
			given[w] += policy.PriorWeight * prior[w]
			sum += given[w]
		}
		for w := range q {
			next := given[w] / sum
			moved += max(next-q[w], q[w]-next)
			q[w] = next
		}
		if moved < tolerance {
			break
		}
	}
	return q, noise
}

const (
	firstNoise = 0.05 // initial noise, if there is any
	tolerance  = 1e-9
)

// share divides one cell's count among windows, and returns the part by chance.
func (s *Selections) share(c seen, q []float64, noise float64, given []float64) (byChance float64) {
	n, low, high := int(c.n), int(c.low), int(c.high)
	first := min(low, len(q)) - 1 // a window beyond the longest counts as the longest
	led := first                  // windows in [first, led) select it by utility
	switch {
	case high == n:
		led = len(q) // longer windows see no more
	case high > 0:
		led = min(max(high, first+1), len(q))
	}
	likely := func(w int) (chance, utility float64) {
		if w < led {
			utility = (1 - noise) * q[w]
		}
		return noise * q[w] / float64(min(w+1, n)), utility
	}
	var chance, all float64
	for w := first; w < len(q); w++ {
		x, y := likely(w)
		chance, all = chance+x, all+x+y
	}
	if all <= 0 {
		return 0
	}
	count := float64(s.counts[c])
	for w := first; w < len(q); w++ {
		x, y := likely(w)
		given[w] += count * (x + y) / all
	}
	return count * chance / all
}
