package delay

import (
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Status is a summary of a learner's state.
type Status struct {
	Fed     int64       // payoffs fed to the policy
	Queued  int64       // payoffs that wait in QPM-D's queues
	OnHold  bool        // BASE is on hold for a payoff of Item
	Item    policy.Item // meaningless unless OnHold
	Holds   int64       // holds begun since the process started
	Flights int64       // selections in flight; with instances, decisions whose impression has not ended

	Attraction AttractionStatus // the zero value where payoff per selection is the aim

	Silence SilenceStatus // the zero value with SilenceWaits
	Level   LevelStatus   // of Robust
	// Contextual is set by contextual learners.
	Contextual ContextualStatus

	// Windows is the distribution of windows in use: 1, 2, … up to ShownWindows, and last those beyond. It is nil for learners
	// without windows, and is not changed afterwards.
	Windows    []float64
	Selections int64 // number behind Windows, of all partitions; 0 if they are given

	Instances int64 // instances made so far, with BOLD
	Unfed     int64 // payoffs since the process started that no instance could be fed, see BOLD's Paid

	// Of a learner that finds the order of utilities; counts since the process started.
	FindsUtilities bool
	UndecidedPairs int64 // pairs of items whose order is not certain
	BurnIn         int64 // impressions ranked to find the order
	Contradictions int64 // selections that contradict a certain order
	Unrated        int64 // selections without the utility that utilities: social needs
}

// ShownWindows is the number of windows in a Status.
const ShownWindows = 20

// AttractionStatus is the estimate of payoff per impression over all items. Payoffs are normalised.
type AttractionStatus struct {
	// Learned is set if the learner maximises payoff per impression.
	Learned bool
	// Impressions is the number of impressions, over all partitions, that Share is learned from. Share is 0 without impressions.
	Impressions int64
	Share       float64
	// PerSelection is the mean payoff of a selection, those in flight included at their present weight. PerImpression is that times Share,
	// plus the payoff without a selection.
	PerSelection, PerImpression float64
}

// LevelStatus describes the present level, the residual that all items have in common. It is over all partitions.
type LevelStatus struct {
	Tracked bool // the other fields are set
	// AsOf is the start of the newest paid selection in the estimate, in milliseconds of event time to some seconds; inflight.Never
	// before the first. The partition with the latest is the most recent.
	AsOf int64
	// Level is the newest payoffs' mean residual above their items' means, in payoff ranges.
	Level float64
	// HalfLife is the half-life of the level's mean, in milliseconds; +Inf while no level has changed lately.
	HalfLife float64
	Changes  int64 // times since the process started that HalfLife left +Inf
}

// SilenceStatus describes a learner's selections in flight.
type SilenceStatus struct {
	Law SilenceLaw
	// Weight is the weight of this partition's selections in flight, in selections never paid.
	Weight float64
	// Payoffs is the payoff with which this weight counts, in payoff ranges: assumed for unpaid selections, and partial payoffs so far.
	Payoffs float64
	// Known says that the fields below are set: with SilenceAges, from the first payoff on.
	Known bool
	// Seen says that nine tenths of the payoffs come at ages that selections have reached. At greater ages the distribution of delays is an
	// assumption, and so are Share, Median and P90.
	Seen bool
	// Share is the share of selections that are paid; Median and P90 are quantiles of the delay in milliseconds. They are over all
	// partitions, as of the last tick.
	Share       float64
	Median, P90 int64
	// Delays is the distribution of payoffs' delays, and Covers the event time in milliseconds that this partition's
	// selections cover.
	Delays Delays
	Covers int64
	// Returns says that some partial payoffs were taken back.
	Returns bool
}

// Delays is a distribution of delays of payoffs, up to the horizon.
type Delays struct {
	scheme inflight.Scheme
	late   inflight.DelayDistribution
}

// By returns the share of payoffs that have come by an age in milliseconds.
func (d *Delays) By(age int64) float64 { return d.late.By(&d.scheme, age) }

// ContextualStatus describes a contextual learner's model over all partitions, as of the last fit.
type ContextualStatus struct {
	Known bool  // payoffs depend on a context; otherwise the rest is empty
	Fits  int64 // made since the process started
	// Payoffs is the number of payoffs in the model, less one for each forgotten item. The partition with the most is the most recent.
	Payoffs int64
	// Deviations are standard deviations of payoffs by cause, in payoff ranges; -1 for a cause that the learner does not model.
	Deviations [Causes]float64
	// Spreads are the spreads of the declared features.
	Spreads []Spread
	// Groups are the present divisions of the clock and of items' age.
	Groups []Groups
	// Since is the time in Unix milliseconds from which payoffs count, by start of their selections; 0 if all count.
	Since int64
}

// Cause is a component of the variance of payoffs.
type Cause uint8

// The causes: chance within item and context, features, the item's category, the item, and the cell (item and user group).
const (
	OfChance Cause = iota
	OfFeatures
	OfCategory
	OfItem
	OfCell
	Causes // their number
)

// String returns its name in metrics and reports.
func (c Cause) String() string {
	return [...]string{"payoff", "features", "category", "item", "cell"}[c]
}

// MarshalText returns its name, also for JSON.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Deviation is the spread of payoffs by one cause, in payoff ranges.
type Deviation struct {
	Level string  `json:"level"` // the cause's name
	SD    float64 `json:"sd"`
}

// Modelled returns the deviations of the causes that the learner models; nil for a learner without a context.
func (s *ContextualStatus) Modelled() (all []Deviation) {
	for cause, sd := range s.Deviations {
		if s.Known && sd >= 0 {
			all = append(all, Deviation{Cause(cause).String(), sd})
		}
	}
	return all
}

// Groups is the number of groups into which the learner divides the day ("hour"), the week ("weekday") or items' ages ("age"); 1 if
// it does not divide. Data choose the clock's; those of age are fixed.
type Groups struct {
	Of string `json:"of"`
	N  int    `json:"groups"`
}

// Spread is a feature's standard deviation over fed payoffs, in halves of its range: 0.58 for a uniform distribution.
type Spread struct {
	Name string
	SD   float64
}

// Coefficient is a payoff's expected change, in payoff ranges, from the middle of a feature's range to its end; SD its standard error.
// "intercept" is the payoff at the middle of all ranges.
type Coefficient struct {
	Name  string  `json:"feature"`
	Value float64 `json:"effect"`
	SD    float64 `json:"sd"`
}
