package evaluate

import (
	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// sequence is a lower confidence bound of a target's value at all looks; or, of 1 minus payoffs, of 1 minus the value. With g(a) = q̂(a)
// up to a bound, and 0 where p(a) is,
//
//	φ = w(r − g(y)) + Σ_a π(a)·g(a) ≥ −k,  k = max_a π(a)·g(a)/p(a),
//
// has the target's value as its conditional mean, or less if the log cannot make some selection (Waudby-Smith et al., arXiv
// 2210.10768, Section 3). With g(a) = min(q̂(a), p(a)/π(a)), k is at most 1. Without a bound k may be larger, but φ varies with payoffs
// alone. Its predictor φ̂ is the mean so far.
//
// A bound needs a c with φ̂ + k ≤ c in each row, and is wide if c is far from the payoffs and weights. So there is one for each of several
// c, and together they are wrong with probability alpha. Rows beyond a c count as 0 in its bound: φ̂ and k are known before the selection.
//
// Settings are fixed before the first row: a bound whose scale followed the number of rows would not hold at all looks together.
type sequence struct {
	n, sum float64 // of φ with k ≤ 1
	by     [len(scales)]struct{ sum, v float64 }
}

// scale is a c, the variance at which its bound is tightest, and its part of alpha.
type scale struct{ c, v, part float64 }

// The first suits payoffs that use their range, from a thousand to ten million rows. Small c suit the lower bound of payoffs far below the
// upper end of their range, and large ones their upper bound.
var scales = [...]scale{{2, 1000, 0.8}, other(0.0002), other(0.002), other(0.02), other(0.2), other(1), other(2), other(4), other(8), other(16),
	other(32), other(64)}

func other(c float64) scale { return scale{c, 2 * c * c, 0.2 / 11} }

// baseline sums Σ_a π(a)·g(a) over candidates.
type baseline struct{ bounded, free, below float64 } // with g up to p/π; with g = q̂, and its k

func (b *baseline) add(p, pi, ratio, q float64) {
	b.free += pi * q
	b.bounded += min(pi*q, p)
	b.below = max(b.below, ratio*q)
}

// add adds a row by its baseline, the selection's weight, its payoff r and predicted payoff q.
func (s *sequence) add(b *baseline, w, r, q float64) {
	s.term(w*r-min(w*q, 1)+b.bounded, min(b.below, 1), w*(r-q)+b.free, b.below)
}

// plain adds a row with g = 0.
func (s *sequence) plain(phi float64) { s.term(phi, 0, phi, 0) }

// term adds a row by φ and k, with g bounded and free.
func (s *sequence) term(phi, k, free, freeK float64) {
	predicted := min(max(s.sum/max(s.n, 1), 0), 1)
	s.n++
	s.sum += phi
	for i := range scales {
		x, c := phi, scales[i].c
		switch {
		case predicted+freeK <= c:
			x = free
		case predicted+k > c:
			continue
		}
		s.by[i].sum += x
		s.by[i].v += (x - predicted) * (x - predicted)
	}
}

// bound returns the lower bound, from 0 on, where both sides together are wrong with probability alpha.
func (s *sequence) bound(alpha float64) float64 {
	best := 0.0
	for i := range scales {
		mixture := confidence.New(alpha*scales[i].part, scales[i].c, scales[i].v)
		best = max(best, s.by[i].sum-mixture.Bound(s.by[i].v))
	}
	return best / max(s.n, 1)
}
