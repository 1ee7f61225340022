package policy

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

var thompsonSpec = Spec{Name: "thompson", Colour: "#a831d0", About: "means drawn from their posterior", Believes: true, Contextual: true,
	Rank: func(p *Parameters) (Policy, error) { return NewThompson(p.Belief) }}

// NewThompson returns posterior sampling (W. R. Thompson, Biometrika 1933; S. Agrawal, N. Goyal, AISTATS 2013). The item with the largest draw from
// its posterior N(m̃_i, σ²/(N_i+κ)) leads, with one draw per item and decision. The decision's Key fixes the draws.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
//
// It fails for a parameter out of range.
func NewThompson(b Belief) (*Index, error) {
	return &Index{belief: &b, of: (*common).draw,
		rule: "each candidate's mean payoff is drawn from its posterior, around " + b.inWords() + "; the largest draw leads"}, b.check()
}

// draw returns a candidate's mean and draw. A bound from the leading bits excludes most items. Rounding is monotone, so no leader is missed.
func (x *common) draw(in *Input, k int32, best float64) (mean, draw float64) {
	mean, weight := x.at(in, k)
	if weight == 0 {
		return mean, mean
	}
	deviation := math.Sqrt(x.variance / weight)
	u := in.Key.Uint64(normals + uint64(k))
	if above := mean + float64(deviation*normalAtMost[u>>cellShift]); above < best {
		return mean, above
	}
	return mean, mean + float64(deviation*normal(u))
}

// normals is the first of a key's random numbers for normal draws. Smaller ones break ties.
const normals = 1 << 32

// normalAtMost holds an upper bound of normal(u) for each value of the leading bits of u.
var normalAtMost = func() (bounds [1 << cellBits]float64) {
	for cell := range bounds {
		// The slack covers rounding in normal, which is accurate to 10⁻¹⁵.
		bounds[cell] = normal((uint64(cell)+1)<<cellShift-1) + 1e-9
	}
	return bounds
}()

const (
	cellBits  = 7
	cellShift = 64 - cellBits
)

// normal maps uniform 64-bit integers to N(0,1): the quantile of (k+½)·2⁻⁵² for the leading 52 bits k. It is symmetric, within ±8.3, and
// monotone but for rounding. mathext has M. J. Wichura's PPND16 ("Algorithm AS 241: The percentage points of the normal distribution",
// Applied Statistics 37, 1988), with a relative error of about 10⁻¹⁶.
func normal(u uint64) float64 {
	return mathext.NormalQuantile((float64(u>>12) + 0.5) * 0x1p-52) // exact: 2k+1 has at most 53 bits
}
