package policy

// Evidence is the statistics of an item's payoffs as policies see them. It has those fed, of all sources, with decayed weights
// where means drift, and those in flight as they count (Table.EvidenceBy).
type Evidence struct {
	W float64 // weight in payoffs, a multiple of 2⁻²⁰, at least 0
	R float64 // their sum, in normalised units
	Q float64 // the sum of their squares
	// Open is the number of samples in flight that W leaves out, at least 0. Bonuses and posterior variances count them as though
	// they were here, so that an item is not selected again and again for want of a payoff in flight.
	Open float64
}

// weightUnits is the number of units in a weight of 1. Weights are rounded to units, so that their sums are exact in any order.
const weightUnits = 1 << 20

// inUnits returns a weight in units, at most 2⁴² payoffs.
func inUnits(w float64) int64 { return int64(min(w, 1<<42) * weightUnits) }

// Evidence returns the evidence of fed payoffs alone, each of weight 1.
func (s Sums) Evidence() Evidence { return Evidence{W: float64(s.N), R: s.R, Q: s.Q} }

// Mean returns the mean payoff; 0 without payoffs.
func (e Evidence) Mean() float64 {
	if e.W <= 0 {
		return 0
	}
	return e.R / e.W
}

// Wald returns the centre and the variance of an interval for the mean of payoffs in [0,1]. Two payoffs of 0 and two of 1 are added, so
// that few payoffs have a large variance (A. Agresti and B. Coull, "Approximate is better than exact for interval estimation of
// binomial proportions", The American Statistician 1998).
func (e Evidence) Wald() (centre, variance float64) {
	const added = 4
	n := max(e.W, 0) + added
	centre = (e.R + added/2) / n
	return centre, max(0, (e.Q+added/2)/n-centre*centre) / n
}
