package policy

import (
	"math"
	"math/bits"
)

// moments are sums over all items of what each item's pooled sums say of the spread of payoffs, within items and between
// them, kept up as items change.
//
// They must be a function of what the statistics are, not of how they came about: a learner that was loaded has to decide
// as the one that wrote the state would have. Floating sums that terms are taken out of again are not that. So each
// item's terms are rounded to fixed point, which depends on its own sums alone, and added and taken out as integers,
// which forgets exactly.
type moments struct {
	items  int64 // those with payoffs
	within wide  // Σ(Q − R²/N)
	at     [len(kappas)]credible
}

// kappas are the values of κ at which moments are kept. What is between is interpolated.
var kappas = [...]float64{0.5, 4, 32, 256, 2048}

// credible are the moments that likelihood's equations for the prior need at one value of κ. An item's w = N/(N+κ) is
// called the credibility of its mean: 0 without payoffs, near 1 with many. With v = w·μ̂ = R/(N+κ):
type credible struct{ w, ww, v, wv, vv wide }

// replace takes the sums of an item out, and puts others in their place.
func (m *moments) replace(before, after *Sums) {
	if before.N > 0 {
		m.items--
		m.within.sub(wideOf(squaresWithin(before)))
		for j := range m.at {
			c := credibility(before, kappas[j])
			m.at[j].sub(&c)
		}
	}
	if after.N > 0 {
		m.items++
		m.within.add(wideOf(squaresWithin(after)))
		for j := range m.at {
			c := credibility(after, kappas[j])
			m.at[j].add(&c)
		}
	}
}

// squaresWithin is the sum of squares of an item's payoffs around their mean.
func squaresWithin(s *Sums) float64 {
	r := clampSum(s.R)
	return max(0, min(s.Q, math.MaxFloat64)-r/float64(s.N)*r)
}

// credibility is what an item with payoffs adds to the moments at one κ.
func credibility(s *Sums, kappa float64) credible {
	y := 1 / (float64(s.N) + kappa)
	w, v := float64(s.N)*y, clampSum(s.R)*y
	return credible{wideOf(w), wideOf(w * w), wideOf(v), wideOf(w * v), wideOf(v * v)}
}

// clampSum keeps what sums are multiplied to finite. Pooled sums of absurd parts can be infinite.
func clampSum(x float64) float64 { return min(max(x, -largestWide), largestWide) }

func (c *credible) add(x *credible) {
	c.w.add(x.w)
	c.ww.add(x.ww)
	c.v.add(x.v)
	c.wv.add(x.wv)
	c.vv.add(x.vv)
}

func (c *credible) sub(x *credible) {
	c.w.sub(x.w)
	c.ww.sub(x.ww)
	c.v.sub(x.v)
	c.wv.sub(x.wv)
	c.vv.sub(x.vv)
}

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

// wide is an integer modulo 2¹²⁸ in two's complement, in units of 2⁻⁶⁴. Integers modulo 2¹²⁸ are a group, so that what
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

// largestWide bounds what is rounded: far above what payoffs within [0,1] can come to.
const largestWide = 0x1p62

// wideOf rounds x, which is not NaN, towards zero to a multiple of 2⁻⁶⁴; beyond ±2⁶² to that.
func wideOf(x float64) wide {
	a := min(math.Abs(x), largestWide)
	whole := uint64(a)
	w := wide{whole, uint64((a - float64(whole)) * 0x1p64)}
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
		return -(float64(negated.high) + float64(negated.low)*0x1p-64)
	}
	return float64(w.high) + float64(w.low)*0x1p-64
}
