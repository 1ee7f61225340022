package contextual

import "github.com/ranker-worker/ranker-worker/policy/features"

// Path is a cell's number, and that of its node at each level above. It must not change while the cell has data.
type Path [MaxLevels]int32

type node struct {
	w, r   float64
	s      []float64
	passed []int64 // sums from below, of w, r and s; nil for cells
	silent *Silent // cells only
	parent *node   // nil at the last level
	held   int32   // for a cell, 1 if it has data; for others the number of nodes below
}

// Silent is the weight of a cell's selections in flight, at their mean features.
type Silent struct {
	W, R, Q float64   // number, sum and sum of squares of payoffs
	X       []float64 // mean features
}

// Set sets a cell: w and r are weight and sum of its payoffs, selections in flight included; s sums the fed payoffs' features, in
// units of 1/127. It keeps no argument.
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
	if m.base == nil { // the global model has the linear sums
		n.setInFlight(&silent)
	}
	m.close(at)
}

// Has returns whether a cell has data.
func (m *Model) Has(cell int32) bool { return m.Holds(0, cell) }

// Holds returns whether a node has data.
func (m *Model) Holds(level int, number int32) bool { return m.node(level, number) != nil }

// node returns a node with data, or nil.
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

// open subtracts a cell from the nodes above, so that it may change until close.
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

// close adds the cell again, and frees empty nodes.
func (m *Model) close(at Path) {
	m.hold(m.chain[0].w != 0 || m.chain[0].r != 0)
	m.count(1)
	for l := 0; l < m.config.Levels && m.chain[l].held == 0 && m.base == nil; l++ {
		m.levels[l].Remove(at[l])
	}
}

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

// count adds the chain's terms, from the finest up, or subtracts them, from the coarsest down, so that each node passes up the same.
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

func (n *node) setInFlight(silent *Silent) {
	if n.silent == nil && silent.W == 0 && silent.R == 0 {
		return
	}
	if n.silent == nil {
		n.silent = &Silent{X: make([]float64, len(n.s))}
	}
	n.silent.W, n.silent.R, n.silent.Q = silent.W, silent.R, silent.Q
	copy(n.silent.X, silent.X)
}

// take computes a node's sums from those passed up to it.
func (n *node) take(unit float64) {
	per := 1 / unit
	n.w, n.r = float64(n.passed[0])*per, float64(n.passed[1])*per
	for j := range n.s {
		n.s[j] = float64(n.passed[2+j]) * per
	}
}

func (m *Model) pass(l int, n, parent *node, sign int64) {
	kappa := m.kappa[l]
	part := kappa / (n.w + kappa) * m.unit
	parent.passed[0] += sign * int64(part*n.w)
	parent.passed[1] += sign * int64(part*n.r)
	for j, s := range n.s {
		parent.passed[2+j] += sign * int64(part*s)
	}
}

// terms adds a node's correction to the linear sums, or subtracts it. Terms are cut to multiples of 1/unit, a function of node and
// κ alone, so that subtraction is exact.
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

// silentTerms adds those of selections in flight, which the linear sums lack.
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
