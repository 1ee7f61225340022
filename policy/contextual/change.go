package contextual

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Recent holds a cell's payoffs since a time, in Set's units.
type Recent struct {
	At   Path
	N, R float64
	S    []int64
}

// The least evidence in nats for a change, given repeated tests; with categories, which the comparison ignores and which make
// payoffs of several items move together.
const (
	decided       = 5
	decidedGroups = 12
)

// Bounds of a scale that counts as no change: a common level or scale changes no order.
const (
	leastScale = 0.5
	mostScale  = 2
)

// Changes compares payoffs since a time with those before.
type Changes struct {
	m     *Model
	all   side    // all payoffs
	kappa float64 // of cells
}

// Changes begins comparisons, valid until the model changes. Cells differ independently, by the variance of all levels together.
func (m *Model) Changes() *Changes {
	c := &Changes{m: m, all: m.newSide()}
	for l := range m.config.Levels {
		c.kappa += 1 / m.kappa[l]
	}
	c.kappa = 1 / c.kappa
	if m.config.Levels == 1 {
		c.all.e = m.sums(&c.all.fit)
		return c
	}
	c.all.e = m.Total.matrices(c.all.a, c.all.f)
	c.all.expect(m)
	for _, at := range m.levels[0].All() {
		if n := *at; n != nil {
			if q := n.silent; q != nil {
				c.all.hear(q, 1)
			}
			c.all.effect(n.w, n.r, n.s, c.kappa, 1)
		}
	}
	c.all.logs = 0 // cells without payoffs since the time are the same on all sides
	return c
}

// Since returns the log Bayes factor, in nats, of a separate model for the payoffs since a time (linear and cells). The alternative
// is one model of all payoffs, whose level and scale may have changed. θ and effects are integrated out, with the last variances.
// It is -Inf for inconsistent sums.
func (c *Changes) Since(linear *Linear, cells func(yield func(*Recent) bool)) float64 {
	if c.m.config.Levels == 0 {
		return math.Inf(-1)
	}
	d := c.divide(linear)
	for cell := range cells {
		d.split(cell)
	}
	old, ok := d.before.likelihood(c.m)
	if !ok {
		return math.Inf(-1)
	}
	own, ok := d.since.likelihood(c.m)
	if !ok {
		return math.Inf(-1)
	}
	joint := math.Inf(-1)
	level, scale, even := d.rescale()
	for _, as := range [...][2]float64{{0, 1}, {even, 1}, {level, scale}} {
		if one, ok := d.joint(as[0], as[1]).likelihood(c.m); ok {
			joint = max(joint, one)
		}
	}
	if math.IsInf(joint, 0) {
		return math.Inf(-1)
	}
	return old + own - joint
}

// Decisive returns whether the evidence suffices.
func (c *Changes) Decisive(nats float64) bool {
	if c.m.config.Levels > c.m.config.Items+1 {
		return nats > decidedGroups
	}
	return nats > decided
}

// side is the sums A, f and e of some payoffs with effects integrated out, θ's prior included; logs is Σ log((n+κ)/κ).
type side struct {
	fit
	logs float64
}

// likelihood returns the log likelihood, up to a constant of all sides.
func (s *side) likelihood(m *Model) (nats float64, ok bool) {
	if !s.invert(m.group) {
		return 0, false
	}
	left := s.e
	for j, theta := range s.theta {
		left -= float64(theta * s.f[j])
	}
	return -(s.logDet + s.logs + left/s.variance) / 2, true
}

// effect integrates out a cell's effect, times over.
func (s *side) effect(n, r float64, x []float64, kappa, times float64) {
	y := times / (n + kappa)
	at := 0
	for j, a := range x {
		for _, b := range x[:j+1] {
			s.a[at] -= float64(y * a * b)
			at++
		}
		s.f[j] -= float64(y * a * r)
	}
	s.e -= float64(y * r * r)
	s.logs += times * math.Log1p(n/kappa)
}

// add adds sums of payoffs r with features x as scale·(r−level) and scale·x.
func (s *side) add(g, h, x []float64, q, r, n, level, scale float64) {
	for k := range g {
		s.a[k] += float64(scale * scale * g[k])
	}
	for j := range h {
		s.f[j] += float64(scale * (h[j] - level*x[j]))
	}
	s.e += q - 2*level*r + level*level*n
}

func (s *side) expect(m *Model) {
	for j := range s.f {
		lambda := s.lambda[m.group[j]]
		s.a[packed(j)+j] += lambda
		s.f[j] += float64(lambda * m.theta0[j])
		s.e += float64(lambda * m.theta0[j] * m.theta0[j])
	}
}

func (s *side) hear(q *Silent, times float64) {
	at := 0
	for j, a := range q.X {
		for _, b := range q.X[:j+1] {
			s.a[at] += float64(times * q.W * a * b)
			at++
		}
		s.f[j] += float64(times * q.R * a)
	}
	s.e += times * q.Q
}

type divided struct {
	n, r, nSince, rSince float64
	s, sSince            []float64
}

type change struct {
	*Changes
	before, since side
	g, h, x       []float64 // since the time: Σxxᵀ, Σxr and Σx
	q, r, n       float64   // Σr², Σr and their number
	cells         []divided
}

func (m *Model) newSide() side {
	s := side{fit: newFit(m.dim)}
	s.variance, s.lambda = m.fit.variance, m.fit.lambda
	return s
}

// divide puts all payoffs before the time, except the linear sums since.
func (c *Changes) divide(linear *Linear) *change {
	m := c.m
	d := &change{Changes: c, before: m.newSide(), since: m.newSide(), g: make([]float64, packed(m.dim)), h: make([]float64, m.dim), x: make([]float64, m.dim)}
	d.before.copyFrom(&c.all.fit)
	d.q = linear.matrices(d.g, d.h)
	for j := range d.x {
		d.x[j] = d.g[packed(j)]
	}
	d.n, d.r = d.g[0], d.h[0]
	for k := range d.g {
		d.before.a[k] -= d.g[k]
	}
	for j := range d.h {
		d.before.f[j] -= d.h[j]
	}
	d.before.e -= d.q
	d.since.expect(m)
	d.since.add(d.g, d.h, d.x, d.q, d.r, d.n, 0, 1)
	return d
}

func (c *change) split(cell *Recent) {
	node := c.m.node(0, cell.At[0])
	if node == nil {
		return
	}
	d := divided{nSince: cell.N, rSince: cell.R, sSince: make([]float64, c.m.dim), s: make([]float64, c.m.dim)}
	for j, s := range cell.S {
		d.sSince[j] = float64(s) * (1.0 / features.One)
	}
	if q := node.silent; q != nil {
		d.nSince += q.W
		d.rSince += q.R
		c.silent(q)
		for j, x := range q.X {
			d.sSince[j] += float64(q.W * x)
		}
	}
	d.n, d.r = max(0, node.w-d.nSince), node.r-d.rSince
	for j := range d.s {
		d.s[j] = node.s[j] - d.sSince[j]
	}
	c.before.effect(node.w, node.r, node.s, c.kappa, -1)
	c.before.effect(d.n, d.r, d.s, c.kappa, 1)
	c.since.effect(d.nSince, d.rSince, d.sSince, c.kappa, 1)
	c.before.logs += math.Log1p(node.w / c.kappa) // of changed cells, before the time
	c.cells = append(c.cells, d)
}

func (c *change) silent(q *Silent) {
	c.before.hear(q, -1)
	c.since.hear(q, 1)
	at := 0
	for j, a := range q.X {
		for _, b := range q.X[:j+1] {
			c.g[at] += float64(q.W * a * b)
			at++
		}
		c.h[j] += float64(q.R * a)
		c.x[j] += float64(q.W * a)
	}
	c.q, c.r, c.n = c.q+q.Q, c.r+q.R, c.n+q.W
}

// rescale returns the level and scale by which payoffs since fit their earlier expectations, by least squares with a prior of scale
// 1 worth one payoff. even is the level for scale 1.
func (c *change) rescale() (level, scale, even float64) {
	theta := c.before.theta
	var mean, square, cross float64
	at := 0
	for j := range theta {
		for k := range j {
			square += 2 * theta[j] * theta[k] * c.g[at+k]
		}
		square += theta[j] * theta[j] * c.g[at+j]
		at += j + 1
		mean += theta[j] * c.x[j]
		cross += theta[j] * c.h[j]
	}
	for k := range c.cells {
		d := &c.cells[k]
		along, alongSince := 0.0, 0.0
		for j := range theta {
			along += theta[j] * d.s[j]
			alongSince += theta[j] * d.sSince[j]
		}
		a := (d.r - along) / (d.n + c.kappa)
		mean += a * d.nSince
		square += a*a*d.nSince + 2*a*alongSince
		cross += a * d.rSince
	}
	if !(c.n > 0) {
		return 0, 1, 0
	}
	variance := square - mean*mean/c.n
	hold := c.m.fit.variance
	scale = min(max((cross-mean*c.r/c.n+hold)/(max(variance, 0)+hold), leastScale), mostScale)
	return c.r/c.n - scale*mean/c.n, scale, c.r/c.n - mean/c.n
}

func (c *change) joint(level, scale float64) *side {
	s := c.m.newSide()
	copy(s.a, c.before.a)
	copy(s.f, c.before.f)
	s.e, s.logs = c.before.e, c.before.logs
	s.add(c.g, c.h, c.x, c.q, c.r, c.n, level, scale)
	x := make([]float64, c.m.dim)
	for k := range c.cells {
		d := &c.cells[k]
		s.effect(d.n, d.r, d.s, c.kappa, -1)
		for j := range x {
			x[j] = d.s[j] + scale*scale*d.sSince[j]
		}
		s.effect(d.n+scale*scale*d.nSince, d.r+scale*(d.rSince-level*d.nSince), x, c.kappa, 1)
	}
	return &s
}
