//go:build !race

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const mostBins = 6

type (
	binVector [mostBins]float64
	binMatrix [mostBins]binVector
)

// inverse is that of the first n rows and columns, of a matrix that is positive definite.
func (a binMatrix) inverse(n int) (b binMatrix) {
	for i := range n {
		b[i][i] = 1
	}
	for c := range n {
		p := 1 / a[c][c]
		for j := range n {
			a[c][j], b[c][j] = a[c][j]*p, b[c][j]*p
		}
		for r := range n {
			f := a[r][c]
			for j := 0; j < n && r != c; j++ {
				a[r][j], b[r][j] = a[r][j]-f*a[c][j], b[r][j]-f*b[c][j]
			}
		}
	}
	return b
}

func (a *binMatrix) times(n int, x *binVector) (y binVector) {
	for i := range n {
		for j := range n {
			y[i] += a[i][j] * x[j]
		}
	}
	return y
}

func (a *binMatrix) sum(n int) (s float64) {
	for i := range n {
		for j := range n {
			s += a[i][j]
		}
	}
	return s
}

// binSums are an item's sums: for each bin the number of selections for which it has ended, and the contents of the bins up to it.
type binSums struct {
	ended [mostBins + 1]float64
	held  binMatrix
}

// traceModel is a Gaussian model of bins. The mean contents of an item's bins are N(mean, between). A selection's contents are
// normal around them, with the covariance within.
type traceModel struct {
	bins            int
	mean            binVector
	between, within binMatrix
	prior           binMatrix // the inverse of between
	upTo            [mostBins]binMatrix
}

func (m *traceModel) ready() {
	m.prior = m.between.inverse(m.bins)
	for k := range m.bins {
		m.upTo[k] = m.within.inverse(k + 1)
	}
}

// kappa is the worth of the prior in selections.
func (m *traceModel) kappa() float64 { return m.within.sum(m.bins) / m.between.sum(m.bins) }

// item is the posterior of an item's means, of all selections however many of their bins have ended.
func (m *traceModel) item(s *binSums) (mean binVector, variance binMatrix) {
	precision, weighted := m.prior, m.prior.times(m.bins, &m.mean)
	for k := range m.bins {
		n := s.ended[k] - s.ended[k+1]
		var held binVector
		for j := 0; j <= k && n > 0; j++ {
			if held[j] = s.held[k][j]; k+1 < m.bins {
				held[j] -= s.held[k+1][j]
			}
		}
		more := m.upTo[k].times(k+1, &held)
		for i := 0; i <= k && n > 0; i++ {
			weighted[i] += more[i]
			for j := 0; j <= k; j++ {
				precision[i][j] += n * m.upTo[k][i][j]
			}
		}
	}
	variance = precision.inverse(m.bins)
	return variance.times(m.bins, &weighted), variance
}

// tracesOf is the model that a scenario's items and selections are drawn from; nil for customers, which have none.
func tracesOf(s Scenario) *traceModel {
	if s == "customers" {
		return nil
	}
	correlation := map[Scenario]float64{"traces": 0, "traces-alike": 0.9, "traces-contrary": -0.7}[s]
	m := &traceModel{bins: 4, mean: binVector{0.035, 0.115, 0.12, 0.18}}
	deviation := binVector{0.03 * 70 / 300, 0.03 * 230 / 300, 0.06 * 0.4, 0.06 * 0.6}
	for i := range 4 {
		for j := range 4 {
			m.within[i][j] = 0.0625 * 0.36 * m.mean[i] * m.mean[j] / 0.2025
			m.between[i][j] = deviation[i] * deviation[j]
			if i < 2 != (j < 2) {
				m.between[i][j] *= correlation
			}
		}
		m.within[i][i] += 0.0625 * 0.64 * m.mean[i] / 0.45
		m.between[i][i] *= 1.0001 // within the first two bins, and the last two, all goes together
	}
	return m
}

// The posterior of an item from its sums equals that of one update after the other for its selections.
func TestTraces_OneUpdateForEachSelection(t *testing.T) {
	const seed = 31
	draws := newStream(seed, 0, forItems)
	next := normalOf(draws)
	for range 200 {
		m := traceModel{bins: 1 + draws.below(mostBins)}
		n := m.bins
		for _, matrix := range []*binMatrix{&m.between, &m.within} {
			var factor binMatrix
			for i := range n {
				for j := range n {
					factor[i][j] = next()
				}
			}
			for i := range n {
				for j := range n {
					for k := range n {
						matrix[i][j] += factor[i][k] * factor[j][k]
					}
				}
				matrix[i][i] += 0.1
			}
			m.mean[n-1] = next()
		}
		m.ready()
		var sums binSums
		mean, variance := m.mean, m.between
		for range draws.below(20) {
			var held binVector
			seen := 1 + draws.below(n)
			for k := range seen {
				held[k] = next()
				sums.ended[k]++
				for j := 0; j <= k; j++ {
					sums.held[k][j] += held[j]
				}
			}
			// The gain is V·(V+Σ)⁻¹ of the observed bins.
			var both binMatrix
			for i := range seen {
				for j := range seen {
					both[i][j] = variance[i][j] + m.within[i][j]
				}
			}
			inverse := both.inverse(seen)
			before, was := mean, variance
			for i := range n {
				row := was[i]
				gain := inverse.times(seen, &row)
				for k := range seen {
					mean[i] += gain[k] * (held[k] - before[k])
					for j := range n {
						variance[i][j] -= gain[k] * was[k][j]
					}
				}
			}
		}
		got, around := m.item(&sums)
		for i := range n {
			require.InDelta(t, mean[i], got[i], 1e-8, "seed %d", seed)
			for j := range n {
				require.InDelta(t, variance[i][j], around[i][j], 1e-8, "seed %d", seed)
			}
		}
	}
}
