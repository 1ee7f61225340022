package delay

import (
	"iter"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Learner is one learner of one partition. It is not safe for concurrent use.
type Learner interface {
	Pooling
	Optional
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

// Pooling lets a process keep pooled state once, and not for each partition. A global learner is made like a partition's; it decides
// nothing, receives no feedback, and reads the published state of every source, this process's partitions included. A partition's learner
// keeps its own state, and pooled values of items in which it differs from its published state.
//
// A partition's learner decides as one that reads all sources itself, except that the global one makes the estimates over all items
// and sources, when it reads a new tick. A learner without a global one knows no other source.
type Pooling interface {
	// Share makes the learner, which must be empty, a partition's below a global one; source is its number there, and number maps
	// its items to global numbers. It holds from Loaded on. From then on the global learner must not change
	// while a partition's learner is in use; BeginResync changes that of its source, too.
	Share(global Learner, source int32, number func(policy.Item) policy.Item)
	// Refresh reads the global learner again after a change. Arrived contains at least the items whose rows published by this
	// partition the global learner has read since the last Refresh.
	Refresh(arrived iter.Seq[policy.Item])
	// Unstored returns whether the next Harvest stores a global estimate; Refresh must be called before.
	Unstored() bool
	// BeGlobal makes the learner, which must be empty, a global one. Mark identifies items by numbers that are equal in all processes.
	BeGlobal(mark func(policy.Item) uint64)
	// SetSource replaces a source's sums of an item in the global learner; a source is a partition number. The sums must pass their Check.
	// It precedes fields about the item.
	SetSource(source int32, i policy.Item, s policy.Sums)
	// SetSourceField replaces a source's field of a pooled hash in the global learner; nil deletes it. A malformed value is no error,
	// since the sender's configuration may differ: it is ignored, or counts as nil.
	SetSourceField(source int32, hash string, field, value []byte, items Translate)
	// Commit ends a batch of updates to the global learner; items of its numbers are in use. It returns the estimates that are due.
	Commit(items int) (due Estimates)
	// Estimate makes estimates and values derived from them, after each Commit, also with none. It returns those made, which may be
	// more. Results depend on the present state only.
	Estimate(which Estimates) (made Estimates)
	// Makes returns all kinds that it can make.
	Makes() Estimates
	// AppendEstimate appends the global learner's last estimate, if any. TakeEstimate makes a global learner use one until it makes
	// its own, and returns the kinds that are in it; it fails if the text is malformed.
	AppendEstimate(dst []byte) []byte
	TakeEstimate(text []byte) (taken Estimates, err error)
	// Ended removes an item of a source from the global learner. Release frees an item that no source has; its number may be used again.
	Ended(source int32, i policy.Item)
	Release(i policy.Item)
	// BeginResync begins to read a source's whole state. EndResync removes fields by item for which read is false.
	BeginResync(source int32)
	EndResync(source int32, read func(hash string, i policy.Item) bool)
}

// Estimates is a set of kinds of global estimates.
type Estimates uint8

// The kinds of estimates. One that depends on others is made together with them.
const (
	OfSilence   Estimates = 1 << iota // delay distributions and payment shares
	OfVariances                       // variances of payoffs by cause; depends on OfSilence
	OfLevels                          // levels of all items over time; depends on OfSilence
	OfSpread                          // spread of payoffs around levels; depends on OfLevels, which depends on the last OfSpread
	OfWindows                         // distribution of attention windows
	OfChange                          // a change of effects that Commit has found; with OfVariances. A replay searches at fewer epochs, and may find others
)

// Optional has the methods that only some learners need. Plain's do nothing.
type Optional interface {
	// Categorise sets an item's category, before decisions and feedback about it; the latest holds.
	Categorise(i policy.Item, category string)
	// Meet notes an impression's items before Decide or Adopt, for the time since the learner first met them; at is its event time in
	// milliseconds, from which deadlines count.
	Meet(items []policy.Item, at int64)
	// Coefficients returns those of all features, the intercept first; nil where payoffs depend on the item alone.
	Coefficients() []Coefficient
	// Expects returns whether decisions may have Expected, so that records have room for it.
	Expects() bool
	// Reweigh sets the propensities of a ranking that the learner has not drawn, d.Order, or d.Ranks for one that finds the order of
	// utilities, if it can use them. They are probabilities given the ranking, not over rankings that could have been drawn.
	Reweigh(d *Decision)
	// ShareOnTop is the share of impressions with an item on top that end with a selection; false where it is not learned, or none
	// has ended yet.
	ShareOnTop(i policy.Item) (share float64, ok bool)
}

// Plain is part of learners that need few methods of Optional, or none.
type Plain struct{}

func (Plain) Categorise(policy.Item, string)                     {}
func (Plain) Meet([]policy.Item, int64)                          {}
func (Plain) Coefficients() []Coefficient                        { return nil }
func (Plain) Expects() bool                                      { return false }
func (Plain) Reweigh(*Decision)                                  {}
func (Plain) ShareOnTop(policy.Item) (share float64, known bool) { return 0, false }

// ItemRemoving is a Learner that can forget items, which frees their memory and their room in the store. Afterwards it decides as a
// learner that never had them, except for state that is not kept by item: windows and delay distributions. Numbers of items and
// totals of payoffs (policy.Table) are those of the remaining items.
type ItemRemoving interface {
	Learner
	// Forget drops an item's state, of this partition and of other sources. It may be called once for an item that has been loaded.
	// The number may not be used in any later call. The next Harvest deletes the stored fields and frees the memory.
	Forget(i policy.Item)
	// PaidForgotten replaces Paid for a forgotten item: only state that is not kept by item changes.
	PaidForgotten(fb Feedback)
	// Count sets the number of items, once it is below the number of item numbers that Grow has set.
	Count(items int)
}

// Readable is a Learner whose estimates other policies can decide by.
type Readable interface {
	Learner
	// DecideBy is Decide by another policy.
	DecideBy(p policy.Policy, candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision)
}
