package experiment

import "math"

// perTotal is the number of units of a payoff of 1 in totals: 2²⁰, so that 64 bits hold 2⁴² units of an arm. Folding rounds a cohort's sums
// once, by less than a millionth of one unit's payoff.
const perTotal = 1 << 20

// Sums are the sums over an arm's folded units. All but N are in units of 2⁻²⁰.
type Sums struct {
	N int64 // units
	X int64 // their payoffs
	D int64 // Σ(x−y), y being the payoff that units before predict
	E int64 // Σ(x−y)²
	Z int64 // covariates
	S int64 // squares of covariates
	M int64 // products of covariate and payoff
}

func (s Sums) Add(o Sums) Sums {
	return Sums{s.N + o.N, s.X + o.X, s.D + o.D, s.E + o.E, s.Z + o.Z, s.S + o.S, s.M + o.M}
}

// Totals are the sums of an experiment's units, by arm in the order of names, of one or more partitions.
type Totals []Sums

func (t Totals) Add(o Totals) {
	for arm := range t {
		t[arm] = t[arm].Add(o[arm])
	}
}

// Fold adds a cohort. Its payoffs are compared with those that the totals before it predict, since bounds hold only if the prediction excludes
// the payoff. So a partition folds its cohorts into its own totals, one after another.
func (t Totals) Fold(cohort []Counts) {
	l := t.line()
	for arm, c := range cohort {
		t[arm] = t[arm].Add(l.sums(c))
	}
}

// line predicts a unit's payoff by its covariate z, as at + slope·z. It is within [0,1] for z in [0,1], so that no difference from a payoff is
// above 1. Expressions round each product, so that all processors compute the same.
type line struct{ at, slope float64 }

// Settings of lines.
const (
	leastUnits  = 100  // below which a line has no slope
	leastSpread = 1e-6 // the least variance of a covariate, likewise
)

// line returns the line of least squares of all units, made flatter until it stays within [0,1]; a half without any.
func (t Totals) line() line {
	var n, m, z, squares, products float64
	for _, s := range t {
		n, m, z = n+float64(s.N), m+float64(s.X)/perTotal, z+float64(s.Z)/perTotal
		squares, products = squares+float64(s.S)/perTotal, products+float64(s.M)/perTotal
	}
	if n == 0 {
		return line{at: 0.5}
	}
	m, z = m/n, z/n
	spread := squares/n - float64(z*z)
	if n < leastUnits || spread < leastSpread {
		return line{at: m}
	}
	slope := (products/n - float64(z*m)) / spread
	if slope > 0 {
		slope = min(slope, m/z, (1-m)/(1-z))
	} else {
		slope = -min(-slope, m/(1-z), (1-m)/z)
	}
	return line{m - float64(slope*z), slope}
}

// sums returns the contribution of an arm's units in a cohort, rounded once. Rounded sums of squares can make E slightly negative.
func (l line) sums(c Counts) Sums {
	n, x, q, z, s, m := float64(c.N), float64(c.X)/perPayoff, float64(c.Q)/perPayoff, float64(c.Z)/perPayoff, float64(c.S)/perPayoff, float64(c.M)/perPayoff
	d := x - float64(l.slope*z) - float64(l.at*n)
	// Of r = x − slope·z the sum is d + at·n, and that of squares follows.
	squares := q - float64(2*l.slope*m) + float64(float64(l.slope*l.slope)*s)
	e := squares - float64(2*l.at*d) - float64(float64(l.at*l.at)*n)
	return Sums{c.N, rounded(c.X), inTotals(d), max(0, inTotals(e)), rounded(c.Z), rounded(c.S), rounded(c.M)}
}

// inTotals rounds a number to units of totals.
func inTotals(x float64) int64 { return int64(math.Round(x * perTotal)) }

// rounded converts units of 2⁻³⁰ to those of totals.
func rounded(x int64) int64 { return (x + perPayoff/perTotal/2) >> 10 }
