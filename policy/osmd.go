package policy

import (
	"math"
	"math/bits"
)

// OSMD is online stochastic mirror descent over the admissible set C (paper, Algorithm 5 and Theorem 4.2; S. Bubeck, N.
// Cesa-Bianchi, "Regret analysis of stochastic and nonstochastic multi-armed bandit problems", 2012, Theorem 5.7) with the
// potential ψ(x) = (−x)⁻², the Tsallis-½ regulariser F(p) = −2Σ√p_i. Its state is its point: from p a payoff leads to argmin over
// p' in C of ⟨ℓ̂ + p^{-1/2}/η, p'⟩ + F(p')/η.
//
// With a horizon of T payoffs per instance η = √(2/T), and the regret is at most 2√(2nT). Without one the horizon is doubled: after
// 1, 3, 7, … payoffs the point restarts, with η for the next power of 2, at a factor √2/(√2−1).
//
// The bound is for fixed candidates and utilities, or for losses by utility rank with a vector per list length. If candidates
// change, known coordinates are projected to their C, and an unknown one starts at the median of the others' p^{-1/2}. A
// probability of 0 has no mirror image: such an item, which no window selects, is left out until a restart. If the rest does not
// suffice for C, after windows or candidates have changed, the point restarts at the minimiser of F.
type OSMD struct {
	eta float64 // 0: for a doubled horizon
}

var _ Adversarial = (*OSMD)(nil)

var osmdSpec = Spec{Name: "osmd", Colour: "#84589c", About: "the paper's: mirror descent over the admissible set",
	Oppose: func(p *Parameters) (Adversarial, error) { return &OSMD{p.Eta}, nil }}

func (o *OSMD) Name() string { return "osmd" }

// Valid implements Adversarial. A probability may exceed 1 by rounding.
func (o *OSMD) Valid(x float64) bool {
	return x >= 0 && x <= 1+0x1p-40 && (x == 0 || x >= LeastPropensity)
}

// Eta returns the learning rate of the step after so many payoffs.
func (o *OSMD) Eta(rounds int64) float64 {
	if o.eta > 0 {
		return o.eta
	}
	horizon := int64(1) << (bits.Len64(uint64(rounds)+1) - 1)
	return math.Sqrt(2 / float64(horizon))
}

// restarts returns whether the point restarts after so many payoffs.
func (o *OSMD) restarts(rounds int64) bool {
	return o.eta == 0 && (rounds+1)&rounds == 0
}

func (o *OSMD) Point(v *Vector, coordinates []int32, q, p []float64, ws *AdversarialWorkspace) {
	n := len(coordinates)
	ws.gather(v, coordinates, p)
	if len(ws.which) == 0 && inside(p, q) {
		return
	}
	ws.g = sized(ws.g, n)
	if len(ws.which) == n {
		clear(ws.g)
		ws.solver.Solve(p, ws.g, q, 1)
		return
	}
	for _, k := range ws.which {
		p[k] = 1 // a placeholder, replaced by the others' median
	}
	whole := mirror(ws.g, p, 1)
	ws.startAtMedian(ws.g)
	o.solve(p, q, 1, whole, ws)
}

// mirror sets g to p^{-1/2}/eta, and to infinity for probabilities without a mirror image; it returns whether there were none. Two
// values share one division, as in the solver.
func mirror(g, p []float64, eta float64) (whole bool) {
	whole = true
	rate := 1 / eta
	one := func(k int, x float64) {
		if g[k] = math.Inf(1); x >= LeastPropensity {
			g[k] = rate / math.Sqrt(x)
			return
		}
		whole = false
	}
	k := 0
	for ; k+1 < len(p); k += 2 {
		x, y := p[k], p[k+1]
		if !(x >= LeastPropensity && y >= LeastPropensity) {
			one(k, x)
			one(k+1, y)
			continue
		}
		x, y = math.Sqrt(x), math.Sqrt(y)
		inverse := 1 / (x * y) // finite: the square roots are at least 2⁻⁵¹¹
		g[k], g[k+1] = rate*(inverse*y), rate*(inverse*x)
	}
	if k < len(p) {
		one(k, p[k])
	}
	return whole
}

// inside returns whether p is a point of C, up to rounding: sums of the solver's points are exact to some 1e-14.
func inside(p, q []float64) bool {
	const tolerance = 1e-12
	q = q[:len(p)]
	var over float64 // sum of excesses over the caps
	k := 0
	for ; k+3 < len(p); k += 4 { // unrolled, so that sums do not wait for each other
		a, b, c, d := p[k]-q[k], p[k+1]-q[k+1], p[k+2]-q[k+2], p[k+3]-q[k+3]
		ab := a + b
		if max(a, ab, ab+c)+over > tolerance {
			return false
		}
		if over += ab + (c + d); over > tolerance {
			return false
		}
	}
	for ; k < len(p); k++ {
		if over += p[k] - q[k]; over > tolerance {
			return false
		}
	}
	return over >= -tolerance
}

// solve solves for ws.g. If it is not whole, coordinates at infinity are left out.
func (o *OSMD) solve(p, q []float64, eta float64, whole bool, ws *AdversarialWorkspace) {
	if whole {
		ws.solver.Solve(p, ws.g, q, eta)
	} else {
		o.solveKept(p, q, eta, ws)
	}
	for k, x := range p {
		if !(x >= LeastPropensity) {
			p[k] = 0
		}
	}
}

func (o *OSMD) solveKept(p, q []float64, eta float64, ws *AdversarialWorkspace) {
	ws.which, ws.kept, ws.folded = ws.which[:0], ws.kept[:0], ws.folded[:0]
	var open float64 // probability of the windows since the last coordinate kept
	for k, x := range ws.g {
		open += q[k]
		if !math.IsInf(x, 1) {
			ws.which = append(ws.which, int32(k))
			ws.kept = append(ws.kept, x)
			ws.folded = append(ws.folded, open) // the next kept one's cap includes the caps of those left out
			open = 0
		}
	}
	const tolerance = 1e-12
	m := len(ws.which)
	if m == 0 || open > tolerance {
		clear(ws.g)
		ws.solver.Solve(p, ws.g, q, eta)
		return
	}
	ws.point = sized(ws.point, m)
	ws.solver.Solve(ws.point, ws.kept, ws.folded, eta)
	clear(p)
	for j, k := range ws.which {
		p[k] = ws.point[j]
	}
}

// Feed implements Adversarial. The loss estimate uses the propensity of its own decision; the step starts at the present point.
func (o *OSMD) Feed(v *Vector, coordinates []int32, selected int, payoff, propensity float64, q []float64,
	ws *AdversarialWorkspace) bool {
	estimate, ok := Loss(payoff, propensity)
	if !ok {
		return false
	}
	eta := o.Eta(v.rounds)
	v.rounds++
	if o.restarts(v.rounds) {
		v.Forget()
		return true
	}
	ws.now = sized(ws.now, len(coordinates))
	o.Point(v, coordinates, q, ws.now, ws)
	ws.g = sized(ws.g, len(coordinates))
	whole := mirror(ws.g, ws.now, eta)
	ws.g[selected] += estimate
	o.solve(ws.now, q, eta, whole, ws)
	v.scatter(coordinates, ws.now)
	return true
}
