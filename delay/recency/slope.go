package recency

import "math"

const (
	// slopePrior is the weight of the prior slope 1, in payoffs whose level is a standard deviation off their item's mean level.
	slopePrior = 1
	// slopeUnits is the number of units in 1. Items are rounded to units, so that their sums are exact in any order.
	slopeUnits = 1 << 20
)

// slope regresses payoffs on the levels found for their time, within items. It is 1 if levels are changes of payoffs, and 0 if they are an
// error that scores keep. For a level found by chance shifts the scores that selections record, and so later residuals seem to confirm it.
// Then items with young payoffs gain by it. An item's own payoffs over time show the difference.
type slope struct{ xx, xy int64 } // sums over items, in units: of n(x−x̄)² and n(x−x̄)(y−ȳ) for levels x and payoffs y

// regression sums up an item's levels x and payoffs y: n, and sums of x, y, x² and xy.
type regression struct{ n, x, y, xx, xy float64 }

// add adds n payoffs with the sum y at a level.
func (r *regression) add(level, n, y float64) {
	r.n += n
	r.x += level * n
	r.y += y
	r.xx += level * level * n
	r.xy += level * y
}

func (s *slope) add(r *regression) {
	if r.n > 0 && r.x != 0 {
		s.xx += int64(math.Round(slopeUnits * (r.xx - r.x*r.x/r.n)))
		s.xy += int64(math.Round(slopeUnits * (r.xy - r.x*r.y/r.n)))
	}
}

// estimate returns the slope, 0 to 1, given the standard deviation of payoffs. It is one standard error, σ/√xx, above the likeliest: levels
// that are right lose little by chance.
func (s *slope) estimate(sigma float64) float64 {
	prior, xx := slopePrior*sigma*sigma, max(0, float64(s.xx)/slopeUnits)
	return min(1, max(0, (float64(s.xy)/slopeUnits+sigma*math.Sqrt(xx)+prior)/(xx+prior)))
}
