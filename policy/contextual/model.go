package contextual

import (
	"fmt"
	"math"

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
	taken  taken
	fit    fit
	now    *fit // by which it goes
	trial  fit  // memory for another
	chain  [MaxLevels]*node
	next   [MaxLevels]float64
	row    []float64 // memory for one vector
	unit   float64   // terms are rounded to whole multiples of 1/unit
	mark   func(level int, number int32) uint64
	alone  bool // each item has one cell
	part
}

// taken is what all nodes take out of the linear sums, in rounded terms.
type taken struct {
	a, f []Wide
	e, n Wide // n: less what is silent, in payoffs
}

// New makes a model of no payoffs, or says what is wrong.
func New(c Config) (*Model, error) {
	if c.Levels < 0 || c.Levels > MaxLevels {
		return nil, fmt.Errorf("personal: %d levels of effects", c.Levels)
	}
	if !(c.Sigma > 0 && c.Sigma <= maxSigma) {
		return nil, fmt.Errorf("personal: sigma must be above 0 and at most %g, not %v", maxSigma, c.Sigma)
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

// Alone says whether each item has one cell only, whose payoffs differ from the item's in nothing then. What is learned next goes by it.
func (m *Model) Alone(alone bool) {
	m.alone = alone
	m.level()
}

// level has the cells of items that have one each make no difference.
func (m *Model) level() {
	if m.alone {
		m.kappa[0] = mostKappa
	}
}

// Clear makes nothing known of any cell. The linear sums, and what was learned, stay.
func (m *Model) Clear() {
	m.levels = [MaxLevels]policy.Pages[*node]{}
	m.recount()
}

// Since is from when on payoffs count, by the time at which their selections began, in milliseconds: less than any where all do.
func (m *Model) Since() int64 { return m.now.since }

// Begin has payoffs count from a time on. Total and the cells are to be set accordingly.
func (m *Model) Begin(since int64) { m.fit.since = since }

// Always is before any selection.
const Always = math.MinInt64

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
