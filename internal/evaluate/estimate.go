package evaluate

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/flatlog"
)

type row struct {
	selected int       // index among the candidates
	payoff   float64   // in [0,1]
	p        float64   // the selection's probability by the log's policy, at least leastProbability
	logged   []float64 // probabilities by candidate; nil if only p is known
	model    []float64 // q̂ by candidate
	guessed  bool      // q̂ is the row's own payoff, since there is none before
}

// leastProbability is the probability below which a selection counts as impossible. Weights are at most its inverse.
const leastProbability = flatlog.LeastPropensity

// estimator accumulates weighted rows for one target.
type estimator struct {
	clip float64 // largest weight
	sums
	earlier [2]sums // at the last two powers of two of rows
	least   float64 // payoff of a row
}

// below is the part of dr that unsupported selections have by their q̂ alone, where the log's least payoff is certain.
func (e *estimator) below(s *sums) float64 {
	return (s.modelled - s.unsupported*e.least) / max(s.rows, 1)
}

// sums are over rows.
type sums struct {
	rows          float64
	w, w2         float64 // weights and their squares
	wr, wr2       float64 // Σwr, Σ(wr)²
	w2r, w2r2     float64 // Σw²r, Σw²r²
	direct        moments // of dr's terms
	difference    moments // of dr's terms minus payoffs
	most          float64 // weight
	unsupported   float64
	modelled      float64 // Σ πq̂ of unsupported selections
	above         float64 // by which they may be worth more: up to the greatest q̂ of their row
	lower, upper  sequence
	drift, spread float64 // of the check of weights
	blind         moments // weights of rows without probabilities by candidate
}

type moments struct{ n, sum, squares, least, most float64 }

func (m *moments) add(x float64) {
	if m.n == 0 {
		m.least, m.most = x, x
	}
	m.n++
	m.sum += x
	m.squares += x * x
	m.least, m.most = min(m.least, x), max(m.most, x)
}

// mean returns the mean and its standard error.
func (m *moments) mean() (mean, stderr float64) {
	if m.n == 0 {
		return 0, 0
	}
	mean = m.sum / m.n
	return mean, math.Sqrt(max(0, m.squares/m.n-mean*mean) / m.n)
}

// largest returns the share of the variance that the term farthest from the mean makes up, in [0,1].
func (m *moments) largest() float64 {
	mean, stderr := m.mean()
	if stderr == 0 {
		return 0
	}
	far := max(m.most-mean, mean-m.least) / (m.n * stderr)
	return min(far*far, 1)
}

func newEstimator(clip float64) *estimator { return &estimator{clip: clip, least: 1} }

// counted counts a row that was added.
func (e *estimator) counted() {
	if e.rows++; bits.OnesCount64(uint64(e.rows)) == 1 {
		e.earlier[0], e.earlier[1] = e.earlier[1], e.sums
	}
}

// add adds a row; target holds the target's selection probabilities by candidate. Where they are the log's, the payoff counts as it is: a policy
// is not worth more than itself, even if the log's probabilities are wrong.
func (e *estimator) add(x *row, target []float64) {
	y, r := x.selected, x.payoff
	e.least = min(e.least, r)
	if slices.Equal(x.logged, target) {
		e.own(r)
		return
	}
	w := target[y] / x.p
	direct := 0.0
	for a, pi := range target {
		direct += pi * x.model[a]
	}
	if x.logged == nil {
		e.blind.add(w)
		e.lower.plain(w * r)
		e.upper.plain(w * (1 - r))
	} else {
		e.supported(x, target, w)
	}
	w = min(w, e.clip)
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
	e.counted()
}

// mostChecked bounds the ratios in the check of weights: rare large ones would hide faults of the others.
const mostChecked = 10

// supported compares the selection's weight w with its expectation, and adds the row to the sequences.
func (e *estimator) supported(x *row, target []float64, w float64) {
	var mean, square float64
	var lower, upper baseline
	for a, p := range x.logged {
		pi := target[a]
		if p < leastProbability {
			if pi > 0 {
				e.unsupported += pi
				e.modelled += pi * x.model[a]
				e.above += pi * (slices.Max(x.model) - x.model[a])
			}
			continue
		}
		ratio := pi / p
		h := min(ratio, mostChecked)
		mean += p * h
		square += p * h * h
		if !x.guessed {
			lower.add(p, pi, ratio, x.model[a])
			upper.add(p, pi, ratio, 1-x.model[a])
		}
	}
	e.drift += min(w, mostChecked) - mean
	e.spread += max(0, square-mean*mean)
	if x.guessed {
		e.lower.plain(w * x.payoff)
		e.upper.plain(w * (1 - x.payoff))
		return
	}
	e.lower.add(&lower, w, x.payoff, x.model[x.selected])
	e.upper.add(&upper, w, 1-x.payoff, 1-x.model[x.selected])
}

// balanced returns whether weights sum to their expectation, within four deviations, and 20 for small numbers: of rows with probabilities
// by candidate, and of blind ones. A blind row's weight has the expectation 1, and its square's is estimated.
func (e *estimator) balanced() (known, blind bool) {
	near := func(drift, spread float64) bool { return math.Abs(drift) <= 4*math.Sqrt(max(0, spread))+20 }
	b := &e.blind
	return near(e.drift, e.spread), b.n == 0 || b.sum > 0 && near(b.sum-b.n, b.n*(b.squares/b.sum-1))
}

func (s *sums) effective() float64 {
	if s.w2 == 0 {
		return 0
	}
	return s.w * s.w / s.w2
}

// ips returns importance sampling, Σwr/T, with its standard error.
func (e *estimator) ips() (value, stderr float64) {
	m := moments{n: e.rows, sum: e.wr, squares: e.wr2}
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
	e.least = min(e.least, r)
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
	e.counted()
}
