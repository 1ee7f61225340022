// Package delay makes a policy learn from payoffs that arrive late: QPM-D for stochastic payoffs, BOLD for adversarial
// ones (the paper's appendix C.2). A Learner is a policy, its statistics and its delay handling together. The package is pure: no
// I/O, no clock, no global randomness.
package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Decision is what a learner decided for one impression. Its slices are the caller's, reused between calls.
type Decision struct {
	// Order holds positions in the candidate list (which is in increasing utility), in the order they are shown.
	Order []int32
	// Propensities are the probabilities that the selection falls on Order[k]; empty where the policy has none.
	Propensities []float64
	// Expected are what the policy expects of the item at Order[k], multiples of 10⁻⁶ of at most 10⁶ in size; empty where the
	// policy has none. They are recorded, and come back with the feedback. A learner that gives any is Expecting.
	Expected []float64
	// Instance is the BASE instance that decided; -1 where the learner has no instances.
	Instance int32
	// Explored is true where the policy explored on purpose (ε-greedy), or the order of utilities was (Preferring).
	Explored bool
	// Ranks holds, by position shown, the utility rank (0 is the lowest) that the learner found for what is shown there,
	// and Undecided, in ascending order, each rank whose item it does not know to be above the one before. Both are empty
	// with learners that are given utilities: these leave them alone, so whoever uses one Decision for several learners
	// empties them.
	Ranks     []int32
	Undecided []int32
}

// Feedback is what became of one impression, as its learner needs it.
type Feedback struct {
	Ref    int64       // the impression's offset in its topic: unique within the partition
	Item   policy.Item // the selected item; not used by Unselected
	Payoff float64     // normalised to [0,1]; used by Paid and Partial only
	// Began is the event time, in milliseconds, from which the payoff's deadline is counted; for Selected, Paid and Expired.
	// Age is how much later the payoff came, or the part of it, for Paid and Partial; Defaulted tells that it stands for one that
	// never came, for Paid only.
	Began     int64
	Age       int64
	Defaulted bool
	// InParts tells that Partial was told of the selection before, and Before is the Payoff that it was told last; for Partial,
	// Paid and Expired.
	InParts bool
	Before  float64
	// Candidates, Propensity and Instance are those of the decision; only for learners that recorded them. For Partial, Paid and
	// Expired Candidates, Order and Undecided are there only for learners whose Needs say so, and so is Ref.
	Candidates []policy.Item
	Propensity float64
	Instance   int32
	// Expected is what the decision expected of Item, where HasExpected is true; not used by Unselected. It is not there where
	// another policy decided, or the decision recorded none.
	Expected    float64
	HasExpected bool
	// Order is the decision's: positions in Candidates in the order shown. Empty where it is not known; Candidates are
	// in the order shown then. With a learner that finds the order of utilities itself, Candidates are in the order that it
	// found at the decision, Order is its Ranks, and Undecided is the decision's.
	Order     []int32
	Undecided []int32
	// Utility is the user's own estimate of the selected item's, where HasUtility is true; for Selected only.
	Utility    float64
	HasUtility bool
	// X is Item's row of the decision's policy.Context and Segment that context's, for Selected, Partial, Paid and Expired; X is
	// empty where there was no context, or where the learner that is told does not need it.
	X       []int8
	Segment int32
}

// Needs is what a learner needs of a decision from the selection on, besides the item, its propensity, what was expected of
// it, and the instance. What nobody needs is not kept: most impressions with a selection wait for their payoff for a long time.
type Needs struct {
	Ref        bool // Feedback.Ref
	Candidates bool // Feedback.Candidates, Order and Undecided
	Context    bool // Feedback.X and Segment; also what Selected needs
	// Ranking asks for Candidates and Order of Selected and Unselected alone, also of decisions without propensities.
	Ranking bool
}

// Recorder takes the changes of a learner's state since they were last harvested, as absolute values.
type Recorder interface {
	// Item says that the item's Sums have changed.
	Item(i policy.Item)
	// Field sets a field of one of the learner's own hashes (see Hashes), or deletes it where
	// value is nil. The slices are only valid during the call.
	Field(hash string, field, value []byte)
}

// Learner is one learner of one partition. It is not safe for concurrent use.
type Learner interface {
	// Grow tells how many items the learner knows: items 0..items-1 exist from now on.
	Grow(items int)
	// Decide ranks the candidates, labelled in increasing utility, and fills d. A learner that finds the order of utilities
	// itself (Preferring) takes them in any order. About is nil where Needs does not ask for a context.
	Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision)
	// Adopt takes note of a decision that was made earlier (an earlier owner's, found in the log).
	Adopt(ref int64, d *Decision)
	// Needs tells what Partial, Paid and Expired need. It is always the same.
	Needs() Needs
	// Selected: the user selected o.Item. Exactly one of Paid and Expired follows.
	Selected(fb Feedback)
	// Partial: a part of the payoff of a selected item has come. Payoff is what all parts until now come to, of which more may
	// come or be taken back; Paid or Expired follows in the end.
	Partial(fb Feedback)
	// Paid: the payoff of a selected item has come (or stands for one: a default at expiry).
	Paid(fb Feedback)
	// Expired: the payoff of a selected item will never come (on_expiry: drop).
	Expired(fb Feedback)
	// Unselected: nobody selected from the impression, and nobody will.
	Unselected(fb Feedback)

	// Sums are this partition's own statistics of an item.
	Sums(i policy.Item) policy.Sums
	// Evidence is what is known of an item's payoffs by now, other sources' included where they are pooled. It is for people and
	// metrics: not every learner decides by it.
	Evidence(i policy.Item) policy.Evidence
	// SetSource sets what another source (a partition number) has of an item; it replaces what that source had before.
	// The sums must pass their Check.
	SetSource(source int32, i policy.Item, s policy.Sums)
	// Pooled tells which of Hashes have fields that other partitions' learners of the same name want to know.
	Pooled() []Pooled
	// SetSourceField sets what another source has in a field of a hash that is Pooled, in place of what it had before; a nil
	// value is a field that is gone. What makes no sense is passed over: the sender may be configured otherwise.
	SetSourceField(source int32, hash string, field, value []byte, items Translate)
	// Advance tells how far event time has come: the partition's watermark, in milliseconds. It is called from time to
	// time; what a learner does on a schedule, it does then.
	Advance(watermark int64)

	// Hashes names the learner's own hashes besides the items.
	Hashes() []string
	// LoadSums and LoadField restore stored state, in any order, before the first decision and after Grow. Sums must
	// pass their Check. LoadField fails on what Harvest cannot have written.
	LoadSums(i policy.Item, s policy.Sums)
	LoadField(hash string, field, value []byte) error
	// Loaded ends loading. It fails where fields are missing; the learner is not to be used then.
	Loaded() error
	// Harvest gives the changes since the last call.
	Harvest(r Recorder)

	// Status is for people and metrics.
	Status() Status
}

// Categorising is a learner that is told of items' categories, before decisions about them and before what becomes of these. The newest
// that it is told of an item holds. Those that look at none (features.Space) pass it over.
type Categorising interface {
	Categorise(i policy.Item, category string)
}

// Expecting is a learner whose decisions may have Expected, so that room is left for it in their records.
type Expecting interface {
	Expects() bool
}

// Attracting is a learner that may learn which share of impressions ends with a selection.
type Attracting interface {
	// ShareOnTop is the share of impressions with an item on top that end with a selection; false where it is not learned, or none
	// has ended yet.
	ShareOnTop(i policy.Item) (share float64, ok bool)
}

// Pooled is a hash whose fields are pooled over the partitions. Its name may not change.
type Pooled struct {
	Hash string
	// ByItem tells whether its fields name items by their numbers, which are each partition's own.
	ByItem bool
}

// Translate gives our own number of the item that another source numbers theirs; false where we have not heard of it.
type Translate func(theirs policy.Item) (ours policy.Item, ok bool)

// ShownWindows is how many windows a Status tells apart.
const ShownWindows = 20

// Status is a learner's condition at a glance.
type Status struct {
	Fed     int64       // payoffs fed to the policy
	Queued  int64       // payoffs that wait in QPM-D's queues
	OnHold  bool        // BASE waits for a payoff of HoldItem
	Item    policy.Item // the item waited for; meaningless unless OnHold
	Holds   int64       // holds begun since the process started
	Flights int64       // selections whose payoff is awaited; with instances, decisions whose impression has not ended

	Attraction AttractionStatus // the zero value where payoff per selection is the aim

	Silence SilenceStatus // of no more than the zero value where silence does not count before it is over
	Level   LevelStatus   // of Robust; the zero value elsewhere
	// Personal is of learners whose payoffs depend on more than the item; the zero value elsewhere.
	Personal ContextualStatus

	// Windows is the distribution of windows that decisions are made for: window 1, 2, … up to ShownWindows, and last
	// those beyond. Nil where it is of no use to the learner. It is not changed afterwards.
	Windows    []float64
	Selections int64 // that Windows may have been learned from, of all partitions; 0 where they are given

	Instances int64 // BASE instances that were ever needed at once, with BOLD
	Unfed     int64 // payoffs since the process started that no instance could be fed, see BOLD's Paid

	// Of a learner that finds the order of utilities itself; the counts since the process started.
	FindsUtilities bool
	UndecidedPairs int64 // pairs of items whose order is not certain
	BurnIn         int64 // impressions ranked so as to find the order
	Contradictions int64 // selections against an order that was certain
	Unrated        int64 // selections without the utility that utilities: social needs
}
