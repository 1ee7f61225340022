package propensity

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Selections counts what selections tell of windows and of noise, by the length of the list, the position, and up to where an item that
// leads would have been selected by whoever goes by utility. The zero value has none. It is not safe for concurrent use.
type Selections struct {
	counts map[seen]int64
	total  int64
	noise  int64 // that only noise explains
}

// seen is what one selection tells: the list had n items, the selected one stood at position low, from 1, and a window up to high selects it;
// high is 0 where it does not lead.
type seen struct{ n, low, high int32 }

// Add counts the selection of the item at a position, from 0, of a ranking: order holds utility ranks in the order shown.
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

// Total is how many selections were counted, and blocked how many of these were of items that stood below a better one.
func (s *Selections) Total() (n, blocked int64) { return s.total, s.noise }

// Estimate is what explains the selections best: the windows 1..longest, where a longer one counts as the longest, and the share of noise;
// with what policy.PriorWindows is worth, so that no window is impossible. It is Estimate of policy.Intervals with one more latent cause: each count is shared out
// among the windows that lead to it by utility and those that do by chance, in proportion to how likely each is (EM; Dempster, Laird, Rubin,
// JRSS B 1977), until a pass moves less than 1e-9 of all, or after most passes. Without a blocked selection noise is 0.
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
	given := make([]float64, longest) // selections that each window is given
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
	firstNoise = 0.05 // what the estimate starts from, where there is any
	tolerance  = 1e-9
)

// share shares the count of one cell out among windows, and tells what part of it is by chance.
func (s *Selections) share(c seen, q []float64, noise float64, given []float64) (byChance float64) {
	n, low, high := int(c.n), int(c.low), int(c.high)
	first := min(low, len(q)) - 1 // a window beyond the longest counts as the longest
	led := first                  // windows from first up to here select it by utility
	switch {
	case high == n:
		led = len(q) // whoever looks further sees no more
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
