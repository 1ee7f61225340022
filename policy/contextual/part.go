package contextual

import "github.com/ranker-worker/ranker-worker/policy/features"

// part links a partition's model to the global one, which has the payoffs of all sources and makes the fits. The partition's model
// has nodes of its own only where its data differ, and above those.
type part struct {
	base    *Model             // nil without a global model
	heeds   bool               // the global fit is in use
	stored  learned            // variances that are stored
	touched [MaxLevels][]int32 // numbers of own nodes
	free    []*node
}

// mostFree bounds the nodes kept for reuse.
const mostFree = 1024

// learned are a fit's variances, and their number of payoffs.
type learned struct {
	since    int64
	payoffs  int64
	variance float64
	lambda   [features.Groups]float64
	kappa    [MaxLevels]float64
}

func (m *Model) learned() learned {
	return learned{m.now.since, m.now.learned, m.now.variance, m.now.lambda, m.kappa}
}

// Share puts an empty model below a global one, which must not change while it is used. Refresh must be called after a change.
func (m *Model) Share(global *Model) {
	m.base, m.Total = global, global.Total
	m.Refresh()
}

// Refresh drops all own nodes after a change of the global model. Until that has learned variances, a partition's model with a
// loaded fit uses its own fit and nodes alone.
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

// Unstored returns whether the global variances differ from those stored or loaded last. They apply from the next Refresh on.
func (m *Model) Unstored() bool {
	return m.base != nil && m.base.fit.number > 0 && m.stored != m.base.learned()
}

// Stored notes that Append's output is stored.
func (m *Model) Stored() { m.stored = m.learned() }

// Heeds returns whether the global fit is in use.
func (m *Model) Heeds() bool { return m.heeds }

func (m *Model) shared(level int, number int32) *node {
	if !m.heeds {
		return nil
	}
	return m.base.levels[level].Get(number)
}

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

// Drop empties a cell, so that its path may change; below a global model it gets the global values.
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

func (n *node) set(o *node) {
	if o == nil {
		o = &node{}
	}
	n.w, n.r, n.held = o.w, o.r, o.held
	clear(n.s)
	copy(n.s, o.s) // those of selections in flight included
	clear(n.passed)
	copy(n.passed, o.passed)
	if n.silent != nil {
		n.silent.W, n.silent.R, n.silent.Q = 0, 0, 0
	}
}

// MarkBy sets numbers that identify nodes for sampling, equal in all processes. The default is the node's number.
func (m *Model) MarkBy(mark func(level int, number int32) uint64) { m.mark = mark }
