// Package delay has learners. A learner joins a policy with the statistics that it reads, and learns from payoffs that come late. There is one
// for each partition and each configured name; Learner is its interface. Decide reads candidates and writes a Decision: their order, and
// propensities if the policy has them. Then come Feedback calls: Selected or Unselected, Partial for each part of a sum, and at the end Paid
// or Expired. With Pooling, all partitions of a process share their statistics. Harvest returns changes to store; LoadSums and
// LoadField read them back, sums of payoffs and all else.
//
// Direct counts each payoff as it arrives; NewContextual makes one that predicts from features. Robust is for means that change. QPMD
// (stochastic payoffs) and BOLD (adversarial ones) are from the paper's appendix C.2. Preferring first learns the order of utilities (C.1).
//
// Packages stream/partition, internal/lab and internal/evaluate run learners; internal/learners makes them from the configuration. Some
// learners have more methods: ItemRemoving forgets an item, Mergeable and Inspector serve commands. The package is pure: no I/O, no clock.
package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Decision is a learner's decision for one impression. The caller owns its slices and reuses them.
type Decision struct {
	// Order holds positions in the candidate list, which is in increasing utility, in the order shown.
	Order []int32
	// Propensities are the probabilities that the selection falls on Order[k]; empty if the policy has none.
	Propensities []float64
	// Expected is the expected payoff of the item at Order[k], a multiple of 10⁻⁶ within ±10⁶; empty if the policy has none. It is
	// recorded and comes back with the feedback, see Optional.Expects.
	Expected []float64
	// Instance is the BASE instance that decided; -1 for learners without instances.
	Instance int32
	// Explored says that the policy explored on purpose (ε-greedy), or the order of utilities was explored (Preferring).
	Explored bool
	// Ranks holds by position shown the utility rank (0 is the lowest), and Undecided in ascending order each rank whose item is not
	// known to exceed the one before. Undecided is 0 alone if the order is a guess. Only learners that find the order of utilities set
	// them; others leave them, so a caller that uses one Decision for several learners must empty them.
	Ranks     []int32
	Undecided []int32
}

// Feedback is an event of one impression, for its learner.
type Feedback struct {
	Ref    int64       // offset of the impression in its topic: unique within the partition
	Item   policy.Item // the selected item; unused by Unselected
	Payoff float64     // normalised to [0,1]; for Paid and Partial
	// Began is the event time in milliseconds from which the payoff's deadline counts; for Selected, Paid and Expired. Horizon is the time
	// from it to the deadline, 0 if not known; for Selected. Age is the delay of the payoff or partial payoff after it; for Paid and Partial.
	Began, Horizon, Age int64
	// Defaulted marks a default at expiry; for Paid.
	Defaulted bool
	// InParts says that the learner has had Partial for this selection, and Before is its last Payoff; for Partial, Paid and Expired.
	InParts bool
	Before  float64
	// Candidates, Propensity and Instance are the decision's, if it recorded them. For Partial, Paid and Expired, Candidates,
	// Order, Undecided and Ref are set only if the learner's Needs ask for them.
	Candidates []policy.Item
	Propensity float64
	Instance   int32
	// Expected is the decision's expectation for Item, if HasExpected; unused by Unselected. It is missing if another policy decided.
	Expected    float64
	HasExpected bool
	// Order is the decision's: positions in Candidates in the order shown. It is empty if unknown; Candidates are in the order shown
	// then. For a learner that finds the order of utilities, Candidates are in the order found, and Order is the decision's Ranks.
	// A learner whose Needs do not ask for Candidates may get both by another order of utilities, with the same leaders.
	Order     []int32
	Undecided []int32
	// Utility is the user's own rating of the selected item, if HasUtility; for Selected.
	Utility    float64
	HasUtility bool
	// X is Item's row of the decision's policy.Context, and Segment that context's; for Selected, Partial, Paid and Expired. X is
	// empty without a context, or if the learner does not need it.
	X       []int8
	Segment int32
}

// Needs are the parts of a decision that a learner needs from the selection on, besides item, propensity, expectation and instance.
// Only these are kept, since many impressions wait for their payoff for a long time.
type Needs struct {
	Ref        bool // Feedback.Ref
	Candidates bool // Feedback.Candidates, Order and Undecided
	Context    bool // Feedback.X and Segment; also for Selected
	// Ranking asks for Candidates and Order in Selected and Unselected only, also of decisions without propensities.
	Ranking bool
	// Epoch asks for a Refresh after each change of the global learner before feedback, since it may depend on the global learner.
	Epoch bool
}

// Recorder receives the changes of a learner's state since the last harvest, as absolute values.
type Recorder interface {
	// Item reports that the item's Sums have changed.
	Item(i policy.Item)
	// Field sets a field of one of the learner's hashes (see Hashes); a nil value deletes it. The slices are valid only during the call.
	Field(hash string, field, value []byte)
	// Known reports that the global learner has read all that was recorded up to the end of the last Harvest at which Known was true. Before the
	// first such Harvest it reports that for all that was loaded. It is false without a global learner. It changes memory alone.
	Known() bool
}

// Pooled is a hash whose fields are pooled over partitions. Its name may not change.
type Pooled struct {
	Hash string
	// ByItem says that fields begin with item numbers, which are each partition's own.
	ByItem bool
}

// Translate returns the global number of a source's item; false if it is unknown.
type Translate func(theirs policy.Item) (ours policy.Item, ok bool)

// previous returns fb's previous partial payoff.
func (fb *Feedback) previous() history.Payoffs {
	if !fb.InParts {
		return history.Payoffs{}
	}
	return history.PayoffsOf(fb.Before)
}

// shownAt returns the position at which the selected item was shown, if it is known.
func (fb *Feedback) shownAt() (at int, ok bool) {
	if len(fb.Order) == 0 || len(fb.Order) != len(fb.Candidates) {
		return 0, false
	}
	at = slices.Index(fb.Order, int32(slices.Index(fb.Candidates, fb.Item)))
	return at, at >= 0
}
