package policy

import (
	"math"
	"math/bits"
)

// moments are sums over items of their evidence of the spread of payoffs, within and between items, updated as items change.
//
// They must be a function of the statistics, not of their history, so that a learner loaded from state decides as its writer would.
// Floating sums are not. So each item's terms are rounded to fixed point and added and subtracted as integers, which is exact.
type moments struct {
	items  int64 // Σ min(1, W), in units: items with payoffs
	within wide  // Σ(Q − R²/W)
	at     [len(kappas)]credible
	prior  prior // for these moments; zero after a change
}

// prior is between's result for a σ², which is 0 without a result.
type prior struct{ variance, mean, kappa float64 }

// kappas are the values of κ at which moments are kept; values between are interpolated.
var kappas = [...]float64{0.5, 4, 32, 256, 2048}

// credible are the moments of the likelihood equations for the prior at one κ. An item's w = W/(W+κ) is the credibility of its
// mean: 0 without payoffs, near 1 with many. v = w·μ̂ = R/(W+κ).
type credible struct{ w, ww, v, wv, vv wide }

// replace replaces an item's evidence. A selection in flight that does not count yet changes nothing.
func (m *moments) replace(before, after *Evidence) {
	if before.W == after.W && before.R == after.R && before.Q == after.Q {
		return
	}
	m.prior = prior{}
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

// squaresWithin returns the sum of squares of an item's payoffs around their mean. Extreme pooled sums can be infinite.
func squaresWithin(s *Evidence) float64 {
	r := min(max(s.R, -largestWide), largestWide)
	return max(0, min(s.Q, math.MaxFloat64)-r/s.W*r)
}

// terms are an item's contribution to credible, in units, each below 2⁶², so that differences do not overflow.
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
	units = 1 << 55 // per 1
	// largestMean bounds means within credible: payoffs are in [0,1], in simulations a few times more.
	largestMean = 11
)

// solve returns the mean m of the prior of maximum likelihood at this κ, and the likelihood equation's τ². Likelihood is maximal at
// the κ where that is σ²/κ. ok is false with too few items.
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

// wide is an integer modulo 2¹²⁸ in units of 2⁻⁵⁵. Subtraction undoes addition exactly, even after an overflow.
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

func (w *wide) addUnits(n int64) { w.add(wide{high: uint64(n >> 63), low: uint64(n)}) }

// largestWide bounds rounded numbers, far above sums of payoffs in [0,1].
const largestWide = 0x1p62

// wideOf rounds x, which is not NaN, towards zero to whole units, within ±2⁶².
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

func (w wide) float() float64 {
	if int64(w.high) < 0 {
		var negated wide
		negated.sub(w)
		return -negated.float()
	}
	return float64(w.high)*0x1p9 + float64(w.low)/units
}
