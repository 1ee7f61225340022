package contextual

import "github.com/ranker-worker/ranker-worker/policy/features"

// Path is where a cell stands: its own number, and of each level above that of the node to which it belongs. What a node belongs to does
// not change while something is known of it.
type Path [MaxLevels]int32

// node is what is known of a cell, or has been passed up to what it belongs to.
type node struct {
	w, r   float64
	s      []float64
	passed []int64 // what w, r and s are made of, but for cells
	silent *Silent // cells only
	parent *node   // but for the last level
	held   int32   // of a cell, 1 where something is known of it; of others, how many nodes there are below
}

// Silent is what awaited selections of a cell count as, at the mean of their features.
type Silent struct {
	W, R, Q float64   // so many payoffs, their sum and that of their squares
	X       []float64 // the mean
}

// Set sets what is known of a cell: payoffs worth w, awaited selections included, that sum up to r, fed ones of features that sum up to
// s, in units of 1/127; and of w, r and their squares what is silent. Nothing is kept of the arguments.
func (m *Model) Set(at Path, w, r float64, s []int64, silent Silent) {
	if m.config.Levels == 0 {
		return
	}
	n := m.open(at)
	n.w, n.r = w, r
	for j := range n.s {
		n.s[j] = 0
		if s != nil {
			n.s[j] = float64(s[j]) * (1.0 / features.One)
		}
	}
	for j, x := range silent.X {
		n.s[j] += float64(silent.W * x)
	}
	if m.base == nil { // a part leaves the linear sums to the whole
		n.quiet(&silent)
	}
	m.close(at)
}

// Has tells whether something is known of a cell.
func (m *Model) Has(cell int32) bool { return m.Holds(0, cell) }

// Holds tells whether something is known of a node.
func (m *Model) Holds(level int, number int32) bool { return m.node(level, number) != nil }

// node is a node of which something is known; nil where nothing is.
func (m *Model) node(level int, number int32) *node {
	n := m.levels[level].Get(number)
	if n == nil {
		return m.shared(level, number)
	}
	if n.held == 0 {
		return nil
	}
	return n
}

// open takes a cell out of all that it is passed up to, so that it may change until close.
func (m *Model) open(at Path) *node {
	var below *node
	for l := range m.config.Levels {
		n := m.nodeAt(l, at[l])
		if below != nil {
			below.parent = n
		}
		m.chain[l], below = n, n
	}
	m.count(-1)
	return m.chain[0]
}

// close passes the cell up again that was opened, and gives back nodes of which nothing is known.
func (m *Model) close(at Path) {
	m.hold(m.chain[0].w != 0 || m.chain[0].r != 0)
	m.count(1)
	for l := 0; l < m.config.Levels && m.chain[l].held == 0 && m.base == nil; l++ {
		m.levels[l].Remove(at[l])
	}
}

// hold notes whether something is known of the cell that is open.
func (m *Model) hold(known bool) {
	by := int32(1)
	if !known {
		by = -1
	}
	if known == (m.chain[0].held > 0) {
		return
	}
	for l := range m.config.Levels {
		n := m.chain[l]
		before := n.held
		if n.held += by; before > 0 && n.held > 0 {
			return
		}
	}
}

// nodeAt is a node, made if it is not there.
func (m *Model) nodeAt(level int, number int32) *node {
	at := m.levels[level].At(number)
	if *at == nil {
		*at = m.newNode(level, number)
	}
	return *at
}

func newNode(level, dim int) *node {
	n := &node{s: make([]float64, dim)}
	if level > 0 {
		n.passed = make([]int64, dim+2)
	}
	return n
}

// count adds the terms of the nodes that were climbed, from the finest up, or takes them out again, from the coarsest down: so each
// passes up what it did.
func (m *Model) count(sign int64) {
	last := m.config.Levels - 1
	for k := range m.config.Levels {
		l := k
		if sign < 0 {
			l = last - k
		}
		if m.base == nil {
			m.terms(l, m.chain[l], sign)
		}
		if l < last {
			m.pass(l, m.chain[l], m.chain[l+1], sign)
			m.chain[l+1].take(m.unit)
		}
	}
}

// quiet sets what is silent.
func (n *node) quiet(silent *Silent) {
	if n.silent == nil && silent.W == 0 && silent.R == 0 {
		return
	}
	if n.silent == nil {
		n.silent = &Silent{X: make([]float64, len(n.s))}
	}
	n.silent.W, n.silent.R, n.silent.Q = silent.W, silent.R, silent.Q
	copy(n.silent.X, silent.X)
}

// take makes what a node is worth of what was passed up to it.
func (n *node) take(unit float64) {
	per := 1 / unit
	n.w, n.r = float64(n.passed[0])*per, float64(n.passed[1])*per
	for j := range n.s {
		n.s[j] = float64(n.passed[2+j]) * per
	}
}

// pass passes a node's part up to its parent.
func (m *Model) pass(l int, n, parent *node, sign int64) {
	kappa := m.kappa[l]
	part := kappa / (n.w + kappa) * m.unit
	parent.passed[0] += sign * int64(part*n.w)
	parent.passed[1] += sign * int64(part*n.r)
	for j, s := range n.s {
		parent.passed[2+j] += sign * int64(part*s)
	}
}

// terms adds what a node takes out of the linear sums, or takes it back. Each term is cut to a multiple of 1/unit, which depends on the
// node and κ alone: what is added is taken out without a trace.
func (m *Model) terms(l int, n *node, sign int64) {
	y := m.unit / (n.w + m.kappa[l])
	t := &m.taken
	if n.silent != nil && (n.silent.W != 0 || n.silent.R != 0) {
		m.silentTerms(n.silent, sign)
	}
	at := 0
	for j, a := range n.s {
		ya := y * a
		for _, b := range n.s[:j+1] {
			t.a[at].Add(sign * int64(ya*b))
			at++
		}
		t.f[j].Add(sign * int64(ya*n.r))
	}
	t.e.Add(sign * int64(y*n.r*n.r))
}

// silentTerms are those of awaited selections, which the linear sums have not got.
func (m *Model) silentTerms(q *Silent, sign int64) {
	t := &m.taken
	w, r := q.W*m.unit, q.R*m.unit
	at := 0
	for j, a := range q.X {
		wa := w * a
		for _, b := range q.X[:j+1] {
			t.a[at].Add(-sign * int64(wa*b))
			at++
		}
		t.f[j].Add(-sign * int64(r*a))
	}
	t.e.Add(-sign * int64(q.Q*m.unit))
	t.n.Add(-sign * int64(w))
}
