package policy

import "math"

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
// monotone but for rounding.
//
// The quantile is M. J. Wichura's PPND16 ("Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37,
// 1988), with a relative error of about 10⁻¹⁶. Products are converted before they are added: this forbids fused operations, so the
// polynomials give the same bits on every processor.
func normal(u uint64) float64 {
	q := (float64(int64(u>>12)-1<<51) + 0.5) * 0x1p-52 // exact: p − ½
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return q * ratio(&wichuraA, &wichuraB, r)
	}
	p := 0.5 - math.Abs(q) // exact
	r := math.Sqrt(-math.Log(p))
	var x float64
	if r <= 5 {
		x = ratio(&wichuraC, &wichuraD, r-1.6)
	} else {
		x = ratio(&wichuraE, &wichuraF, r-5)
	}
	return math.Copysign(x, q)
}

// ratio returns the quotient of two polynomials of degree 7, with coefficients in rising order.
func ratio(a, b *[8]float64, x float64) float64 {
	p, q := a[7], b[7]
	for k := 6; k >= 0; k-- {
		p = float64(p*x) + a[k]
		q = float64(q*x) + b[k]
	}
	return p / q
}

// Coefficients of PPND16: A and B for the middle, C and D for the tails, E and F for the far tails.
var (
	wichuraA = [8]float64{
		3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
		4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3,
	}
	wichuraB = [8]float64{
		1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
		2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3,
	}
	wichuraC = [8]float64{
		1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
		1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
	}
	wichuraD = [8]float64{
		1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
		1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
	}
	wichuraE = [8]float64{
		6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
		2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
	}
	wichuraF = [8]float64{
		1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
		7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
	}
)
