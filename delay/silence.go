package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Silence says what a selection counts as while its payoff is awaited. The zero value is nothing: it counts when it is paid or
// expires.
type Silence struct {
	Law SilenceLaw
	// Default is the payoff of a selection that is never paid, normalised.
	Default float64
	// Horizon is after how many milliseconds of event time a selection expires; for SilenceAges only.
	Horizon int64
}

// SilenceLaw is what a selection is worth as time goes by in which it is not paid, as a part of one that was never paid.
//
// Where payoffs are sent only when something good happens, the good news of an item arrives long before the bad, and
// whatever pays at all looks far better than it is until the horizon. Where all selections are paid, silence means nothing.
type SilenceLaw uint8

const (
	// SilenceWaits is 0 until the horizon, and 1 from then on.
	SilenceWaits SilenceLaw = iota
	// SilenceAtOnce is 1 from the selection on until its payoff comes. What an item is worth is thus underestimated by what is
	// still to come, and all items alike, as far as they are as often selected and as late paid. Where payoffs are rare,
	// that is little.
	SilenceAtOnce
	// SilenceAges is the probability that the selection will never be paid, as far as that is known by its age: from how late
	// payoffs are, and how many of the item's selections are paid (package silence).
	SilenceAges
)

// worth is what so many selections in flight amount to, of which silence has come to a weight.
func (s Silence) worth(n policy.Count, weight float64) policy.Evidence {
	return policy.Evidence{W: weight, R: float64(s.Default * weight), Q: float64(s.Default * s.Default * weight),
		Open: max(0, float64(n)-weight)}
}
