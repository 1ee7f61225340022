package experiment

import "math/bits"

// perTotal is the number of units of a payoff of 1 in totals: 2²⁰, so that 64 bits hold 2⁴² units of an arm. Folding rounds a cohort's sums
// once, by less than a millionth of one unit's payoff.
const perTotal = 1 << 20

// Sums are the sums over an arm's folded units.
type Sums struct {
	N int64 // units
	X int64 // their payoffs, in units of 2⁻²⁰
	D int64 // Σ(x−m), m being the mean before, in units of 2⁻²⁰
	E int64 // Σ(x−m)², likewise
}

func (s Sums) Add(o Sums) Sums { return Sums{s.N + o.N, s.X + o.X, s.D + o.D, s.E + o.E} }

// Totals are the sums of an experiment's units, by arm in the order of names, of one or more partitions.
type Totals []Sums

func (t Totals) Add(o Totals) {
	for arm := range t {
		t[arm] = t[arm].Add(o[arm])
	}
}

// Fold adds a cohort. Its payoffs are compared with the mean of the totals before it, since bounds hold only if that mean excludes the
// payoff. So a partition folds its cohorts into its own totals, one after another.
func (t Totals) Fold(cohort []Counts) {
	m := t.mean()
	for arm, c := range cohort {
		t[arm] = t[arm].Add(c.sums(m))
	}
}

// mean returns the mean of all units, in units of 2⁻³⁰; a half without any.
func (t Totals) mean() int64 {
	var n, x uint64
	for _, s := range t {
		n += uint64(s.N)
		x += uint64(s.X)
	}
	if n == 0 {
		return perPayoff / 2
	}
	high, low := bits.Mul64(x, perPayoff/perTotal)
	m, _ := bits.Div64(high, low, n)
	return int64(m)
}

// sums returns the contribution of an arm's units in a cohort, for mean m in units of 2⁻³⁰, rounded once. Σ(x−m) = X − n·m, and Σ(x−m)² = Q
// − 2·m·X + n·m².
func (c Counts) sums(m int64) Sums {
	// In units of 2⁻⁶⁰, with 128 bits. All factors are ≥ 0. Rounded squares can make it slightly negative.
	high, low := bits.Mul64(uint64(c.Q), perPayoff)
	h, l := bits.Mul64(uint64(c.N)*uint64(m), uint64(m))
	low, carry := bits.Add64(low, l, 0)
	high += h + carry
	h, l = bits.Mul64(uint64(c.X), uint64(2*m))
	low, borrow := bits.Sub64(low, l, 0)
	high, borrow = bits.Sub64(high, h, borrow)
	if borrow != 0 {
		high, low = 0, 0
	}
	low, carry = bits.Add64(low, 1<<(squareShift-1), 0)
	high += carry
	return Sums{
		N: c.N,
		X: rounded(c.X),
		D: rounded(c.X - c.N*m),
		E: int64(high<<(64-squareShift) | low>>squareShift),
	}
}

// squareShift converts units of 2⁻⁶⁰ to those of totals.
const squareShift = 60 - 20

// rounded converts units of 2⁻³⁰ to those of totals.
func rounded(x int64) int64 { return (x + perPayoff/perTotal/2) >> 10 }
