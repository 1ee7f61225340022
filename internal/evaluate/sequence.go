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
type sequence struct {
	n, sum, v float64
	from      float64 // the least that a term may be below its predictor: 2, or 1 where g is 0 throughout
}

func (s *sequence) add(x *row, target []float64, w float64, lack bool) {
	r := x.payoff
	if lack {
		r = 1 - r
	}
	phi := w * r
	if x.logged != nil {
		s.from = max(s.from, 2)
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
	} else {
		s.from = max(s.from, 1)
	}
	s.term(phi)
}

// plain takes in a row of weight 1, with what it paid.
func (s *sequence) plain(r float64) {
	s.from = max(s.from, 1)
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
	return (s.sum - confidence.New(alpha, s.from, s.n).Bound(s.v)) / s.n
}
