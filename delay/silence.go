package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Silence defines the weight of a selection in flight. With the zero value it has none.
type Silence struct {
	Law SilenceLaw
	// Default is the payoff assumed for an expired selection, normalised.
	Default float64
	// Horizon is the age at which a selection expires, in milliseconds of event time; for SilenceAges only.
	Horizon int64
	// InParts says that payoffs come as partial payoffs (Learner.Partial), complete at the horizon.
	InParts bool
	// Drift is the standard deviation of a mean's random walk over a day, in deviations of a payoff; 0 without drift.
	Drift float64
}

// SilenceLaw defines the weight, in [0,1], with which a selection in flight counts as never paid, by its age.
//
// Where payoffs are sent only for good outcomes, an item's good outcomes are known long before its bad ones. Until the horizon its
// mean is overstated. Where all selections are paid, a missing payoff is no evidence.
type SilenceLaw uint8

const (
	// SilenceWaits weighs 0 until the horizon, and 1 from then on.
	SilenceWaits SilenceLaw = iota
	// SilenceAtOnce weighs 1 until the payoff comes. It underestimates an item by the payoffs still to come, all items alike if
	// they are selected equally often and paid equally late; little where payoffs are rare.
	SilenceAtOnce
	// SilenceAges weighs the probability that the selection will never be paid, given its age, the delay distribution and the item's
	// share of paid selections (package inflight). With partial payoffs it weighs the share of the amount that has come by that age.
	SilenceAges
)

// inFlight is the weight of selections in flight; low is the mean payoff below the default, normalised.
type inFlight struct {
	inflight.Worth
	low float64
}

// silent adds selections in flight to evidence.
func (s Silence) silent(e policy.Evidence, of inFlight) policy.Evidence {
	e.W += of.Sum()
	e.R += float64(s.Default*of.Unpaid) + float64(of.low*of.Below)
	e.Q += float64(s.Default*s.Default*of.Unpaid) + float64(of.low*of.low*of.Below)
	return e
}

// begun adds the partial payoffs of n selections in flight to evidence that contains their weight.
func (s Silence) begun(e policy.Evidence, n policy.Count, of inFlight, come history.Payoffs) policy.Evidence {
	weight := of.Sum()
	if s.Law != SilenceWaits && come.N > 0 {
		r, q := s.left(come, of.Back)
		e.R, e.Q = e.R+r, e.Q+q
		more := max(0, min(s.possible(e.W, e.R), float64(n)-weight))
		e, weight = s.silent(e, inFlight{Worth: inflight.Worth{Unpaid: more}}), weight+more
	}
	e.Open = max(0, float64(n)-weight)
	return e
}

// possible returns the least weight of further defaults that brings the mean into [0,1], where partial payoffs exceed the weight of
// their selections. It is a multiple of 2⁻²⁰.
func (s Silence) possible(n, sum float64) float64 {
	var w float64
	switch {
	case sum > n && s.Default < 1:
		w = (sum - n) / (1 - s.Default)
	case sum < 0 && s.Default > 0:
		w = -sum / s.Default
	}
	return math.Ceil(w*(1<<20)) / (1 << 20)
}

// left returns how much started selections raise the sums of payoffs and of squares above the default's, after returns take off the
// share back. With back 0 both are exact.
func (s Silence) left(come history.Payoffs, back float64) (r, q float64) {
	r = float64(over(come, s.Default)) / history.Units
	q = float64(come.Q-come.N*history.InUnits(float64(s.Default*s.Default))) / history.Units
	if back == 0 {
		return r, q
	}
	apart := q - float64(2*s.Default*r) // the sum of squared differences from the default
	q -= float64(back * (float64(2*s.Default*r) + float64((2-back)*apart)))
	return float64((1 - back) * r), q
}

// String returns the law's name in the configuration.
func (l SilenceLaw) String() string { return [...]string{"waits", "at_once", "ages"}[l] }
