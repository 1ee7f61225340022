package contextual

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// What this file declares is for people: no decision asks for it.

// Levels is how many levels of effects there are.
func (m *Model) Levels() int { return m.config.Levels }

// Deviation is by how much payoffs are taken to differ, as of the last fit: of one thing around what is expected of it where level is -1,
// which is σ; and with a level, numbered from the finest up, its nodes around what they belong to, σ/√κ.
func (m *Model) Deviation(level int) float64 {
	if level < 0 {
		return math.Sqrt(m.now.variance)
	}
	return math.Sqrt(m.now.variance / m.kappa[level])
}

// Kappa is how many payoffs what is above a level counts as, where its nodes are expected from that.
func (m *Model) Kappa(level int) float64 { return m.kappa[level] }

// OfFeatures is by how much the payoffs that were fed are taken to differ by their features alone: the standard deviation of θ̂ᵀx over
// them. It is 0 where there are none.
func (m *Model) OfFeatures() float64 {
	n := float64(m.Total.G[0]) * (1.0 / (features.One * features.One)) // how many there are: x_1 = 1
	if !(n > 0) {
		return 0
	}
	var squares, mean float64
	for j := 1; j < m.dim; j++ { // the intercept is the same for all
		theta, row := m.now.theta[j], m.Total.G[packed(j):packed(j+1)]
		mean += theta * float64(row[0])
		for k := 1; k < j; k++ {
			squares += 2 * theta * m.now.theta[k] * float64(row[k])
		}
		squares += theta * theta * float64(row[j])
	}
	squares *= 1.0 / (features.One * features.One) / n
	mean *= 1.0 / (features.One * features.One) / n
	return math.Sqrt(max(0, squares-mean*mean))
}

// Spread is the standard deviation of a coordinate over the payoffs that were fed, in halves of its range; 0 where there are none.
func (m *Model) Spread(j int) float64 {
	n := float64(m.Total.G[0]) * (1.0 / (features.One * features.One))
	if !(n > 0) {
		return 0
	}
	row := m.Total.G[packed(j) : packed(j)+j+1]
	mean := float64(row[0]) * (1.0 / (features.One * features.One)) / n
	return math.Sqrt(max(0, float64(row[j])*(1.0/(features.One*features.One))/n-mean*mean))
}

// Parts gives what each feature and each level of effects, from the finest up, adds to what is expected of a cell shown with features x.
// Their sum is the mean that Known gives, but for rounding.
func (m *Model) Parts(at Path, x []int8) (ofFeatures, ofLevels []float64) {
	for j, k := range x {
		ofFeatures = append(ofFeatures, m.now.theta[j]*float64(k)*(1.0/features.One))
	}
	ofLevels = make([]float64, m.config.Levels)
	var nodes [MaxLevels]*node
	for l := range m.config.Levels {
		nodes[l] = m.node(l, at[l])
	}
	// From the coarsest down, each takes of what lies above its payoffs without effects as much as they weigh.
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
