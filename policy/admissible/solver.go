package admissible

import "math"

// Solver finds the member of C that a learner with the Tsallis-½ regulariser F(p) = −2·Σ√p_i plays:
//
//	argmin_{p ∈ C} ⟨g,p⟩ + F(p)/η.
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
// By the closed form of C this is a separable convex problem under nested caps on prefix sums. At the
// optimum p_i = 1/(ηg_i + τ_i)², the multipliers τ fall with i, and they are constant on blocks between the prefixes
// whose caps are tight. For any number τ, those i with τ_i above τ are a prefix, namely the one whose cap the
// probabilities 1/(ηg_i + τ)² exceed the most, and so that prefix is tight (the decomposition of Fujishige 1980 and
// Groenevelt 1991). The problem falls into the two sides of a tight prefix.
//
// Mostly τ is that of one block, the solution that ignores all caps inside. It is the root of S^{−1/2} − m^{−1/2}, for S
// the sum of the probabilities and m what it should be: concave and nearly linear in τ, so a few steps of Newton's method
// with Halley's correction. When that keeps splitting off crumbs (payoffs against utilities: every cap is tight, and each
// split takes one item), which would cost O(n²), τ is bisected between bounds instead: the number of passes over the
// candidates stays that of the bits of τ, at worst.
type Solver struct {
	a      []float64 // η(g_i − min g)
	stack  []segment
	passes int // over an item each, counted for the test that the work grows linearly
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
	// hugeLoss bounds what is computed with, far from where sums and products overflow.
	hugeLoss = 1e150
	// nothing is the mass below which a range of items gets none: squares of its root would leave the normal numbers.
	nothing = 0x1p-960
	// leastP is the smallest normal number, and the smallest probability given to an item that is not given zero. Its
	// inverse is finite.
	leastP = 0x1p-1022
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
	n := len(p)
	// With the g of a mirror step the τ that belongs to ηg itself is near 0: it is 0 for the last point. With any other g
	// the search begins somewhere between its bounds, as well as anywhere.
	start := s.scale(g[:n], eta)
	s.stack = append(s.stack[:0], segment{end: n, above: math.Inf(1), below: math.Inf(-1), start: start})
	for len(s.stack) > 0 {
		top := len(s.stack) - 1
		part := s.stack[top]
		s.stack = s.stack[:top]
		s.split(part, p, q[:n])
	}
	for i, v := range p { // rounding may leave a little more
		p[i] = min(v, 1)
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
	n := len(g)
	if cap(s.a) < n {
		s.a = make([]float64, 2*n)
		s.stack = make([]segment, 0, 2*n)
	}
	s.a = s.a[:n]
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
	for i, v := range g {
		s.a[i] = eta * (v - least)
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
func (s *Solver) split(part segment, p, q []float64) {
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
	p, q, a := p[part.first:part.end], q[part.first:part.end], s.a[part.first:part.end]
	if len(p) == 0 {
		return
	}
	mass, least := 0.0, a[0]
	for i, v := range a {
		mass += q[i]
		if v < least {
			least = v
		}
	}
	if mass < nothing {
		for i := range p {
			p[i] = bottom
		}
		return
	}
	if len(p) == 1 {
		p[0] = mass
		return
	}
	if len(a) < len(s.a) && s.probe(&part, a, q, mass, least) { // where one cap is tight, others are likely to be
		return
	}
	root := math.Sqrt(mass)
	y := 1.0
	if part.start > -least {
		y = root * (part.start + least)
	}
	y = s.findRoot(a, root, least, y)
	s.passes += len(a)
	if k := fill(p, a, q, mass, root, least, y); k > 0 {
		s.push(part, k, y/root-least)
	}
}

// findRoot returns the y = √m·(τ + least) for which the range's probabilities m/(√m·(a_i−least) + y)² sum to m. It lies
// between 1, where the item of the least loss alone has all of m, and the root of the number of items. The search begins
// at the given y.
//
// With S = Σd² over d_i = 1/(√m·(a_i−least) + y), f(y) = S^{−1/2} − 1 is increasing and concave (the norm of a vector
// with exponent −2). Hence Newton's step from anywhere comes out at or below the root, and climbs from there.
func (s *Solver) findRoot(a []float64, root, least, y float64) float64 {
	const (
		near     = 1e-5 // from here, a step that trebles the digits is the last
		patience = 12   // rounds before the correction is left away, for Newton's method converges in any case
		enough   = 100
	)
	longest := math.Sqrt(float64(len(a)))
	for round := range enough {
		y = max(1, min(y, longest))
		s.passes += len(a)
		var s2, s3, s4 float64
		rest := a
		// Two inverses by one division, which takes as long as all else. A product too large for a number makes both
		// zero, and then neither, squared, would be seen in the sum.
		for len(rest) >= 2 {
			x0 := float64(root*(rest[0]-least)) + y
			x1 := float64(root*(rest[1]-least)) + y
			inverse := 1 / (x0 * x1)
			d0, d1 := inverse*x1, inverse*x0
			dd0, dd1 := float64(d0*d0), float64(d1*d1)
			s2 += dd0 + dd1
			s3 += float64(dd0*d0) + float64(dd1*d1)
			s4 += float64(dd0*dd0) + float64(dd1*dd1)
			rest = rest[2:]
		}
		for _, v := range rest {
			d := 1 / (float64(root*(v-least)) + y)
			dd := float64(d * d)
			s2 += dd
			s3 += float64(dd * d)
			s4 += float64(dd * dd)
		}
		u := math.Sqrt(s2)
		step := s2 * (u - 1) / s3
		if round < patience {
			// Halley: f·f″/f′² = 3(1−u)(1 − S·S₄/S₃²), which is ≥ 0 below the root.
			bend := 3 * (1 - u) * (1 - float64(s2/s3*(s4/s3)))
			step /= 1 - float64(min(bend, 1)/2)
		}
		y += step
		if math.Abs(u-1) <= near {
			break
		}
	}
	return max(1, min(y, longest))
}

// fill writes the probabilities for y to p, and returns the number of items in the prefix whose cap they exceed the
// most, or zero when they keep them all.
func fill(p, a, q []float64, mass, root, least, y float64) int {
	// Sums of so many numbers are not told apart more finely.
	slack := 1 + float64(0x1p-52*(8+float64(4*math.Sqrt(float64(len(a))))))
	// Of equal excesses the longest prefix counts: what follows the others holds less than rounding, but not nothing.
	p, q = p[:len(a)], q[:len(a)]
	var sum, cap, most float64
	at := 0
	for i, v := range a {
		d := 1 / (float64(root*(v-least)) + y)
		v = max(float64(mass*(d*d)), leastP)
		p[i] = v
		sum += v
		cap += q[i]
		if sum-cap >= most && sum > float64(cap*slack) && i+1 < len(a) {
			most, at = sum-cap, i+1
		}
	}
	return at
}

// push puts the two sides of a tight prefix of k items, found with τ, on the stack.
func (s *Solver) push(part segment, k int, tau float64) {
	middle, n := part.first+k, part.end-part.first
	left := segment{first: part.first, end: middle, above: part.above, below: max(part.below, tau), start: tau}
	right := segment{first: middle, end: part.end, above: min(part.above, tau), below: part.below, start: tau}
	left.crumbs = n >= few && (n-k)*crumb < n
	right.crumbs = n >= few && k*crumb < n
	s.stack = append(s.stack, right, left)
}

// probe looks for a split without solving for anything: with the τ that the middle of the range would have if every cap
// in it were tight, and then, for crumbs, by bisection of what bounds τ. It tells whether it has split the range; if
// not, it has narrowed the bounds.
func (s *Solver) probe(part *segment, a, q []float64, mass, least float64) bool {
	n := len(a)
	tau := alone(a, q, n/2)
	if n >= few {
		x, y := alone(a, q, n/4), alone(a, q, n-1-n/4)
		tau = max(min(x, y), min(max(x, y), tau)) // the median of three
	}
	if part.below < tau && tau < part.above && s.try(part, a, q, tau) {
		return true
	}
	if !part.crumbs {
		return false
	}
	// The last block's items have at most the mass of all, and the first block's mass is at least the first cap.
	part.below = max(part.below, 1/math.Sqrt(mass)-a[n-1])
	part.above = min(part.above, math.Sqrt(float64(n)/q[0])-least)
	for range probes {
		if !(part.below < part.above) {
			return false
		}
		if s.try(part, a, q, part.below+float64((part.above-part.below)/2)) {
			return true
		}
	}
	return false
}

// try splits a range where τ does, or takes τ for a bound and returns false.
func (s *Solver) try(part *segment, a, q []float64, tau float64) bool {
	s.passes += len(a)
	switch k := tightest(a, q, tau); k {
	case 0:
		part.above = tau
	case len(a):
		part.below = tau
	default:
		s.push(*part, k, tau)
		return true
	}
	return false
}

// alone is the multiplier of an item that has its window's mass: what it is where the caps on both sides are tight.
func alone(a, q []float64, i int) float64 { return 1/math.Sqrt(q[i]) - a[i] }

// tightest returns the number of items in the prefix whose cap is exceeded the most by 1/(a_i + τ)², which is the prefix
// of those with τ_i above τ. It looks from the far end, at the suffixes that fall short the most; an item to which τ
// would give infinite probability is in the prefix, with all before it.
func tightest(a, q []float64, tau float64) int {
	k := len(a)
	var short, most float64
	q = q[:len(a)]
	for i := len(a) - 1; i >= 0; i-- {
		x := a[i] + tau
		if !(x > 0) {
			break
		}
		short += q[i] - 1/x/x
		if short > most {
			most, k = short, i
		}
	}
	return k
}
