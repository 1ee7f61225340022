package contextual

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Config configures a Model.
type Config struct {
	Space *features.Space
	// Step is the prior slope of features.Predicted: the change of a normalised payoff from the middle of its range to its end, 1/2
	// if its range is that of payoffs. So predictions are trusted until payoffs contradict.
	Step float64
	// Levels is the number of levels of effects, the cells' included; 0 for features alone.
	Levels int
	// Items is the index of the items' level.
	Items int
	// Sigma is σ. With EstimateSigma it is the initial value and the upper bound.
	Sigma         float64
	EstimateSigma bool
}

// MaxLevels bounds Levels.
const MaxLevels = 3

// Priors: features' ridge, also without levels; κ of items and of other levels; the intercept's ridge. Items are assumed to differ.
// Effects of features, categories and segments are assumed to be small: that costs little if they are none, and is soon corrected.
const (
	assumedLambda = 64
	plainLambda   = 1
	assumedKappa  = 4
	alikeKappa    = 256
	flatLambda    = 0.001
)

// Model is the model of the pooled sums. It is not safe for concurrent use.
//
// State is integer sums, which do not depend on order or partitioning. They are N, R = Σr and S = Σx by cell, and in all G = Σxxᵀ,
// h = Σxr, Q = Σr². The rest is a function of them and of the last fit. Effects are integrated out level by level, finest first,
// from A = Λ+G, f = h+Λθ⁰, e = Q+θ⁰ᵀΛθ⁰. With y = 1/(N+κ) of a node,
//
//	A −= y·SSᵀ,   f −= y·S·R,   e −= y·R²,   and κy·N, κy·R, κy·S go to the node's parent;
//
// then θ̂ = A⁻¹f. A candidate's posterior mean m and weight ω = σ²/variance are, with g_1 = 1 and g_(l+1) = g_l·κ_l·y_l,
//
//	z = x − Σ g_l·y_l·S_l,   m = Σ g_l·y_l·R_l + zᵀθ̂,   1/ω = Σ g_l²·y_l + zᵀA⁻¹z
//
// (C. R. Henderson, "Best linear unbiased estimation and prediction under a selection model", Biometrics 31, 1975). Variances
// follow the fixed point of D. MacKay ("Bayesian interpolation", Neural Computation 4, 1992).
type Model struct {
	Total  *Linear // of all sources; Fit must be called after changes
	config Config
	dim    int
	theta0 []float64
	group  []features.Group
	kappa  [MaxLevels]float64
	levels [MaxLevels]policy.Pages[*node]
	taken  taken
	fit    fit
	now    *fit // in use: our own or the global model's
	trial  fit  // scratch for the next
	chain  [MaxLevels]*node
	next   [MaxLevels]float64
	row    []float64 // scratch for one vector
	unit   float64   // terms are rounded to multiples of 1/unit
	mark   func(level int, number int32) uint64
	alone  bool // each item has one cell
	part
}

// taken is the sum of all nodes' corrections to the linear sums, in rounded terms.
type taken struct {
	a, f []Wide
	e, n Wide // n is minus those of selections in flight
}

// New returns a model without payoffs. It fails if a setting is out of range.
func New(c Config) (*Model, error) {
	if c.Levels < 0 || c.Levels > MaxLevels {
		return nil, fmt.Errorf("contextual: %d levels of effects", c.Levels)
	}
	if !(c.Sigma > 0 && c.Sigma <= maxSigma) {
		return nil, fmt.Errorf("contextual: sigma must be above 0 and at most %g, not %v", maxSigma, c.Sigma)
	}
	dim := c.Space.Dim()
	m := &Model{Total: NewLinear(dim), config: c, dim: dim, theta0: make([]float64, dim), unit: Units, row: make([]float64, dim),
		taken: taken{a: make([]Wide, packed(dim)), f: make([]Wide, dim)}, fit: newFit(dim), trial: newFit(dim), mark: func(_ int, number int32) uint64 { return uint64(number) }}
	m.now, m.fit.since = &m.fit, Always
	for j := range dim {
		m.group = append(m.group, c.Space.Group(j))
	}
	if at := c.Space.Predicted(); at >= 0 {
		m.theta0[at] = c.Step
	}
	m.assume()
	if !m.solve(&m.fit) {
		panic("contextual: the prior alone has no inverse")
	}
	return m, nil
}

const maxSigma = 1e3

// assumed returns a level's prior κ, and its weight in nodes.
func (m *Model) assumed(l int) (nodes, kappa float64) {
	if l == m.config.Items {
		return assumedNodes, assumedKappa
	}
	return 1, alikeKappa
}

func (m *Model) assume() {
	f := &m.fit
	f.variance = m.config.Sigma * m.config.Sigma
	for l := range m.kappa {
		_, m.kappa[l] = m.assumed(l)
	}
	m.level()
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

// Alone sets whether each item has one cell only, whose level then has no effects. It applies from the next learning on.
func (m *Model) Alone(alone bool) {
	m.alone = alone
	m.level()
}

func (m *Model) level() {
	if m.alone {
		m.kappa[0] = mostKappa
	}
}

// Clear drops all cells. Linear sums and variances stay.
func (m *Model) Clear() {
	m.levels = [MaxLevels]policy.Pages[*node]{}
	m.recount()
}

// Since returns the time in milliseconds from which payoffs count, by start of their selections; Always if all count.
func (m *Model) Since() int64 { return m.now.since }

// Begin sets that time. Total and the cells must be set accordingly.
func (m *Model) Begin(since int64) { m.fit.since = since }

// Always is before any selection.
const Always = math.MinInt64

// recount recomputes all nodes' corrections and passed sums after κ has changed.
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
		for _, at := range m.levels[l].All() {
			n := *at
			if n == nil {
				continue
			}
			if l > 0 {
				n.take(m.unit)
			}
			m.terms(l, n, 1)
			if l+1 < m.config.Levels {
				m.pass(l, n, n.parent, 1)
			}
		}
	}
}

// sums computes A and f, and returns e: linear sums minus corrections, plus θ's prior.
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

// Known returns the posterior mean and weight in payoffs of a cell with features x, while open samples of it are in flight.
func (m *Model) Known(at Path, x []int8, open float64) (mean, weight float64) {
	z := m.row
	for j, k := range x {
		z[j] = float64(k) * (1.0 / features.One)
	}
	g, spread, onTheirWay := 1.0, 0.0, open
	for l := range m.config.Levels {
		kappa := m.kappa[l]
		n := m.node(l, at[l])
		if n == nil {
			spread += g * g / (kappa + open)
			if open = 0; l == 0 && m.alone {
				open = onTheirWay
			}
			continue
		}
		y := 1 / (n.w + kappa)
		gy := g * y
		spread += g * g / (n.w + kappa + open)
		if open = 0; l == 0 && m.alone {
			open = onTheirWay
		}
		mean += float64(gy * n.r)
		for j, s := range n.s {
			z[j] -= float64(gy * s)
		}
		g *= kappa * y
	}
	for j, theta := range m.now.theta {
		mean += float64(theta * z[j])
	}
	return mean, 1 / (spread + m.now.spread(z))
}
