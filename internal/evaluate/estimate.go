package evaluate

import "math"

// row is a decision with what was selected and paid.
type row struct {
	selected int       // index among the candidates
	payoff   float64   // in [0,1]
	p        float64   // how likely the log's policy made the selection; above 0
	logged   []float64 // likewise by candidate; nil where only p is known
	model    []float64 // q̂ by candidate
}

// estimator weighs rows for one target.
type estimator struct {
	clip float64 // no weight counts for more

	rows          float64
	w, w2         float64 // weights and their squares
	wr, wr2       float64 // Σwr, Σ(wr)²
	w2r, w2r2     float64 // Σw²r, Σw²r²
	direct        moments // of dr's terms
	difference    moments // of dr's terms less what was paid
	most          float64 // weight
	unsupported   float64
	lower, upper  sequence
	known         bool    // how likely each candidate was is known of every row
	drift, spread float64 // of the check of weights
}

// moments are of numbers.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.squares += x * x
}

// mean is theirs, with its standard error.
func (m *moments) mean() (mean, stderr float64) {
	if m.n == 0 {
		return 0, 0
	}
	mean = m.sum / m.n
	return mean, math.Sqrt(max(0, m.squares/m.n-mean*mean) / m.n)
}

// newEstimator makes one; model tells whether its sequence may go by how likely each candidate was, and not only the one that was selected.
func newEstimator(clip float64, model bool) *estimator {
	return &estimator{clip: clip, known: true, lower: sequence{model: model}, upper: sequence{model: model}}
}

// add takes a row in; target is how likely the target makes each candidate's selection.
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

// mostChecked is the greatest ratio that the check of weights looks at: rare large ones would hide what is wrong with the others.
const mostChecked = 10

// check compares the weight of what was selected with what it should be in the mean, by how likely each selection was.
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

// balanced tells whether the weights add up to what they should: within four deviations, and 20 for when there are few.
func (e *estimator) balanced() bool { return math.Abs(e.drift) <= 4*math.Sqrt(e.spread)+20 }

// effective is how many rows of equal weight the rows are worth.
func (e *estimator) effective() float64 {
	if e.w2 == 0 {
		return 0
	}
	return e.w * e.w / e.w2
}

// ips is importance sampling, Σwr/T, with its standard error.
func (e *estimator) ips() (value, stderr float64) {
	m := moments{e.rows, e.wr, e.wr2}
	return m.mean()
}

// snips is the self-normalised Σwr/Σw, with its standard error by the delta method.
func (e *estimator) snips() (value, stderr float64) {
	if e.w == 0 {
		return 0, 0
	}
	value = e.wr / e.w
	return value, math.Sqrt(max(0, e.w2r2-2*value*e.w2r+value*value*e.w2)) / e.w
}

// own takes in a row of which the target and the log's policy make the same: a weight of 1, whatever was selected.
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
