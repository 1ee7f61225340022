package contextual

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// fit is what the sums were found to tell when it was made.
type fit struct {
	variance float64                  // σ²
	lambda   [features.Groups]float64 // ridges
	learned  int64                    // of how many payoffs variances were learned
	since    int64                    // payoffs count whose selections began then or later, in milliseconds
	number   uint64                   // how many there were before

	a, f    []float64 // A, of the lower triangle, and f
	e       float64
	root    []float64 // the inverse of A's Cholesky factor, likewise
	inverse []float64 // A's inverse, likewise
	theta   []float64
	logDet  float64 // log det A/Λ
}

func newFit(dim int) fit {
	n := packed(dim)
	return fit{a: make([]float64, n), f: make([]float64, dim), root: make([]float64, n), inverse: make([]float64, n), theta: make([]float64, dim)}
}

// copyFrom makes it what another is.
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

// The rules of when to fit.
const (
	// learnsMore is how much more is known of some direction when θ̂ is found anew: tr(A⁻¹·ΔA), which is at least as much as any one.
	learnsMore = 0.1
	// growth is by which part payoffs have grown when variances are learned anew.
	growth = 8
	rounds = 6
)

// Fit makes the fit anew, where what has come since the last is worth it; it tells whether it has. Sums that do not belong together, as
// while another source has told of a part of its own only, make none.
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

// Due tells whether variances are to be learned anew.
func (m *Model) Due() bool {
	more := m.Total.N - m.fit.learned
	return more != 0 && max(more, -more) >= m.fit.learned/growth
}

// learn learns the variances and fits, or leaves the fit as it is.
func (m *Model) learn() bool {
	kappa := m.kappa
	m.trial.copyFrom(&m.fit)
	if !m.vary() {
		return m.giveUp(kappa)
	}
	m.fit.learned, m.fit.number = m.Total.N, m.trial.number+1
	return true
}

// Learn learns the variances of a whole. What it comes to depends on what is known, and on no fit before: where the sums do not belong
// together, variances are those of the round in which that showed, in the first of them what is assumed before there are payoffs. Refit
// is to be called then.
func (m *Model) Learn() {
	number := m.fit.number
	m.vary()
	m.fit.learned, m.fit.number = m.Total.N, number+1
}

// Refit finds θ̂ of a whole anew, by the variances that were learned last. Where the sums do not belong together, it is what is assumed
// before there are payoffs.
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

// vary learns the variances from what is assumed on, in some rounds, and fits; it is false where sums do not belong together.
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

// giveUp goes back to the fit there was.
func (m *Model) giveUp(kappa [MaxLevels]float64) bool {
	m.kappa = kappa
	m.fit, m.trial = m.trial, m.fit
	m.recount()
	return false
}

// solve makes the fit of the sums; it tells whether it could.
func (m *Model) solve(f *fit) bool {
	f.e = m.sums(f)
	return f.invert(m.group)
}

// invert finds θ̂ and what goes with it from A and f.
func (f *fit) invert(group []features.Group) bool {
	dim := len(f.f)
	f.logDet = 0
	for j := range dim { // the Cholesky factor, in place of its inverse for now
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

// least is what an eigenvalue of A is above at the least, where its sums belong together.
const least = 1e-9

// spread is zᵀA⁻¹z.
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
