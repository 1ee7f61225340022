package confidence

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Mixture bounds S_t = Σ_{i≤t} (x_i − μ_i) from above. μ_i is the mean of x_i given all before, and each x_i is at least m_i − c, for a
// number m_i known before x_i, such as the previous mean. Applied to −x it bounds Σ (μ_i − x_i), where each x_i is at most m_i + c. With
// V_t = Σ_{i≤t} (x_i − m_i)²,
//
//	P(at some t: S_t ≥ Bound(V_t)) ≤ α/2
//
// The x_i need not be independent or identically distributed.
//
// For λ in [0, 1/c) the process exp(λS − ψ(λ)V), with ψ(λ) = (−ln(1−cλ) − cλ)/c², is a supermartingale (Howard et al., Section 3.4).
// So is its mean M(s,v) over any law of λ. By Ville's inequality it ever reaches 2/α with probability at most α/2. For a truncated
// gamma law of 1 − cλ, with a = ρ/c², b = (v+ρ)/c², x = (cs+v+ρ)/c² and P the regularised lower incomplete gamma function,
//
//	ln M = a·ln a − lnΓ(a) − ln P(a,a) + lnΓ(b) + ln P(b,x) − b·ln x + (cs+v)/c²
//
// New makes a Mixture. It is immutable.
type Mixture struct {
	c, rho float64
	// goal is the bound's value of ln M minus a constant: ln M = constant + σ(b) − ½·ln b + ln P(b,x) + b·ψ(x/b − 1).
	goal float64
}

// New returns the bound for α, α/2 on each side; terms are at least their expectation minus c. It is tightest, relative to the best
// for one time, near V = v0. It panics unless 0 < α < 1, c > 0 and v0 > 0.
func New(alpha, c, v0 float64) Mixture {
	if !(alpha > 0 && alpha < 1 && c > 0 && v0 > 0) || math.IsInf(c, 0) || math.IsInf(v0, 0) {
		panic(fmt.Sprintf("confidence: alpha %v, c %v, v0 %v", alpha, c, v0))
	}
	// Howard et al., Section 3.5: near the best ρ for V = v0.
	l := math.Log(1 / alpha)
	m := Mixture{c: c, rho: v0 / (2*l + math.Log1p(2*l))}
	a := m.rho / (c * c)
	constant := math.Log(a)/2 - stirling(a) - math.Log(mathext.GammaIncReg(a, a))
	m.goal = math.Log(2/alpha) - constant
	return m
}

// Bound returns the s with M(s,v) = 2/α, for v ≥ 0. It rises with v.
func (m Mixture) Bound(v float64) float64 {
	b := (max(v, 0) + m.rho) / (m.c * m.c)
	goal := m.goal - stirling(b) + math.Log(b)/2
	// Without P, b·ψ(t) = goal, and ψ⁻¹(y) ≈ √(2y) + y/1.5 for small y. ln M is increasing and convex in s, so Newton's steps come
	// from above from the second on.
	y := max(goal, 1e-3) / b
	t := math.Sqrt(2*y) + y/1.5
	for range mostSteps {
		f, slope := value(b, t)
		step := (f - goal) / slope
		t -= step
		if math.Abs(step) <= tolerance*t {
			break
		}
	}
	return t * b * m.c
}

const (
	// Each step about doubles the correct digits; four or five suffice.
	mostSteps = 50
	tolerance = 1e-12 // of the bound
)

// value returns ln P(b,x) + b·ψ(t) for x = b·(1+t), t > 0, and its derivative in t. P is above ½, since x > b.
func value(b, t float64) (f, slope float64) {
	exponent := b * logRemainder(t)
	p := mathext.GammaIncReg(b, b*(1+t))
	density := math.Sqrt(b/(2*math.Pi)) * math.Exp(-exponent-stirling(b)) / (1 + t)
	return math.Log(p) + exponent, density/p + b*t/(1+t)
}

// logRemainder returns t − ln(1+t), without cancellation for small t.
func logRemainder(t float64) float64 {
	if t > 0.1 {
		return t - math.Log1p(t)
	}
	// ln(1+t) = 2·artanh(r) with r = t/(2+t), and t = 2r + t·r; hence t − ln(1+t) = t·r − 2(r³/3 + r⁵/5 + …). r < 0.05.
	r := t / (2 + t)
	q := r * r
	return t*r - 2*r*q*(1./3+q*(1./5+q*(1./7+q*(1./9+q*(1./11+q/13)))))
}

// stirling returns the remainder of Stirling's formula, σ(z) = lnΓ(z) − (z−½)·ln z + z − ½·ln 2π. With it the large terms of ln M
// cancel analytically, instead of in rounding, which would be all that is left at v = 10⁹.
func stirling(z float64) float64 {
	if z < 16 {
		l, _ := math.Lgamma(z)
		return l - (z-0.5)*math.Log(z) + z - logSqrtTwoPi
	}
	// DLMF 5.11.1, with Bernoulli numbers. The first omitted term is below 1e-16.
	q := 1 / (z * z)
	return (1./12 - q*(1./360-q*(1./1260-q*(1./1680-q*(1./1188-q*(691./360360-q/156)))))) / z
}

const logSqrtTwoPi = 0.918938533204672741780329736405617639861
