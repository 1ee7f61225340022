package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Silence says what a selection counts as while its payoff is awaited. The zero value is nothing: it counts when it is paid or
// expires. That is right where most selections are paid. Where payoffs are sent only when something good happens, it has
// the good news of an item arrive long before the bad, and whatever pays at all looks far better than it is until the horizon.
type Silence struct {
	// AtOnce counts a selection as one that was paid Default, from the selection on until its payoff comes, which then takes
	// the place of it. What an item is worth is thus underestimated by what is still to come, and all items alike, as far
	// as they are as often selected and as late paid; where payoffs are rare, that is little.
	AtOnce bool
	// Default is the payoff of a selection that is never paid, normalised.
	Default float64
}

// worth is what so many selections in flight amount to.
func (s Silence) worth(n policy.Count) policy.Evidence {
	x := float64(n)
	if !s.AtOnce {
		return policy.Evidence{Open: x}
	}
	return policy.Evidence{W: x, R: float64(s.Default * x), Q: float64(s.Default * s.Default * x)}
}
