package admissible

import (
	"math"
	"slices"
)

// Solver finds the member of C that a learner with the Tsallis-½ regulariser F(p) = −2·Σ√p_i plays:
//
//	argmin_{p ∈ C} ⟨g,p⟩ + F(p)/η,
//
// and, with SolveEach, the same with a rate r_i of each item's own in place of 1/η: argmin_{p ∈ C} ⟨g,p⟩ − 2·Σ r_i·√p_i.
//
// F is that of OSMD with the potential ψ(x) = x^{−2} (Theorem 4.2; Audibert and Bubeck 2009). With g the cumulative
// estimated losses the minimiser is the step of follow-the-regularised-leader; with g_i = ℓ̂_i + p_i^{−1/2}/η, for the
// last p and its loss estimate, it is the mirror step of the paper's Algorithm 5, projection included.
//
// The zero value is ready. A Solver is working memory and nothing else: it grows to the longest list seen and then
// allocates no more, and no result depends on what it was used for before. That is why no solution is kept to start
// the next from: a worker that restarts must come to the same bits without it.
//
// # Method
//
// By the closed form of C this is a separable convex problem under nested caps on prefix sums. With a_i = η(g_i − min g) for
// η = 1/max r, and w_i = η·r_i, at the optimum p_i = w_i²/(a_i + τ_i)², the multipliers τ fall with i, and they are
// constant on blocks between the prefixes whose caps are tight. For any number τ, those i with τ_i above τ are a prefix, namely the one whose cap the
// probabilities w_i²/(a_i + τ)² exceed the most, and so that prefix is tight (the decomposition of Fujishige 1980 and
// Groenevelt 1991). The problem falls into the two sides of a tight prefix.
//
// Mostly τ is that of one block, the solution that ignores all caps inside. It is the root of S^{−1/2} − m^{−1/2}, for S
// the sum of the probabilities and m what it should be: concave and nearly linear in τ, so two or three of Householder's steps
// (A. Householder, The Numerical Treatment of a Single Nonlinear Equation, 1970), each of which makes the digits four times
// as many. Caps are looked at as soon as τ is about right, for any τ splits a range where it has a tight prefix; and the sums
// of the two sides say where to begin with each. When that keeps splitting off crumbs (payoffs against utilities: every cap is
// tight, and each split takes one item), which would cost O(n²), τ is bisected between bounds instead: the number of passes
// over the candidates stays that of the bits of τ, at worst.
type Solver struct {
	a      []float64 // η(g_i − min g)
	ww     []float64 // w_i²
	ones   []float64 // what ww is without rates
	square []float64 // what it is with rates
	stack  []segment
	block  block // that is solved at present
	passes int   // over an item each, counted for the test that the work grows linearly
}

// segment is a range of items between tight prefixes, yet to be solved.
type segment struct {
	first, end int
	above      float64 // no τ_i in it is above this one, up to rounding; +Inf: not known
	below      float64 // none is below; −Inf: not known
	start      float64 // where to begin the search for τ
	crumbs     bool    // the last split left nearly all of the items in it
}

const (
	// hugeLoss bounds what is computed with, far from where sums and products overflow; hugeSquare bounds squares.
	hugeLoss   = 1e150
	hugeSquare = hugeLoss * hugeLoss
	// nothing is the mass below which a range of items gets none: squares of its root would leave the normal numbers.
	nothing = 0x1p-960
	// leastP is the smallest normal number, and the smallest probability given to an item that is not given zero. Its
	// inverse is finite.
	leastP = 0x1p-1022
	// leastSquare is the smallest square of a rate that is told from smaller ones, as a part of the largest.
	leastSquare = 1e-12
	// near is from where on a step is the last, as a part of y: with the fourth power of it, the digits are full.
	near = 1e-4
	// crumb is the part of a range below which a split counts as having split off next to nothing. Shorter ranges than
	// few are not worth the thought.
	crumb, few = 8, 8
	// probes is how many values of τ are tried in a row without splitting anything before the block's own is tried.
	probes = 6
)

// Solve writes the minimiser to p, for the folded window distribution q (see Windows.Fold). The three slices are equally
// long, with at least one element; neither g nor q is changed, and g may be p.
//
// All items that q lets be selected get a probability above zero, with a finite inverse; those that cannot be get zero
// (and so do the first ones, when the windows that reach them have less than 1e-280 in all). The caps are kept up to
// rounding, some 1e-14 of their values. Whatever the input, the result is a distribution without a NaN: an η that is zero, negative or NaN stands for 0, the limit in which
// g no longer counts (the minimiser of F over C); losses, and η, beyond ±1e150 are cut there, and a loss that is
// NaN counts as the largest.
func (s *Solver) Solve(p, g, q []float64, eta float64) {
	s.grow(len(p))
	s.ww = s.ones[:len(p)]
	s.solve(p, g, q, eta)
}

// SolveEach writes the minimiser of ⟨g,p⟩ − 2·Σ r_i·√p_i to p, given the rates' squares r_i²: Solve with η = 1/r, where all
// rates are r. Rates are counted as 10⁻⁶ of the largest one where they are less, or no numbers; the largest is taken for 10⁻¹⁵⁰
// at the least. What is said at Solve holds. No probability is small, where scores s = −g lie close and rates do not: in a block
// of the solution, between two caps that are tight, of k items whose windows have mass M, it is
//
//	p_i ≥ (r_i/(max s − s_i + √(k/M)·max r))².
func (s *Solver) SolveEach(p, g, q, squares []float64) {
	n := len(p)
	s.grow(n)
	s.ww = s.square[:n]
	squares = squares[:n]
	most := 1 / hugeSquare
	for _, x := range squares {
		if x > most { // not so for NaN
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

// grow makes room for n items.
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

// solve is Solve for the rates in ww.
func (s *Solver) solve(p, g, q []float64, eta float64) {
	n := len(p)
	// the search begins somewhere between its bounds, as well as anywhere.
	start := s.scale(g[:n], eta)
	s.stack = append(s.stack[:0], segment{end: n, above: math.Inf(1), below: math.Inf(-1), start: start})
	for len(s.stack) > 0 {
		top := len(s.stack) - 1
		part := s.stack[top]
		s.stack = s.stack[:top]
		s.split(&part, p, q[:n])
	}
}

// Explore writes the distribution to explore with: the uniform one where it is admissible (section 4.1), and else the
// minimiser of F over C. It tells which.
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

// scale computes a from the losses, in a place of its own, and returns what it has taken off: η·min g.
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

// scaleWild is scale for losses of which some are out of bounds.
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

// split solves a range, or falls into two what it cannot solve and puts them on the stack.
func (s *Solver) split(part *segment, p, q []float64) {
	// No window selects the first items where q is zero. After a tight prefix there are none such, for the optimum has
	// them share that prefix's mass, unless their share is below rounding.
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
	case len(b.p) < len(s.a) && len(b.p) >= few && s.probe(part): // where one cap is tight, others are likely to be:
	default:
		s.solveBlock(part)
	}
}

// block is a range of items for which one multiplier τ is looked for, as y = √m·(τ + least): such that the probabilities
// m·(w_i·d_i)², for d_i = 1/(√m·(a_i−least) + y), sum to the mass m of their windows.
type block struct {
	p      []float64 // √m·(a_i−least), until it is the probabilities
	a, ww  []float64
	q      []float64
	caps   []float64 // q without the last and the zeros at the end: the caps that count
	mass   float64
	root   float64 // √m
	least  float64 // of a
	lowest float64 // no y is lower: the w of the item of the least loss, which has all of m there
	y      float64
}

// take sets the range, and finds the mass of its windows.
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

// place sets what y is about, and p accordingly.
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

// tau is the multiplier for a y.
func (b *block) tau(y float64) float64 { return y/b.root - b.least }

// sums are Σ w_i²·d_i^j for j = 2, 3, 4, 5.
type sums struct{ s2, s3, s4, s5 float64 }

func (t sums) add(o sums) sums { return sums{t.s2 + o.s2, t.s3 + o.s3, t.s4 + o.s4, t.s5 + o.s5} }

func (t sums) minus(o sums) sums { return sums{t.s2 - o.s2, t.s3 - o.s3, t.s4 - o.s4, t.s5 - o.s5} }

// sumsOf adds up what has the given distances x_i = √m·(a_i−least).
func sumsOf(x, ww []float64, y float64) sums {
	ww = ww[:len(x)]
	var s2, s3, s4, s5 float64
	// Two inverses by one division. A product too large for a number makes both zero, and then neither, squared, would be
	// seen in the sum.
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

// tightest is the sums of all items for y and of those in the prefix whose cap their probabilities exceed the most, with
// their number and that cap. The number is zero where no prefix exceeds its cap by more than all do the mass.
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

// step is how far from y the root of f(y) = S^{−1/2} − 1 is, for S = part·s2 and part above zero.
//
// f is increasing and concave (the norm of a vector with exponent −2). Hence Newton's step from anywhere comes out at or below
// the root, and climbs from there. Near it the step is Householder's of the third order, and farther away Halley's, or, where it is not to be bent,
// Newton's, which converges in any case.
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

// solveBlock solves the range that was taken as one block, or falls it into two.
func (s *Solver) solveBlock(part *segment) {
	const patience, enough = 12, 100
	b := &s.block
	b.place()
	highest := math.Sqrt(float64(len(b.p))) // no w is above one
	y, look := b.lowest, 1                  // the round in which τ is about right
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

// fill writes the probabilities for y to p, and returns the number of items in the prefix whose cap they exceed the
// most, or zero when they keep them all.
func (b *block) fill() int {
	// Sums of so many numbers are not told apart more finely.
	slack := 1 + float64(0x1p-52*(8+float64(4*math.Sqrt(float64(len(b.p))))))
	// Of equal excesses the longest prefix counts: what follows the others holds less than rounding, but not nothing.
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

// within bounds a probability by leastP and by 1.
func within(x float64) float64 {
	if !(x >= leastP) {
		return leastP
	}
	if x > 1 {
		return 1
	}
	return x
}

// push puts the two sides of a tight prefix of k items, found with τ, on the stack.
func (s *Solver) push(part *segment, k int, tau, startLeft, startRight float64) {
	middle, n := part.first+k, part.end-part.first
	left := segment{first: part.first, end: middle, above: part.above, below: max(part.below, tau), start: startLeft}
	right := segment{first: middle, end: part.end, above: min(part.above, tau), below: part.below, start: startRight}
	left.crumbs = n >= few && (n-k)*crumb < n
	right.crumbs = n >= few && k*crumb < n
	s.stack = append(s.stack, right, left)
}

// probe looks for a split without solving for anything: with the τ that the middle of the range would have if every cap
// in it were tight, and then, for crumbs, by bisection of what bounds τ. It tells whether it has split the range; if
// not, it has narrowed the bounds.
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
	// The last block's items have at most the mass of all, and the first block's mass is at least the first cap.
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

// try splits a range where τ does, or takes τ for a bound and returns false.
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

// alone is the multiplier of an item that has its window's mass: what it is where the caps on both sides are tight.
func alone(a, q, ww []float64, i int) float64 { return math.Sqrt(ww[i])/math.Sqrt(q[i]) - a[i] }

// tightest returns the number of items in the prefix whose cap is exceeded the most by w_i²/(a_i + τ)², which is the prefix
// of those with τ_i above τ. It looks from the far end, at the suffixes that fall short the most; an item to which τ
// would give infinite probability is in the prefix, with all before it.
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
		short += q[i] - float64(ww[i]*d)*d
		if short > most {
			most, k = short, i
		}
	}
	return k
}
