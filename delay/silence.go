package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Silence says what a selection counts as while its payoff is awaited. The zero value is nothing: it counts when it is paid or
// expires.
type Silence struct {
	Law SilenceLaw
	// Default is the payoff of a selection that is never paid, normalised.
	Default float64
	// Horizon is after how many milliseconds of event time a selection expires; for SilenceAges only.
	Horizon int64
	// InParts tells that payoffs come in parts that are told as they come (Learner's Partial), and whole at the horizon.
	InParts bool
	// Drift is by how many deviations of a payoff means move in a day, as random walks do; 0 where they do not.
	Drift float64
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
	// payoffs are, and how many of the item's selections are paid (package silence). Where payoffs come in parts it is how much
	// of what comes has come by that age: no more is silent, and what has come of it is known.
	SilenceAges
)

// inFlight is what silence of selections in flight has come to, and what such a payoff is as is below the default, normalised.
type inFlight struct {
	inflight.Worth
	low float64
}

// silent adds to evidence what awaited selections count as.
func (s Silence) silent(e policy.Evidence, of inFlight) policy.Evidence {
	e.W += of.Sum()
	e.R += float64(s.Default*of.Unpaid) + float64(of.low*of.Below)
	e.Q += float64(s.Default*s.Default*of.Unpaid) + float64(of.low*of.low*of.Below)
	return e
}

// begun adds to evidence, which has what so many awaited selections count as already, what has come of them in parts.
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

// possible is the least weight of further defaults with which a mean lies within the range of payoffs, where what has come makes
// a sum above that of as many payoffs as there are. It is a multiple of 2⁻²⁰.
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

// left is by how much selections whose payoffs have begun to come raise the sum of payoffs and that of squares above the default's, where
// returns take that part off. Without one, both are exact.
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
