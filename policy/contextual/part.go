package contextual

import "github.com/ranker-worker/ranker-worker/policy/features"

// part makes a model part of a whole, which is told of the payoffs of all sources and fits. The part keeps nodes of its own only where it
// knows something else than the whole, and of what these belong to; it takes all else from there.
type part struct {
	base    *Model             // nil: it is no part
	heeds   bool               // it goes by the whole
	stored  learned            // what is stored
	touched [MaxLevels][]int32 // numbers of its own nodes
	free    []*node
}

// mostFree is how many nodes are kept for use again: one that begins has many that the whole has not been told of yet.
const mostFree = 1024

// learned is what a fit has learned besides θ̂, and of how many payoffs.
type learned struct {
	since    int64
	payoffs  int64
	variance float64
	lambda   [features.Groups]float64
	kappa    [MaxLevels]float64
}

// learned is what it goes by.
func (m *Model) learned() learned {
	return learned{m.now.since, m.now.learned, m.now.variance, m.now.lambda, m.kappa}
}

// Share makes it, of which nothing is known, part of a whole. The whole must not change while the part is used; when it has changed, Refresh
// is to be called.
func (m *Model) Share(whole *Model) {
	m.base, m.Total = whole, whole.Total
	m.Refresh()
}

// Refresh takes note that the whole has changed: nothing but what it knows is known, until Set. Until the whole has learned
// variances for the first time, a part of which a fit was loaded goes by that, and by its own nodes alone.
func (m *Model) Refresh() {
	for l := range m.touched {
		for _, number := range m.touched[l] {
			if len(m.free) < mostFree {
				m.free = append(m.free, m.levels[l].Get(number))
			}
			m.levels[l].Remove(number)
		}
		m.touched[l] = m.touched[l][:0]
	}
	if m.heeds = m.base.fit.number > 0 || m.fit.number == 0; m.heeds {
		m.now, m.kappa = &m.base.fit, m.base.kappa
	} else {
		m.now = &m.fit
	}
}

// Unstored tells of a part whether the whole has learned something else than was when Stored was called, or the fit loaded, last. The part
// goes by it from the next Refresh on.
func (m *Model) Unstored() bool {
	return m.base != nil && m.base.fit.number > 0 && m.stored != m.base.learned()
}

// Stored takes note that what Append appends is stored.
func (m *Model) Stored() { m.stored = m.learned() }

// Heeds tells whether a part goes by the whole.
func (m *Model) Heeds() bool { return m.heeds }

// shared is the whole's node, if the part has none of its own.
func (m *Model) shared(level int, number int32) *node {
	if !m.heeds {
		return nil
	}
	return m.base.levels[level].Get(number)
}

// newNode makes a node: of a part, what the whole knows.
func (m *Model) newNode(level int, number int32) (n *node) {
	if m.base == nil {
		return newNode(level, m.dim)
	}
	if last := len(m.free) - 1; last >= 0 {
		n, m.free = m.free[last], m.free[:last]
	} else {
		n = newNode(MaxLevels, m.dim)
	}
	n.set(m.shared(level, number))
	m.touched[level] = append(m.touched[level], number)
	return n
}

// Drop makes nothing known of a cell, so that it may belong elsewhere; of a part, no more than the whole knows.
func (m *Model) Drop(at Path) {
	if m.config.Levels == 0 || m.levels[0].Get(at[0]) == nil {
		return
	}
	n := m.open(at)
	held := n.held
	n.set(m.shared(0, at[0]))
	n.held = held
	m.close(at)
}

// set makes a node what another is; nil is nothing.
func (n *node) set(o *node) {
	if o == nil {
		o = &node{}
	}
	n.w, n.r, n.held = o.w, o.r, o.held
	clear(n.s)
	copy(n.s, o.s) // what is silent is in it
	clear(n.passed)
	copy(n.passed, o.passed)
	if n.silent != nil {
		n.silent.W, n.silent.R, n.silent.Q = 0, 0, 0
	}
}

// MarkBy says by what nodes are told apart where variances are learned from some of them: numbers that are the same wherever
// the same is to be learned. Without it, it is their numbers.
func (m *Model) MarkBy(mark func(level int, number int32) uint64) { m.mark = mark }
