package admissible

import (
	"math"
	"slices"
)

// Solver computes the point of C of a learner with the Tsallis-½ regulariser F(p) = −2·Σ√p_i,
//
//	argmin_{p ∈ C} ⟨g,p⟩ + F(p)/η,
//
// and with SolveEach, rates r_i in place of 1/η: argmin_{p ∈ C} ⟨g,p⟩ − 2·Σ r_i·√p_i.
//
// F is that of OSMD with the potential ψ(x) = x^{−2} (Theorem 4.2; Audibert and Bubeck 2009). With cumulative loss estimates g the
// minimiser is the step of follow-the-regularised-leader. With g_i = ℓ̂_i + p_i^{−1/2}/η it is the mirror step of the paper's
// Algorithm 5 with its projection.
//
// The zero value is ready. A Solver is scratch memory: it grows to the longest list and then never allocates. No solution is kept
// as a starting point, so that a worker computes the same bits after a restart.
//
// # Method
//
// This is a separable convex problem under nested caps on prefix sums. With η = 1/max r, a_i = η(g_i − min g) and w_i = η·r_i, the optimum
// is p_i = w_i²/(a_i + τ_i)². The multipliers τ fall with i, and are constant on blocks between tight prefixes. For any τ, one prefix is
// tight and has the i with τ_i > τ. It is the one whose cap the probabilities w_i²/(a_i + τ)² exceed the most (decomposition of Fujishige
// 1980 and Groenevelt 1991). It splits the problem in two.
//
// τ is mostly that of one block without inner caps: the root of S^{−1/2} − m^{−1/2}, for S the sum of probabilities and m their
// required mass. It is concave and nearly linear in τ, so two or three Householder steps suffice (A. Householder, The Numerical
// Treatment of a Single Nonlinear Equation, 1970). Caps are tested once τ is roughly right, since any τ splits a range with a tight
// prefix; the sums of both sides give the next starting points. If splits keep taking single items (payoffs against utilities: all
// caps are tight), the cost would be O(n²). Then τ is bisected, with at most as many passes as τ has bits.
type Solver struct {
	a      []float64 // η(g_i − min g)
	ww     []float64 // w_i²
	ones   []float64 // ww without rates
	square []float64 // ww with rates
	stack  []segment
	block  block // being solved
	passes int   // over items, counted by a test of linear work
}

// segment is an unsolved range of items between tight prefixes.
type segment struct {
	first, end int
	above      float64 // upper bound of τ_i in it, up to rounding; +Inf if unknown
	below      float64 // lower bound; −Inf if unknown
	start      float64 // starting point for τ
	crumbs     bool    // the last split left nearly all items in it
}

const (
	// hugeLoss bounds inputs, far below overflow; hugeSquare bounds squares.
	hugeLoss   = 1e150
	hugeSquare = hugeLoss * hugeLoss
	// nothing is the mass below which a range gets none: squares of its root would be denormal.
	nothing = 0x1p-960
	// leastP is the smallest normal number, with a finite inverse, and the smallest positive probability.
	leastP = 0x1p-1022
	// leastSquare is the smallest distinguished square of a rate, relative to the largest.
	leastSquare = 1e-12
	// near is the relative step after which a last step, of fourth order, gives full precision.
	near = 1e-4
	// crumb is the fraction of a range below which a split is a crumb; ranges shorter than few are never tested for it.
	crumb, few = 8, 8
	// probes is the number of failed bisections before the block's own τ is computed.
	probes = 6
)

// Solve writes the minimiser to p for the folded window distribution q (Windows.Fold). The slices are equally long, with at least
// one element; g and q are not changed, and g may be p.
//
// Items that q lets be selected get a positive probability with a finite inverse, others zero, as do first items whose windows have
// less than 1e-280 in all. Caps hold up to rounding, about 1e-14 of their values. The result is always a distribution. An η that is
// not positive stands for 0, the minimiser of F. Losses and η are cut at ±1e150, and a NaN loss counts as the largest.
func (s *Solver) Solve(p, g, q []float64, eta float64) {
	s.grow(len(p))
	s.ww = s.ones[:len(p)]
	s.solve(p, g, q, eta)
}

// SolveEach is Solve with squared rates r_i² in place of 1/η. Rates below 10⁻⁶ of the largest, or NaN, count as that; the largest
// counts as at least 10⁻¹⁵⁰. In a block of k items between tight caps, whose windows have mass M, with scores s = −g,
//
//	p_i ≥ (r_i/(max s − s_i + √(k/M)·max r))².
func (s *Solver) SolveEach(p, g, q, squares []float64) {
	n := len(p)
	s.grow(n)
	s.ww = s.square[:n]
	squares = squares[:n]
	most := 1 / hugeSquare
	for _, x := range squares {
		if x > most { // false for NaN
			most = x
		}
	}
	most = min(most, hugeSquare)
	part, ww := 1/most, s.ww[:len(squares)]
	for i, x := range squares {
		x *= part
		if !(x > leastSquare) {
			x = leastSquare
		}
		if x > 1 {
			x = 1
		}
		ww[i] = x
	}
	s.solve(p, g, q, 1/math.Sqrt(most))
}

func (s *Solver) grow(n int) {
	if cap(s.a) >= n {
		return
	}
	s.a = make([]float64, 2*n)
	s.ones, s.square = make([]float64, 2*n), make([]float64, 2*n)
	for i := range s.ones {
		s.ones[i] = 1
	}
	s.stack = make([]segment, 0, 2*n)
}

func (s *Solver) solve(p, g, q []float64, eta float64) {
	n := len(p)
	// Any start between the bounds will do.
	start := s.scale(g[:n], eta)
	s.stack = append(s.stack[:0], segment{end: n, above: math.Inf(1), below: math.Inf(-1), start: start})
	for len(s.stack) > 0 {
		top := len(s.stack) - 1
		part := s.stack[top]
		s.stack = s.stack[:top]
		s.split(&part, p, q[:n])
	}
}

// Explore writes the uniform distribution and returns true if that is admissible (section 4.1), else the minimiser of F over C.
func (s *Solver) Explore(p, q []float64) (uniform bool) {
	if !UniformAdmissible(q) {
		clear(p)
		s.Solve(p, p, q, 0)
		return false
	}
	for i := range p {
		p[i] = 1 / float64(len(p))
	}
	return true
}

// scale computes a, and returns the subtracted η·min g.
func (s *Solver) scale(g []float64, eta float64) float64 {
	s.a = s.a[:len(g)]
	if !(eta > 0) {
		clear(s.a)
		return 0
	}
	eta = min(eta, hugeLoss)
	least, wild := math.Inf(1), false
	for _, v := range g {
		if v < least {
			least = v
		}
		wild = wild || !(math.Abs(v) <= hugeLoss)
	}
	if wild {
		return s.scaleWild(g, eta)
	}
	a := s.a[:len(g)]
	for i, v := range g {
		a[i] = eta * (v - least)
	}
	return eta * least
}

// scaleWild is scale for losses beyond the bounds.
func (s *Solver) scaleWild(g []float64, eta float64) float64 {
	least := hugeLoss
	for i, v := range g {
		if v != v {
			v = hugeLoss
		}
		s.a[i] = max(-hugeLoss, min(v, hugeLoss))
		least = min(least, s.a[i])
	}
	for i, v := range s.a {
		s.a[i] = eta * (v - least)
	}
	return eta * least
}

// split solves a range, or splits it in two.
func (s *Solver) split(part *segment, p, q []float64) {
	// No window selects the first items where q is zero. After a tight prefix their share of its mass is below rounding.
	bottom := 0.0
	if part.first > 0 {
		bottom = leastP
	}
	for part.first < part.end && q[part.first] <= 0 {
		p[part.first] = bottom
		part.first++
	}
	b := &s.block
	b.take(p[part.first:part.end], s.a[part.first:part.end], q[part.first:part.end], s.ww[part.first:part.end])
	switch {
	case b.mass < nothing:
		for i := range b.p {
			b.p[i] = bottom
		}
	case len(b.p) == 1:
		b.p[0] = min(b.mass, 1)
	case len(b.p) < len(s.a) && len(b.p) >= few && s.probe(part): // where one cap is tight, others probably are
	default:
		s.solveBlock(part)
	}
}

// block is a range of items with one multiplier τ, as y = √m·(τ + least). Its probabilities m·(w_i·d_i)², d_i = 1/(√m·(a_i−least) +
// y), sum to the mass m of their windows.
type block struct {
	p      []float64 // √m·(a_i−least), then the probabilities
	a, ww  []float64
	q      []float64
	caps   []float64 // q without the last element and trailing zeros
	mass   float64
	root   float64 // √m
	least  float64 // of a
	lowest float64 // lower bound of y: w of the item of least loss, which has all of m there
	y      float64
}

func (b *block) take(p, a, q, ww []float64) {
	b.p, b.a, b.q, b.ww, b.mass = p, a, q, ww, 0
	reach := len(q)
	for reach > 0 && q[reach-1] <= 0 {
		reach--
	}
	for _, v := range q[:reach] {
		b.mass += v
	}
	b.caps = q[:max(0, min(reach, len(q)-1))]
}

// place sets y's origin, and p accordingly.
func (b *block) place() {
	root, p, a := math.Sqrt(b.mass), b.p, b.a[:len(b.p)]
	least, at := a[0], 0
	for i, v := range a {
		if v < least {
			least, at = v, i
		}
	}
	for i, v := range a {
		p[i] = float64(root * (v - least))
	}
	b.root, b.least, b.lowest = root, least, math.Sqrt(b.ww[at])
}

func (b *block) tau(y float64) float64 { return y/b.root - b.least }

// sums are Σ w_i²·d_i^j for j = 2, 3, 4, 5.
type sums struct{ s2, s3, s4, s5 float64 }

func (t sums) add(o sums) sums { return sums{t.s2 + o.s2, t.s3 + o.s3, t.s4 + o.s4, t.s5 + o.s5} }

func (t sums) minus(o sums) sums { return sums{t.s2 - o.s2, t.s3 - o.s3, t.s4 - o.s4, t.s5 - o.s5} }

// sumsOf returns the sums for distances x_i = √m·(a_i−least).
func sumsOf(x, ww []float64, y float64) sums {
	ww = ww[:len(x)]
	var s2, s3, s4, s5 float64
	// Two inverses by one division. If a product overflows, both are zero; neither's square would show in the sum.
	for len(x) >= 2 && len(ww) >= 2 {
		x0, x1 := x[0]+y, x[1]+y
		inverse := 1 / (x0 * x1)
		d0, d1 := inverse*x1, inverse*x0
		dd0, dd1 := float64(d0*d0), float64(d1*d1)
		e0, e1 := float64(dd0*ww[0]), float64(dd1*ww[1])
		f0, f1 := float64(e0*d0), float64(e1*d1)
		s2 += e0 + e1
		s3 += f0 + f1
		s4 += float64(e0*dd0) + float64(e1*dd1)
		s5 += float64(f0*dd0) + float64(f1*dd1)
		x, ww = x[2:], ww[2:]
	}
	for i, v := range x { // one, or none
		d := 1 / (v + y)
		dd := float64(d * d)
		e := float64(dd * ww[i])
		f := float64(e * d)
		s2, s3, s4, s5 = s2+e, s3+f, s4+float64(e*dd), s5+float64(f*dd)
	}
	return sums{s2, s3, s4, s5}
}

// tightest returns the sums of all items at y, and those of the prefix whose cap is exceeded the most, with its length k and cap. k
// is zero if no excess is above that of all items over the mass.
func (b *block) tightest() (all, prefix sums, k int, cap float64) {
	caps, y, mass := b.caps, b.y, b.mass
	x, ww := b.p[:len(caps)], b.ww[:len(caps)]
	var s2, s3, s4, s5, sum, excess, most float64
	for i, v := range caps {
		d := 1 / (x[i] + y)
		dd := float64(d * d)
		e := float64(dd * ww[i])
		f := float64(e * d)
		s2, s3, s4, s5 = s2+e, s3+f, s4+float64(e*dd), s5+float64(f*dd)
		sum += v
		excess += float64(mass*e) - v
		if excess > most {
			most, k, prefix, cap = excess, i+1, sums{s2, s3, s4, s5}, sum
		}
	}
	all = sums{s2, s3, s4, s5}.add(sumsOf(b.p[len(caps):], b.ww[len(caps):], y))
	if mass*(all.s2-1) >= most {
		k = 0
	}
	return all, prefix, k, cap
}

// step returns the distance from y to the root of f(y) = S^{−1/2} − 1 for S = part·s2, part positive.
//
// f is increasing and concave (a norm of a vector with exponent −2), so Newton's step ends at or below the root and rises from there.
// Near the root the step is Householder's of third order, farther away Halley's, or Newton's, which always converges, unless bent.
func (t sums) step(part float64, bent bool) float64 {
	over, inverse := math.Sqrt(t.s2*part)-1, 1/t.s3
	newton := t.s2 * over * inverse
	// With r_j = newton·s_j/s_{j−1}: r_3 is over, and the next ones follow.
	r4 := float64(newton * t.s4 * inverse)
	r45 := float64(newton * newton * t.s5 * inverse)
	bend := float64(3 * (r4 - over)) // f·f″/f′², which is ≥ 0 below the root
	curl := float64(2.5*over*over) - float64(4.5*over*r4) + float64(2*r45)
	if math.Abs(bend) < 0.5 && math.Abs(curl) < 0.25 {
		return newton * (1 - bend/2) / (1 - bend + curl)
	}
	if !bent {
		return newton
	}
	return newton / (1 - min(bend, 1)/2)
}

// solveBlock solves the range as one block, or splits it.
func (s *Solver) solveBlock(part *segment) {
	const patience, enough = 12, 100
	b := &s.block
	b.place()
	highest := math.Sqrt(float64(len(b.p))) // no w is above 1
	y, look := b.lowest, 1                  // the round in which τ is roughly right
	if part.start > -b.least {
		y, look = float64(b.root*(part.start+b.least)), 0
	}
	for round := range enough {
		b.y = max(b.lowest, min(y, highest))
		s.passes += len(b.p)
		var all sums
		if round == look {
			var prefix sums
			var k int
			var cap float64
			if all, prefix, k, cap = b.tightest(); k > 0 {
				tau := b.tau(b.y)
				left := b.tau(b.y + prefix.step(b.mass/cap, true))
				right := b.tau(b.y + all.minus(prefix).step(b.mass/(b.mass-cap), true))
				s.push(part, k, tau, max(tau, left), min(tau, right))
				return
			}
		} else {
			all = sumsOf(b.p, b.ww, b.y)
		}
		step := all.step(1, round < patience)
		y = b.y + step
		if math.Abs(step) <= near*b.y {
			break
		}
	}
	b.y = max(b.lowest, min(y, highest))
	s.passes += len(b.p)
	if k := b.fill(); k > 0 {
		tau := b.tau(b.y)
		s.push(part, k, tau, tau, tau)
	}
}

// fill writes the probabilities at y to p, and returns the length of the prefix whose cap is exceeded the most, or zero.
func (b *block) fill() int {
	// Sums of so many numbers are not more precise.
	slack := 1 + float64(0x1p-52*(8+float64(4*math.Sqrt(float64(len(b.p))))))
	// Of equal excesses the longest prefix counts: the rest holds less than rounding, but not nothing.
	caps, y, mass := b.caps, b.y, b.mass
	p, ww := b.p[:len(caps)], b.ww[:len(caps)]
	var sum, cap, most float64
	at := 0
	for i, v := range caps {
		d := 1 / (p[i] + y)
		x := within(float64(mass * float64(d*d*ww[i])))
		p[i] = x
		sum += x
		cap += v
		if sum-cap >= most && sum > float64(cap*slack) {
			most, at = sum-cap, i+1
		}
	}
	p, ww = b.p[len(caps):], b.ww[len(caps):len(b.p)]
	for i, v := range p {
		d := 1 / (v + y)
		p[i] = within(float64(mass * float64(d*d*ww[i])))
	}
	return at
}

func within(x float64) float64 {
	if !(x >= leastP) {
		return leastP
	}
	if x > 1 {
		return 1
	}
	return x
}

// push puts both sides of a tight prefix of k items, found at τ, on the stack.
func (s *Solver) push(part *segment, k int, tau, startLeft, startRight float64) {
	middle, n := part.first+k, part.end-part.first
	left := segment{first: part.first, end: middle, above: part.above, below: max(part.below, tau), start: startLeft}
	right := segment{first: middle, end: part.end, above: min(part.above, tau), below: part.below, start: startRight}
	left.crumbs = n >= few && (n-k)*crumb < n
	right.crumbs = n >= few && k*crumb < n
	s.stack = append(s.stack, right, left)
}

// probe looks for a split without solving: at the median τ of three items as if all caps were tight, and, for crumbs, by bisection
// of τ's bounds. It returns whether it split the range, and otherwise narrows the bounds.
func (s *Solver) probe(part *segment) bool {
	b := &s.block
	a, ww, q, n := b.a, b.ww, b.q, len(b.p)
	x, y, tau := alone(a, q, ww, n/4), alone(a, q, ww, n-1-n/4), alone(a, q, ww, n/2)
	tau = max(min(x, y), min(max(x, y), tau)) // the median of three
	if part.below < tau && tau < part.above && s.try(part, a, q, ww, tau) {
		return true
	}
	if !part.crumbs {
		return false
	}
	// The last block's items have at most the whole mass, and the first block's mass is at least the first cap.
	part.below = max(part.below, math.Sqrt(ww[n-1])/math.Sqrt(b.mass)-a[n-1])
	part.above = min(part.above, math.Sqrt(float64(n)/q[0])-slices.Min(a))
	for range probes {
		if !(part.below < part.above) {
			return false
		}
		if s.try(part, a, q, ww, part.below+float64((part.above-part.below)/2)) {
			return true
		}
	}
	return false
}

// try splits a range at τ, or makes τ a bound and returns false.
func (s *Solver) try(part *segment, a, q, ww []float64, tau float64) bool {
	s.passes += len(a)
	switch k := tightest(a, q, ww, tau); k {
	case 0:
		part.above = tau
	case len(a):
		part.below = tau
	default:
		s.push(part, k, tau, tau, tau)
		return true
	}
	return false
}

// alone returns an item's multiplier if the caps on both sides are tight.
func alone(a, q, ww []float64, i int) float64 { return math.Sqrt(ww[i])/math.Sqrt(q[i]) - a[i] }

// tightest returns the length of the prefix whose cap w_i²/(a_i + τ)² exceed the most, the items with τ_i > τ. It scans suffixes
// from the end for the largest shortfall; an item with infinite probability at τ is in the prefix.
func tightest(a, q, ww []float64, tau float64) int {
	k := len(a)
	var short, most float64
	q, ww = q[:len(a)], ww[:len(a)]
	for i := len(a) - 1; i >= 0; i-- {
		x := a[i] + tau
		if !(x > 0) {
			break
		}
		d := 1 / x
		short += q[i] - float64(float64(ww[i]*d)*d)
		if short > most {
			most, k = short, i
		}
	}
	return k
}
