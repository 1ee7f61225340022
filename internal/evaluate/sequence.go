package evaluate

import (
	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// sequence bounds a target's value from below, at every look: that of payoffs, or where it is told of what payoffs lack to 1 that of these.
//
// With g(a) = min(q̂(a), p(a)/π(a)), and 0 where π(a) is, each
//
//	φ = w(r − g(y)) + Σ_a π(a)·g(a) ≥ −1
//
// has the target's value as its mean given all before, where every selection is possible in the log, and less otherwise. (Waudby-Smith et al.,
// arXiv 2210.10768, Section 3.) It is at least −1 since w·g(y) is at most 1. Its predictor φ̂ is the mean of those before.
//
// What it is set with is set before the first row: a bound whose scale followed the number of rows would hold at each look, but not at all
// of them together.
type sequence struct {
	n, sum, v float64
	model     bool // else g is 0 throughout, since the log does not say how likely each candidate was
}

// sequenceScale is the variance at which the bound is tightest, in rows of the largest variance. From a thousand rows to ten million it is within
// a fifth of what it would be, had that been known beforehand.
const sequenceScale = 1000

func (s *sequence) add(x *row, target []float64, w float64, lack bool) {
	r := x.payoff
	if lack {
		r = 1 - r
	}
	phi := w * r
	if x.logged != nil && s.model {
		for a, pi := range target {
			if pi <= 0 {
				continue
			}
			g := x.model[a]
			if lack {
				g = 1 - g
			}
			g = min(g, x.logged[a]/pi)
			phi += pi * g
			if a == x.selected {
				phi -= w * g
			}
		}
	}
	s.term(phi)
}

// plain takes in a row of weight 1, with what it paid.
func (s *sequence) plain(r float64) {
	s.term(r)
}

func (s *sequence) term(phi float64) {
	predicted := min(max((0.5+s.sum)/(s.n+1), 0), 1)
	s.n++
	s.sum += phi
	s.v += (phi - predicted) * (phi - predicted)
}

// bound is the lower bound for what both sides together are wrong with a probability of alpha.
func (s *sequence) bound(alpha float64) float64 {
	if s.n == 0 {
		return 0
	}
	below := 1.0 // how far a term may be below its predictor
	if s.model {
		below = 2
	}
	return (s.sum - confidence.New(alpha, below, sequenceScale).Bound(s.v)) / s.n
}
