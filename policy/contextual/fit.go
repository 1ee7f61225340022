package contextual

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// fit is the result of a fit to the sums.
type fit struct {
	variance float64                  // σ²
	lambda   [features.Groups]float64 // ridges
	learned  int64                    // number of payoffs at the last learning of variances
	since    int64                    // payoffs count if their selections began at this time in milliseconds or later
	number   uint64                   // number of earlier fits

	a, f    []float64 // A (lower triangle) and f
	e       float64
	root    []float64 // inverse of A's Cholesky factor, lower triangle
	inverse []float64 // A's inverse, lower triangle
	theta   []float64
	logDet  float64 // log det A/Λ
}

func newFit(dim int) fit {
	n := packed(dim)
	return fit{a: make([]float64, n), f: make([]float64, dim), root: make([]float64, n), inverse: make([]float64, n), theta: make([]float64, dim)}
}

func (f *fit) copyFrom(o *fit) {
	a, b, root, inverse, theta := f.a, f.f, f.root, f.inverse, f.theta
	*f = *o
	f.a, f.f, f.root, f.inverse, f.theta = a, b, root, inverse, theta
	copy(f.a, o.a)
	copy(f.f, o.f)
	copy(f.root, o.root)
	copy(f.inverse, o.inverse)
	copy(f.theta, o.theta)
}

// When to fit.
const (
	// learnsMore is the growth of information, tr(A⁻¹·ΔA), at which θ̂ is computed again.
	learnsMore = 0.1
	// growth: variances are learned again after payoffs have grown by 1/growth.
	growth = 8
	rounds = 6
)

// Fit fits again if data have grown enough, and returns whether it did. It skips inconsistent sums, of a source half read.
func (m *Model) Fit() bool {
	if m.Due() {
		return m.learn()
	}
	t := &m.trial
	t.lambda = m.fit.lambda
	t.e = m.sums(t)
	var more float64
	for j := range m.dim {
		at := packed(j)
		for k := range j {
			more += float64(2 * m.fit.inverse[at+k] * (t.a[at+k] - m.fit.a[at+k]))
		}
		more += float64(m.fit.inverse[at+j] * (t.a[at+j] - m.fit.a[at+j]))
	}
	if !(math.Abs(more) > learnsMore) {
		return false
	}
	t.since, t.variance, t.learned, t.number = m.fit.since, m.fit.variance, m.fit.learned, m.fit.number+1
	if !t.invert(m.group) {
		return false
	}
	m.fit, m.trial = m.trial, m.fit
	return true
}

// Due returns whether variances must be learned again.
func (m *Model) Due() bool {
	more := m.Total.N - m.fit.learned
	return more != 0 && max(more, -more) >= m.fit.learned/growth
}

// learn learns the variances and fits, or keeps the previous fit.
func (m *Model) learn() bool {
	kappa := m.kappa
	m.trial.copyFrom(&m.fit)
	if !m.vary() {
		return m.giveUp(kappa)
	}
	m.fit.learned, m.fit.number = m.Total.N, m.trial.number+1
	return true
}

// Learn learns the variances of a global model, as a function of its sums alone. With inconsistent sums it keeps those of the last
// consistent round, at worst the priors. Refit must follow.
func (m *Model) Learn() {
	number := m.fit.number
	m.vary()
	m.fit.learned, m.fit.number = m.Total.N, number+1
}

// Refit computes a global model's θ̂ with the last variances; the prior's for inconsistent sums.
func (m *Model) Refit() {
	f := &m.fit
	if m.solve(f) {
		return
	}
	f.e = 0
	clear(f.a)
	clear(f.f)
	for j := range m.dim {
		lambda := f.lambda[m.group[j]]
		f.a[packed(j)+j], f.f[j] = lambda, float64(lambda*m.theta0[j])
	}
	f.invert(m.group)
}

// vary learns the variances from the priors in some rounds, and fits; false for inconsistent sums.
func (m *Model) vary() bool {
	m.assume()
	for range rounds {
		m.recount()
		if !m.solve(&m.fit) {
			return false
		}
		if !m.varyAll() {
			break
		}
	}
	m.recount()
	return m.solve(&m.fit)
}

func (m *Model) giveUp(kappa [MaxLevels]float64) bool {
	m.kappa = kappa
	m.fit, m.trial = m.trial, m.fit
	m.recount()
	return false
}

// solve fits to the sums; false for inconsistent sums.
func (m *Model) solve(f *fit) bool {
	f.e = m.sums(f)
	return f.invert(m.group)
}

// invert computes θ̂ and the rest from A and f; false if A is not positive definite.
func (f *fit) invert(group []features.Group) bool {
	dim := len(f.f)
	f.logDet = 0
	for j := range dim { // the Cholesky factor, in its inverse's place
		row := f.root[packed(j) : packed(j)+j+1]
		for k := range j + 1 {
			other := f.root[packed(k) : packed(k)+k+1]
			sum := f.a[packed(j)+k]
			for i := range k {
				sum -= float64(row[i] * other[i])
			}
			if k < j {
				row[k] = sum / other[k]
				continue
			}
			if !(sum > least) || math.IsInf(sum, 1) {
				return false
			}
			row[j] = math.Sqrt(sum)
			f.logDet += math.Log(sum / f.lambda[group[j]])
		}
	}
	for k := range dim { // column by column
		for j := k; j < dim; j++ {
			row := f.root[packed(j) : packed(j)+j+1]
			if j == k {
				f.inverse[packed(k)+k] = 1 / row[k]
				continue
			}
			var sum float64
			for i := k; i < j; i++ {
				sum -= float64(row[i] * f.inverse[packed(i)+k])
			}
			f.inverse[packed(j)+k] = sum / row[j]
		}
	}
	copy(f.root, f.inverse)
	for j := range dim {
		for k := range j + 1 {
			var sum float64
			for i := j; i < dim; i++ {
				sum += float64(f.root[packed(i)+j] * f.root[packed(i)+k])
			}
			f.inverse[packed(j)+k] = sum
		}
	}
	for j := range dim {
		var sum float64
		for k := range dim {
			sum += float64(f.inverse[packed(max(j, k))+min(j, k)] * f.f[k])
		}
		f.theta[j] = sum
	}
	return true
}

// least is the smallest pivot of A for consistent sums.
const least = 1e-9

// spread returns zᵀA⁻¹z.
func (f *fit) spread(z []float64) (sum float64) {
	at := 0
	for j := range z {
		var x float64
		for k, r := range f.root[at : at+j+1] {
			x += float64(r * z[k])
		}
		sum += float64(x * x)
		at += j + 1
	}
	return sum
}
