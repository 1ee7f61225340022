package policy

import (
	"math"
	"math/bits"
)

// moments are sums over all items of what each item's evidence says of the spread of payoffs, within items and between
// them, kept up as items change.
//
// They must be a function of what the statistics are, not of how they came about: a learner that was loaded has to decide
// as the one that wrote the state would have. Floating sums that terms are taken out of again are not that. So each
// item's terms are rounded to fixed point, which depends on its own sums alone, and added and taken out as integers,
// which forgets exactly.
type moments struct {
	items  int64 // Σ min(1, W), in units: those with payoffs
	within wide  // Σ(Q − R²/W)
	at     [len(kappas)]credible
}

// kappas are the values of κ at which moments are kept. What is between is interpolated.
var kappas = [...]float64{0.5, 4, 32, 256, 2048}

// credible are the moments that likelihood's equations for the prior need at one value of κ. An item's w = W/(W+κ) is
// called the credibility of its mean: 0 without payoffs, near 1 with many. With v = w·μ̂ = R/(W+κ):
type credible struct{ w, ww, v, wv, vv wide }

// replace takes the evidence of an item out, and puts other in its place.
func (m *moments) replace(before, after *Evidence) {
	out, in := before.W > 0, after.W > 0
	if out {
		m.items -= inUnits(min(1, before.W))
		m.within.sub(wideOf(squaresWithin(before)))
	}
	if in {
		m.items += inUnits(min(1, after.W))
		m.within.add(wideOf(squaresWithin(after)))
	}
	for j := range m.at {
		var old, now terms
		if out {
			old = termsOf(before, kappas[j])
		}
		if in {
			now = termsOf(after, kappas[j])
		}
		c := &m.at[j]
		c.w.addUnits(now.w - old.w)
		c.ww.addUnits(now.ww - old.ww)
		c.v.addUnits(now.v - old.v)
		c.wv.addUnits(now.wv - old.wv)
		c.vv.addUnits(now.vv - old.vv)
	}
}

// squaresWithin is the sum of squares of an item's payoffs around their mean. Pooled sums of absurd parts can be
// infinite.
func squaresWithin(s *Evidence) float64 {
	r := min(max(s.R, -largestWide), largestWide)
	return max(0, min(s.Q, math.MaxFloat64)-r/s.W*r)
}

// terms are what an item with payoffs adds to credible, in units: below 2⁶² each, so that differences do not overflow.
type terms struct{ w, ww, v, wv, vv int64 }

func termsOf(s *Evidence, kappa float64) terms {
	y := 1 / (s.W + kappa)
	w, v := s.W*y, s.R*y
	if !(math.Abs(v) <= largestMean) {
		v = math.Copysign(largestMean, v)
	}
	return terms{int64(w * units), int64(w * w * units), int64(v * units), int64(w * v * units), int64(v * v * units)}
}

const (
	units = 1 << 55 // in 1
	// largestMean bounds means within credible: payoffs are within [0,1], in a laboratory a few times more.
	largestMean = 11
)

// solve gives the mean m of the prior that is likeliest at this κ, and what likelihood makes of τ²: where that is σ²/κ,
// κ is the likeliest. ok is false where there are too few items to tell.
func (c *credible) solve() (mean, between float64, ok bool) {
	w, ww := c.w.float(), c.ww.float()
	freedom := w - ww/w
	if !(w > 0 && freedom > 0) {
		return 0, 0, false
	}
	v := c.v.float()
	mean = v / w
	squares := c.vv.float() - mean*(2*c.wv.float()-mean*ww)
	return mean, max(0, squares) / freedom, true
}

// wide is an integer modulo 2¹²⁸ in two's complement, in units of 2⁻⁵⁵. Integers modulo 2¹²⁸ are a group, so that what
// was added is taken out without a trace even if a sum should overflow in between.
type wide struct{ high, low uint64 }

func (w *wide) add(x wide) {
	var carry uint64
	w.low, carry = bits.Add64(w.low, x.low, 0)
	w.high, _ = bits.Add64(w.high, x.high, carry)
}

func (w *wide) sub(x wide) {
	var borrow uint64
	w.low, borrow = bits.Sub64(w.low, x.low, 0)
	w.high, _ = bits.Sub64(w.high, x.high, borrow)
}

// addUnits adds so many units.
func (w *wide) addUnits(n int64) { w.add(wide{high: uint64(n >> 63), low: uint64(n)}) }

// largestWide bounds what is rounded: far above what payoffs within [0,1] can come to.
const largestWide = 0x1p62

// wideOf rounds x, which is not NaN, towards zero to whole units; beyond ±2⁶² to that.
func wideOf(x float64) wide {
	a := min(math.Abs(x), largestWide)
	whole := uint64(a)
	w := wide{high: whole >> 9, low: whole<<55 | uint64((a-float64(whole))*units)}
	if x < 0 {
		var negated wide
		negated.sub(w)
		return negated
	}
	return w
}

// float is the number that w stands for.
func (w wide) float() float64 {
	if int64(w.high) < 0 {
		var negated wide
		negated.sub(w)
		return -negated.float()
	}
	return float64(w.high)*0x1p9 + float64(w.low)/units
}
