package evaluate

import "math"

type row struct {
	selected int       // index among the candidates
	payoff   float64   // in [0,1]
	p        float64   // the selection's probability by the log's policy, above 0
	logged   []float64 // probabilities by candidate; nil if only p is known
	model    []float64 // q̂ by candidate
}

// estimator accumulates weighted rows for one target.
type estimator struct {
	clip float64 // largest weight

	rows          float64
	w, w2         float64 // weights and their squares
	wr, wr2       float64 // Σwr, Σ(wr)²
	w2r, w2r2     float64 // Σw²r, Σw²r²
	direct        moments // of dr's terms
	difference    moments // of dr's terms minus payoffs
	most          float64 // weight
	unsupported   float64
	lower, upper  sequence
	known         bool    // all rows have probabilities by candidate
	drift, spread float64 // of the check of weights
}

type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.squares += x * x
}

// mean returns the mean and its standard error.
func (m *moments) mean() (mean, stderr float64) {
	if m.n == 0 {
		return 0, 0
	}
	mean = m.sum / m.n
	return mean, math.Sqrt(max(0, m.squares/m.n-mean*mean) / m.n)
}

// newEstimator returns an empty one. model says that its sequence may use probabilities by candidate.
func newEstimator(clip float64, model bool) *estimator {
	return &estimator{clip: clip, known: true, lower: sequence{model: model}, upper: sequence{model: model}}
}

// add adds a row; target holds the target's selection probabilities by candidate.
func (e *estimator) add(x *row, target []float64) {
	y, r := x.selected, x.payoff
	w := target[y] / x.p
	direct := 0.0
	for a, pi := range target {
		direct += pi * x.model[a]
	}
	e.lower.add(x, target, w, false)
	e.upper.add(x, target, w, true)
	if x.logged != nil {
		e.check(x, target)
	} else {
		e.known = false
	}
	w = min(w, e.clip)
	e.rows++
	e.most = max(e.most, w)
	e.w += w
	e.w2 += w * w
	e.wr += w * r
	e.wr2 += w * r * w * r
	e.w2r += w * w * r
	e.w2r2 += w * w * r * r
	direct += w * (r - x.model[y])
	e.direct.add(direct)
	e.difference.add(direct - r)
}

// mostChecked bounds the ratios in the check of weights: rare large ones would hide faults of the others.
const mostChecked = 10

// check compares the selection's weight with its expectation.
func (e *estimator) check(x *row, target []float64) {
	var mean, square float64
	for a, p := range x.logged {
		if p <= 0 {
			e.unsupported += target[a]
			continue
		}
		h := min(target[a]/p, mostChecked)
		mean += p * h
		square += p * h * h
	}
	e.drift += min(target[x.selected]/x.p, mostChecked) - mean
	e.spread += max(0, square-mean*mean)
}

// balanced returns whether weights sum to their expectation, within four deviations, and 20 for small numbers.
func (e *estimator) balanced() bool { return math.Abs(e.drift) <= 4*math.Sqrt(e.spread)+20 }

func (e *estimator) effective() float64 {
	if e.w2 == 0 {
		return 0
	}
	return e.w * e.w / e.w2
}

// ips returns importance sampling, Σwr/T, with its standard error.
func (e *estimator) ips() (value, stderr float64) {
	m := moments{e.rows, e.wr, e.wr2}
	return m.mean()
}

// snips returns the self-normalised Σwr/Σw, with its standard error by the delta method.
func (e *estimator) snips() (value, stderr float64) {
	if e.w == 0 {
		return 0, 0
	}
	value = e.wr / e.w
	return value, math.Sqrt(max(0, e.w2r2-2*value*e.w2r+value*value*e.w2)) / e.w
}

func (e *estimator) own(r float64) {
	e.rows++
	e.most = max(e.most, 1)
	e.w++
	e.w2++
	e.wr += r
	e.wr2 += r * r
	e.w2r += r
	e.w2r2 += r * r
	e.direct.add(r)
	e.difference.add(0)
	e.lower.plain(r)
	e.upper.plain(1 - r)
}
