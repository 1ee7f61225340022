package personal

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Config is what a model assumes.
type Config struct {
	Space *features.Space
	// Step is what the payoff changes by, normalised, where features.Predicted goes from the middle of its range to its end: 1/2 where
	// its range is that of payoffs. So the prediction is taken at its word until payoffs say otherwise.
	Step float64
	// Levels are how many levels of effects there are, the cells' included; 0 for features alone.
	Levels int
	// Items is the level of items.
	Items int
	// Numbered are how many of these, from the finest up, have nodes whose numbers never change. Of the others variances are learned from
	// all nodes, not from a sample.
	Numbered int
	// Sigma is σ. With EstimateSigma it is what is assumed until payoffs tell, and the most that is ever assumed.
	Sigma         float64
	EstimateSigma bool
}

// MaxLevels is the most levels there may be.
const MaxLevels = 3

// What is assumed before there are payoffs: the ridge of features, also where it is not learned; κ of items, and of what else they may
// be told apart by; and the intercept's ridge throughout. Items differ. That features, categories or segments make a difference is for payoffs to
// show: assumed to be small, they cost little where they say nothing, and where they say something it is soon seen.
const (
	assumedLambda = 64
	plainLambda   = 1
	assumedKappa  = 4
	alikeKappa    = 256
	flatLambda    = 0.001
)

// Model is what the pooled sums tell. It is not safe for concurrent use.
type Model struct {
	Total  *Linear // of all sources; whoever changes it calls Fit in time
	config Config
	dim    int
	theta0 []float64
	group  []features.Group
	kappa  [MaxLevels]float64
	levels [MaxLevels]policy.Pages[*node]
	parent [MaxLevels]func(int32) int32 // of a node of the level; not of the last
	taken  taken
	fit    fit
	trial  fit // memory for another
	chain  [MaxLevels]*node
	next   [MaxLevels]float64
	row    []float64 // memory for one vector
	unit   float64   // terms are rounded to whole multiples of 1/unit
}

// node is what is known of a cell, or has been passed up to what it belongs to.
type node struct {
	w, r   float64
	s      []float64
	passed []int64 // what w, r and s are made of, but for cells
	silent *Silent // cells only
}

// Silent is what awaited selections of a cell count as, at the mean of their features.
type Silent struct {
	W, R, Q float64   // so many payoffs, their sum and that of their squares
	X       []float64 // the mean
}

// taken is what all nodes take out of the linear sums, in rounded terms.
type taken struct {
	a, f []Wide
	e, n Wide // n: less what is silent, in payoffs
}

// New makes a model of no payoffs, or says what is wrong. Parents gives of each level but the last the node of the next that a node
// belongs to, which does not change while something is known of the node.
func New(c Config, parents ...func(int32) int32) (*Model, error) {
	if c.Levels < 0 || c.Levels > MaxLevels || len(parents) != max(0, c.Levels-1) {
		return nil, fmt.Errorf("personal: %d levels of effects with %d ways up", c.Levels, len(parents))
	}
	if !(c.Sigma > 0 && c.Sigma <= maxSigma) {
		return nil, fmt.Errorf("personal: sigma must be above 0 and at most %g, not %v", maxSigma, c.Sigma)
	}
	dim := c.Space.Dim()
	m := &Model{Total: NewLinear(dim), config: c, dim: dim, theta0: make([]float64, dim), unit: Units, row: make([]float64, dim),
		taken: taken{a: make([]Wide, packed(dim)), f: make([]Wide, dim)}, fit: newFit(dim), trial: newFit(dim)}
	for j := range dim {
		m.group = append(m.group, c.Space.Group(j))
	}
	if at := c.Space.Predicted(); at >= 0 {
		m.theta0[at] = c.Step
	}
	copy(m.parent[:], parents)
	m.assume()
	if !m.solve(&m.fit) {
		panic("personal: the prior alone has no inverse")
	}
	return m, nil
}

const maxSigma = 1e3

// assumed is what is assumed of a level's κ, and of how many nodes that is worth.
func (m *Model) assumed(l int) (nodes, kappa float64) {
	if l == m.config.Items {
		return assumedNodes, assumedKappa
	}
	return 1, alikeKappa
}

// assume goes back to what is assumed before there are payoffs.
func (m *Model) assume() {
	f := &m.fit
	f.variance = m.config.Sigma * m.config.Sigma
	for l := range m.kappa {
		_, m.kappa[l] = m.assumed(l)
	}
	for g := range f.lambda {
		f.lambda[g] = assumedLambda
	}
	f.lambda[features.Intercept] = flatLambda
	if m.config.Levels == 0 {
		for g := range f.lambda {
			f.lambda[g] = plainLambda
		}
	}
}

// Set sets what is known of a cell: payoffs worth w, awaited selections included, that sum up to r, fed ones of features that sum up to
// s, in units of 1/127; and of w, r and their squares what is silent. Nothing is kept of the arguments.
func (m *Model) Set(cell int32, w, r float64, s []int64, silent Silent) {
	if m.config.Levels == 0 {
		return
	}
	n := m.nodeAt(0, cell)
	m.climb(cell)
	m.count(-1)
	n.w, n.r = w, r
	for j := range n.s {
		n.s[j] = 0
		if s != nil {
			n.s[j] = float64(s[j]) * (1.0 / features.One)
		}
	}
	n.quiet(&silent)
	m.count(1)
	if w == 0 && r == 0 {
		m.prune(cell)
	}
}

// Has tells whether something is known of a cell.
func (m *Model) Has(cell int32) bool { return m.levels[0].Get(cell) != nil }

// Drop makes nothing known of a cell, so that it may belong elsewhere.
func (m *Model) Drop(cell int32) {
	if m.Has(cell) {
		m.Set(cell, 0, 0, nil, Silent{})
	}
}

// prune gives back the nodes of a cell of which nothing is known, and of what it belongs to where nothing else does.
func (m *Model) prune(cell int32) {
	number := cell
	for l := range m.config.Levels {
		if l > 0 && !m.chain[l].empty() {
			return
		}
		m.levels[l].Remove(number)
		if l+1 < m.config.Levels {
			number = m.parent[l](number)
		}
	}
}

// empty tells whether nothing is passed up to a node.
func (n *node) empty() bool {
	return !slices.ContainsFunc(n.passed, func(x int64) bool { return x != 0 })
}

// nodeAt is a node, made if it is not there.
func (m *Model) nodeAt(level int, number int32) *node {
	at := m.levels[level].At(number)
	if *at == nil {
		*at = &node{s: make([]float64, m.dim)}
		if level > 0 {
			(*at).passed = make([]int64, m.dim+2)
		}
	}
	return *at
}

// climb finds the nodes that a cell belongs to.
func (m *Model) climb(number int32) {
	for l := range m.config.Levels {
		m.chain[l] = m.nodeAt(l, number)
		if l+1 < m.config.Levels {
			number = m.parent[l](number)
		}
	}
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
		m.terms(l, m.chain[l], sign)
		if l < last {
			m.pass(l, m.chain[l], m.chain[l+1], sign)
			m.chain[l+1].take(m.unit)
		}
	}
}

// quiet sets what is silent, which the features count too.
func (n *node) quiet(silent *Silent) {
	if n.silent == nil && silent.W == 0 && silent.R == 0 {
		return
	}
	if n.silent == nil {
		n.silent = &Silent{X: make([]float64, len(n.s))}
	}
	n.silent.W, n.silent.R, n.silent.Q = silent.W, silent.R, silent.Q
	for j, x := range silent.X {
		n.silent.X[j] = x
		n.s[j] += float64(silent.W * x)
	}
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

// recount makes all that nodes take and pass up anew, at other κ.
func (m *Model) recount() {
	clear(m.taken.a)
	clear(m.taken.f)
	m.taken.e, m.taken.n = Wide{}, Wide{}
	for l := 1; l < m.config.Levels; l++ {
		for _, at := range m.levels[l].All() {
			if *at != nil {
				clear((*at).passed)
			}
		}
	}
	for l := range m.config.Levels {
		for number, at := range m.levels[l].All() {
			n := *at
			if n == nil {
				continue
			}
			if l > 0 {
				n.take(m.unit)
			}
			m.terms(l, n, 1)
			if l+1 < m.config.Levels {
				m.pass(l, n, m.nodeAt(l+1, m.parent[l](number)), 1)
			}
		}
	}
}

// sums gives what is left of the linear sums once effects are taken out, the prior of θ included: A, f and e.
func (m *Model) sums(f *fit) (e float64) {
	per := 1 / m.unit
	e = m.Total.matrices(f.a, f.f) - m.taken.e.Float()*per
	for k := range f.a {
		f.a[k] -= float64(m.taken.a[k].Float() * per)
	}
	for j := range f.f {
		lambda := f.lambda[m.group[j]]
		f.a[packed(j)+j] += lambda
		f.f[j] += float64(lambda*m.theta0[j]) - float64(m.taken.f[j].Float()*per)
		e += float64(lambda * m.theta0[j] * m.theta0[j])
	}
	return e
}

// Known is what is expected of a cell shown with features x, while so many payoffs of it are on their way: the posterior's mean, and of
// how many payoffs it is worth.
func (m *Model) Known(cell int32, x []int8, open float64) (mean, weight float64) {
	z := m.row
	for j, k := range x {
		z[j] = float64(k) * (1.0 / features.One)
	}
	g, spread := 1.0, 0.0
	for l := range m.config.Levels {
		kappa := m.kappa[l]
		n := m.levels[l].Get(cell)
		if l+1 < m.config.Levels {
			cell = m.parent[l](cell)
		}
		if n == nil {
			spread += g * g / (kappa + open)
			open = 0
			continue
		}
		y := 1 / (n.w + kappa)
		gy := g * y
		spread += g * g / (n.w + kappa + open)
		open = 0
		mean += float64(gy * n.r)
		for j, s := range n.s {
			z[j] -= float64(gy * s)
		}
		g *= kappa * y
	}
	for j, theta := range m.fit.theta {
		mean += float64(theta * z[j])
	}
	return mean, 1 / (spread + m.fit.spread(z))
}
