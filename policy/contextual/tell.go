package contextual

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Declarations in this file are for reports; no decision uses them.

func (m *Model) Levels() int { return m.config.Levels }

// Deviation returns standard deviations of the last fit: σ for level -1, and σ/√κ for a level of effects, numbered from the finest up.
func (m *Model) Deviation(level int) float64 {
	if level < 0 {
		return math.Sqrt(m.now.variance)
	}
	return math.Sqrt(m.now.variance / m.kappa[level])
}

// Kappa returns a level's κ, the weight in payoffs of its prior mean.
func (m *Model) Kappa(level int) float64 { return m.kappa[level] }

// productUnit is the unit in which Linear.G counts products of two coordinates.
const productUnit = 1.0 / (features.One * features.One)

// deviation returns the standard deviation of a function of x over fed payoffs, from its sums of squares and values; 0 without any. G[0]
// counts payoffs, since x_1 = 1. Forget takes the payoffs of an item out of it and out of sum, and leaves the squares around their mean.
func (l *Linear) deviation(squares, sum float64) float64 {
	if l.N <= 0 {
		return 0
	}
	if n := float64(l.G[0]) * productUnit; n > 0 {
		squares -= sum / n * sum
	}
	return math.Sqrt(max(0, squares/float64(l.N)))
}

// OfFeatures returns the standard deviation of θ̂ᵀx over fed payoffs; 0 without any.
func (m *Model) OfFeatures() float64 {
	var squares, sum float64
	for j := 1; j < m.dim; j++ { // the intercept does not vary
		theta, row := m.now.theta[j], m.Total.G[packed(j):packed(j+1)]
		sum += theta * float64(row[0])
		for k := 1; k < j; k++ {
			squares += 2 * theta * m.now.theta[k] * float64(row[k])
		}
		squares += theta * theta * float64(row[j])
	}
	return m.Total.deviation(squares*productUnit, sum*productUnit)
}

// Spread returns a coordinate's standard deviation over fed payoffs, in halves of its range; 0 without any.
func (m *Model) Spread(j int) float64 {
	row := m.Total.G[packed(j) : packed(j)+j+1]
	return m.Total.deviation(float64(row[j])*productUnit, float64(row[0])*productUnit)
}

// Parts returns the contributions of each feature and level, from the finest up, to the expectation of a cell with features x. They
// sum to Known's mean, up to rounding.
func (m *Model) Parts(at Path, x []int8) (ofFeatures, ofLevels []float64) {
	for j, k := range x {
		ofFeatures = append(ofFeatures, m.now.theta[j]*float64(k)*(1.0/features.One))
	}
	ofLevels = make([]float64, m.config.Levels)
	var nodes [MaxLevels]*node
	for l := range m.config.Levels {
		nodes[l] = m.node(l, at[l])
	}
	// From the coarsest down, each level's own payoffs are averaged with the level above by weight.
	above := 0.0
	for l := m.config.Levels - 1; l >= 0; l-- {
		n := nodes[l]
		if n == nil {
			continue
		}
		left := n.r
		for j, s := range n.s {
			left -= s * m.now.theta[j]
		}
		now := (left + m.kappa[l]*above) / (n.w + m.kappa[l])
		ofLevels[l], above = now-above, now
	}
	return ofFeatures, ofLevels
}
