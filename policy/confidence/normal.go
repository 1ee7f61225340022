package confidence

import (
	"fmt"
	"math"
)

// Normal bounds an estimate of a mean from many observations, by its variance V: it is ever farther from the mean than Radius(V) with a
// probability of about α. It is asymptotic, as an interval of 1.96 standard errors is: the more observations there are at the first look, the
// better it holds. Estimates at different times need not be sums of the same terms, if their differences are as those of a mean that
// observations are added to.
//
// With s² the prior variance of a normal mixture,
//
//	Radius(V) = √( V·(1+V/s²)·ln((1+s²/V)/α²) )
//
// from H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical Statistics 41 (1970), and I.
// Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", arXiv
// 2103.06476. NewNormal makes a Normal. It is immutable.
type Normal struct{ alpha, s2 float64 }

// normalSpread is s² as a multiple of the variance at which Radius is least, relative to a standard error, with α = 0.05.
const normalSpread = 8.2

// NewNormal returns the bound for α, both sides together. It is tightest, relative to the best for one time, near V = v0. It panics unless
// 0 < α < 1 and v0 > 0.
func NewNormal(alpha, v0 float64) Normal {
	if !(alpha > 0 && alpha < 1 && v0 > 0) || math.IsInf(v0, 0) {
		panic(fmt.Sprintf("confidence: alpha %v, v0 %v", alpha, v0))
	}
	return Normal{alpha, normalSpread * v0}
}

// Radius returns the distance from an estimate to its bounds; 0 for a variance of 0. It rises with v.
func (n Normal) Radius(v float64) float64 {
	if v <= 0 {
		return 0
	}
	return math.Sqrt(v * (1 + v/n.s2) * math.Log((1+n.s2/v)/(n.alpha*n.alpha)))
}
