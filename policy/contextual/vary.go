package contextual

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Weights of the priors against data, and bounds of the variances.
const (
	assumedPayoffs = 4
	assumedNodes   = 4
	leastLambda    = 0.01
	mostLambda     = 1e7
	leastKappa     = 0.05
	mostKappa      = 1e6
	// sampled is the number of nodes from which a level's κ is learned, to some percent.
	sampled = 2048
	// mostSquare bounds a node's term, so that it can be counted.
	mostSquare = 1 << 32
)

// varyAll learns σ², ridges and all κ from the fit; false without payoffs.
func (m *Model) varyAll() bool {
	f := &m.fit
	payoffs := float64(m.Total.N) - m.taken.n.Float()/m.unit
	if m.config.Levels == 0 || !(payoffs > 0) {
		return false
	}
	if assumed := m.config.Sigma * m.config.Sigma; m.config.EstimateSigma {
		left := f.e
		for j, theta := range f.theta {
			left -= float64(theta * f.f[j])
		}
		f.variance = min(assumed, (max(left, 0)+assumedPayoffs*assumed)/(payoffs+assumedPayoffs-1))
	}
	for g := features.OfUser; g < features.Groups; g++ {
		m.varyRidge(g)
	}
	m.next = m.kappa
	for l := range m.config.Levels {
		m.next[l] = m.learnKappa(l)
	}
	m.kappa = m.next
	m.level()
	return true
}

func (m *Model) varyRidge(g features.Group) {
	f := &m.fit
	freedom, squares, any := 1.0, 1.0/assumedLambda, false
	for j, group := range m.group {
		if group != g {
			continue
		}
		any = true
		off := f.theta[j] - m.theta0[j]
		freedom += 1 - float64(f.lambda[g]*f.inverse[packed(j)+j])
		squares += float64(off*off) / f.variance
	}
	if any {
		f.lambda[g] = min(max(freedom/squares, leastLambda), mostLambda)
	}
}

// learnKappa learns a level's κ; for cells and items from a sample, those whose marks have the smallest hashes.
func (m *Model) learnKappa(l int) float64 {
	count := 0
	for _, at := range m.levels[l].All() {
		if *at != nil && (*at).w > 0 {
			count++
		}
	}
	skip := 0 // leading bits of the hash that must be 0
	if l <= m.config.Items {
		skip = bits.Len(uint((count - 1) / sampled))
	}
	var freedom, squares Wide // whole multiples of 1/Units, so that sums do not depend on the order of nodes
	for number, at := range m.levels[l].All() {
		if *at == nil || !((*at).w > 0) || skip > 0 && Mix(m.mark(l, number))>>(64-skip) != 0 {
			continue
		}
		effect, variance := m.effect(l, *at)
		freedom.Add(int64((1 - float64(m.kappa[l]*variance)) * Units))
		squares.Add(int64(min(float64(effect*effect)/m.fit.variance, mostSquare) * Units))
	}
	nodes, kappa := m.assumed(l)
	return min(max((nodes*Units+freedom.Float())/(nodes*Units/kappa+squares.Float()), leastKappa), mostKappa)
}

// Mix is SplitMix64's finaliser, a bijection of 64 bits.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// effect returns a node's posterior effect without the levels above, and its variance over σ².
func (m *Model) effect(l int, n *node) (effect, variance float64) {
	z := m.row
	clear(z)
	var above, spread float64 // expectation of the levels above, and its variance
	g, p := 1.0, n
	for k := l; k+1 < m.config.Levels; k++ {
		p = p.parent
		y := 1 / (p.w + m.kappa[k+1])
		above += float64(g * y * p.r)
		spread += float64(g * g * y)
		for j, s := range p.s {
			z[j] -= float64(g * y * s)
		}
		g *= m.kappa[k+1] * y
	}
	y := 1 / (n.w + m.kappa[l])
	share := n.w * y
	effect = y*n.r - share*above
	for j, s := range n.s {
		z[j] = -float64(y*s) - float64(share*z[j])
		effect += float64(z[j] * m.fit.theta[j])
	}
	return effect, y + float64(share*share*spread) + m.fit.spread(z)
}
