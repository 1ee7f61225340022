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

import "github.com/ranker-worker/ranker-worker/policy"

// Decision is a learner's decision for one impression. The caller owns its slices and reuses them.
type Decision struct {
	// Order holds positions in the candidate list, which is in increasing utility, in the order shown.
	Order []int32
	// Propensities are the probabilities that the selection falls on Order[k]; empty if the policy has none.
	Propensities []float64
	// Expected is the expected payoff of the item at Order[k], a multiple of 10⁻⁶ within ±10⁶; empty if the policy has none. It is
	// recorded and comes back with the feedback. A learner that sets it implements Expecting.
	Expected []float64
	// Instance is the BASE instance that decided; -1 for learners without instances.
	Instance int32
	// Explored says that the policy explored on purpose (ε-greedy), or the order of utilities was explored (Preferring).
	Explored bool
	// Ranks holds by position shown the utility rank (0 is the lowest), and Undecided in ascending order each rank whose item is
	// not known to exceed the one before. Only learners that find the order of utilities set them; others leave them, so a caller
	// that uses one Decision for several learners must empty them.
	Ranks     []int32
	Undecided []int32
}

// Feedback is an event of one impression, for its learner.
type Feedback struct {
	Ref    int64       // offset of the impression in its topic: unique within the partition
	Item   policy.Item // the selected item; unused by Unselected
	Payoff float64     // normalised to [0,1]; for Paid and Partial
	// Began is the event time in milliseconds from which the payoff's deadline counts; for Selected, Paid and Expired. Age is the
	// delay of the payoff or partial payoff after it; for Paid and Partial. Defaulted marks a default at expiry; for Paid.
	Began     int64
	Age       int64
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
}

// Learner is one learner of one partition. It is not safe for concurrent use.
type Learner interface {
	Pooling
	// Grow sets the number of items: 0..items-1 exist from now on.
	Grow(items int)
	// Decide ranks the candidates, in increasing utility, and fills d. A learner that finds the order of utilities (Preferring)
	// takes them in any order. About is nil unless Needs asks for a context.
	Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision)
	// Adopt notes a decision that an earlier owner made and logged.
	Adopt(ref int64, d *Decision)
	// Needs returns the parts of a decision that feedback must contain. It never changes.
	Needs() Needs
	// Selected reports a selection of fb.Item. Exactly one of Paid and Expired follows.
	Selected(fb Feedback)
	// Partial reports a partial payoff; Payoff is the sum so far, which may rise or fall. Paid or Expired follows.
	Partial(fb Feedback)
	// Paid reports the complete payoff, or a default at expiry.
	Paid(fb Feedback)
	// Expired reports that the payoff will never come (on_expiry: drop).
	Expired(fb Feedback)
	// Unselected reports an impression that ended without a selection.
	Unselected(fb Feedback)

	// Sums returns this partition's own statistics of an item.
	Sums(i policy.Item) policy.Sums
	// Evidence returns the present evidence of an item's payoffs, other sources' included where they are pooled. It is for people
	// and metrics; decisions need not use it.
	Evidence(i policy.Item) policy.Evidence
	// Pooled returns the hashes whose fields other partitions' learners of the same name read.
	Pooled() []Pooled
	// Advance sets the partition's watermark, in milliseconds of event time. Scheduled work is done in it.
	Advance(watermark int64)

	// Hashes returns the names of the learner's own hashes besides the items.
	Hashes() []string
	// LoadSums and LoadField restore stored state, in any order, after Grow and before the first decision. Sums must pass their
	// Check. LoadField fails with ErrState on a field that Harvest cannot have written.
	LoadSums(i policy.Item, s policy.Sums)
	LoadField(hash string, field, value []byte) error
	// Loaded ends loading. It fails with ErrState if fields are missing; the learner must not be used then.
	Loaded() error
	// Harvest records the changes since the last call.
	Harvest(r Recorder)

	// Status returns the learner's state for people and metrics.
	Status() Status
}

// Categorising is a learner that receives items' categories, before decisions and feedback about them; the latest holds. Learners
// without categories (features.Space) ignore them.
type Categorising interface {
	Categorise(i policy.Item, category string)
}

// Expecting is a learner whose decisions may have Expected, so that records have room for it.
type Expecting interface {
	Expects() bool
}

// Reweighing is a learner that can use the propensities of a ranking that it has not drawn. Reweigh sets those of d.Order, or of d.Ranks for a
// learner that finds the order of utilities. They are probabilities given the ranking, not over rankings that could have been drawn.
type Reweighing interface {
	Reweigh(d *Decision)
}

// Attracting is a learner that may learn which share of impressions ends with a selection.
type Attracting interface {
	// ShareOnTop is the share of impressions with an item on top that end with a selection; false where it is not learned, or none
	// has ended yet.
	ShareOnTop(i policy.Item) (share float64, ok bool)
}

// Pooled is a hash whose fields are pooled over partitions. Its name may not change.
type Pooled struct {
	Hash string
	// ByItem says that fields begin with item numbers, which are each partition's own.
	ByItem bool
}

// Translate returns the global number of a source's item; false if it is unknown.
type Translate func(theirs policy.Item) (ours policy.Item, ok bool)

// ShownWindows is the number of windows in a Status.
const ShownWindows = 20

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
