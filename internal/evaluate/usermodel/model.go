package usermodel

import (
	"math"
	"slices"
)

// Model describes how users find and select items. It is not safe for concurrent use.
type Model struct {
	Q     []float64 // probabilities of windows 1, 2, …; longer ones count as the longest
	Noise float64   // share of users who find any item that they look at
	Taken []float64 // selection probabilities of found items; rarely found items share the first

	rows  *Rows
	share []int32   // by item: index in Taken
	given bool      // Q is not fitted
	noisy bool      // a blocked item was selected, so Noise is fitted
	mean  float64   // prior mean of Taken
	prior []float64 // prior of Q

	upTo []float64         // Σ_{v≤w} q_v
	seen map[int][]float64 // by length of the list: Σ_{v≥k} q_v/min(v,n) at [k], k from 1
}

// Shown appends a ranking as rows store it; order holds utility ranks, by which items are indexed, as shown.
func Shown(dst, items, order []int32) []int32 {
	most := int32(-1)
	for _, rank := range order {
		x := items[rank] << 1
		if rank > most {
			x, most = x|leads, rank
		}
		dst = append(dst, x)
	}
	return dst
}

// leads marks an item with none of higher utility above it.
const leads = 1

// of returns an item's index in Taken; unknown items have the first.
func (m *Model) of(shown int32) int32 {
	if i := int(shown >> 1); i < len(m.share) {
		return m.share[i]
	}
	return 0
}

const least = 1e-12

func (m *Model) prepare() {
	m.upTo = sumsOf(m.upTo, m.Q)
	clear(m.seen)
}

// sumsOf returns the sums of the first 0, 1, 2, … of x.
func sumsOf(dst, x []float64) []float64 {
	dst = append(dst[:0], 0)
	for w := range x {
		dst = append(dst, dst[w]+x[w])
	}
	return dst
}

// glances returns Σ_{v≥k} x_v/min(v,n) at [k], for k from 1 to n.
func glances(x []float64, n int) []float64 {
	g, sum := make([]float64, n+1), 0.0
	for v := len(x); v >= 1; v-- {
		sum += x[v-1] / float64(min(v, n))
		if v <= n {
			g[v] = sum
		}
	}
	return g
}

func (m *Model) glancesOf(n int) []float64 {
	g := m.seen[n]
	if g == nil {
		g = glances(m.Q, n)
		m.seen[n] = g
	}
	return g
}

func span(sums []float64, low, high int) float64 {
	longest := len(sums) - 1
	if low > longest {
		return 0
	}
	return sums[min(high, longest)] - sums[low-1]
}

// spanOf returns the longest window in which the item at a position, from 0, is the favourite; 0 if it is blocked.
func (m *Model) spanOf(shown []int32, at int) int {
	if shown[at]&leads == 0 {
		return 0
	}
	for k := at + 1; k < len(shown); k++ {
		if shown[k]&leads != 0 {
			return k
		}
	}
	return max(len(m.Q), len(shown))
}

// Found returns the probability that the item at a position, from 0, is found.
func (m *Model) Found(shown []int32, at int) float64 {
	p := 0.0
	if high := m.spanOf(shown, at); high > 0 {
		p = (1 - m.Noise) * span(m.upTo, at+1, high)
	}
	if m.noisy {
		p += m.Noise * m.glancesOf(len(shown))[at+1]
	}
	return p
}

// each calls f with each position that can be found, its longest window as favourite, and its probability.
func (m *Model) each(shown []int32, f func(at, high int, p float64)) {
	n := len(shown)
	var glance []float64
	if m.noisy {
		glance = m.glancesOf(n)
	}
	high := max(len(m.Q), n)
	for at := n - 1; at >= 0; at-- {
		switch {
		case shown[at]&leads != 0:
			p := (1 - m.Noise) * span(m.upTo, at+1, high)
			if glance != nil {
				p += m.Noise * glance[at+1]
			}
			f(at, high, p)
			high = at
		case glance != nil:
			f(at, 0, m.Noise*glance[at+1])
		}
	}
}

func (m *Model) leaves(shown []int32) float64 {
	p := 1.0
	m.each(shown, func(at, _ int, x float64) { p -= x * m.Taken[m.of(shown[at])] })
	return max(p, least)
}

// point holds a model's parameters: log Q, and logits of Noise and Taken.
type point []float64

func (m *Model) point(dst point) point {
	dst = dst[:0]
	for _, x := range m.Q {
		dst = append(dst, math.Log(max(x, least)))
	}
	dst = append(dst, logit(m.Noise))
	for _, x := range m.Taken {
		dst = append(dst, logit(x))
	}
	return dst
}

func (m *Model) set(p point) {
	if !m.given {
		most, sum := slices.Max(p[:len(m.Q)]), 0.0
		for w := range m.Q {
			m.Q[w] = math.Exp(p[w] - most)
			sum += m.Q[w]
		}
		for w := range m.Q {
			m.Q[w] /= sum
		}
	}
	if p = p[len(m.Q):]; m.noisy {
		m.Noise = logistic(p[0])
	}
	for i, x := range p[1:] {
		m.Taken[i] = logistic(x)
	}
	m.prepare()
}

func logit(x float64) float64 {
	x = min(max(x, least), 1-least)
	return math.Log(x / (1 - x))
}

func logistic(x float64) float64 { return min(max(1/(1+math.Exp(-x)), least), 1-least) }
