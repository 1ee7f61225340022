package evaluate

import (
	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// sequence is a lower confidence bound of a target's value at all looks; with lack, of 1 minus payoffs. With g(a) = min(q̂(a),
// p(a)/π(a)), and 0 where π(a) is, each
//
//	φ = w(r − g(y)) + Σ_a π(a)·g(a) ≥ −1
//
// has the target's value as its conditional mean, or less if the log cannot make some selection (Waudby-Smith et al., arXiv
// 2210.10768, Section 3). It is at least −1 since w·g(y) ≤ 1. Its predictor φ̂ is the mean so far.
//
// Its settings are fixed before the first row: a bound whose scale followed the number of rows would not hold at all looks together.
type sequence struct {
	n, sum, v float64
	model     bool // otherwise g is 0, since the log lacks probabilities by candidate
}

// sequenceScale is the variance at which the bound is tightest, in rows of the largest variance. From a thousand to ten million
// rows it is within a fifth of the best.
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

func (s *sequence) plain(r float64) {
	s.term(r)
}

func (s *sequence) term(phi float64) {
	predicted := min(max((0.5+s.sum)/(s.n+1), 0), 1)
	s.n++
	s.sum += phi
	s.v += (phi - predicted) * (phi - predicted)
}

// bound returns the lower bound, where both sides together are wrong with probability alpha.
func (s *sequence) bound(alpha float64) float64 {
	if s.n == 0 {
		return 0
	}
	below := 1.0 // the largest shortfall of a term from its predictor
	if s.model {
		below = 2
	}
	return (s.sum - confidence.New(alpha, below, sequenceScale).Bound(s.v)) / s.n
}
