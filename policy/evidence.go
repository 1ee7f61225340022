package policy

// Evidence is what is known of an item's payoffs, as policies see it: those that were fed, of all sources, or what is left of them
// by now, and whatever the payoffs that are still awaited count as (Table.EvidenceBy).
type Evidence struct {
	W float64 // how many payoffs it is worth: a multiple of 2⁻²⁰, from 0
	R float64 // their sum, in normalised units
	Q float64 // the sum of their squares
	// Open is how many samples are on their way that W leaves out, from 0. Where a policy reckons how much is still to be
	// learned of an item, in its bonus or in its posterior's variance, they count as though they were here; else an item
	// would be selected again and again for want of a payoff that is on its way.
	Open float64
}

// weightUnits are in a weight of 1. Weights are rounded to units, so that sums of them are exact, whatever their order.
const weightUnits = 1 << 20

// inUnits is a weight in units. Weights that are absurd are cut, so that their number is the same wherever it is reckoned.
func inUnits(w float64) int64 { return int64(min(w, 1<<42) * weightUnits) }

// Evidence is that of payoffs that were fed alone: each is worth one.
func (s Sums) Evidence() Evidence { return Evidence{W: float64(s.N), R: s.R, Q: s.Q} }

// Mean is the mean payoff; 0 where there is none.
func (e Evidence) Mean() float64 {
	if e.W <= 0 {
		return 0
	}
	return e.R / e.W
}
