package preference

import (
	"errors"

	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrState is wrapped by errors about malformed stored fields.
var ErrState = errors.New("preference: stored state is faulty")

// Finder learns the order of utilities of a learner's items. It is not safe for concurrent use.
//
// Its state is sums by source (partition), and its order a function of all. A selection's change depends on its Selection alone.
type Finder interface {
	Pooling
	// Grow sets the number of items: 0..items-1 exist from now on.
	Grow(items int)
	// Sort fills order, as long as candidates, with positions in increasing utility as far as it is known, and in random order
	// beyond. It appends to undecided, ascending, each rank r in 1..n-1 whose item is not certain to exceed that at r-1. If there is
	// none, the order is certain. Beyond the finder's budget it appends 0 alone: the order is a guess, not to be explored. It does not
	// allocate in steady state.
	Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32
	// Explore fills shown, as long as items, with ranks in an order that teaches. items and undecided, which Explores, are Sort's.
	Explore(items []policy.Item, undecided []int32, key policy.Key, shown []int32)
	// Selected learns from a selection.
	Selected(s *Selection)
	// Advance sets the watermark in milliseconds of event time. Scheduled work is done in it.
	Advance(watermark int64)

	// Hash returns the name of its stored hash.
	Hash() string
	// Harvest reports this partition's fields changed since the last call, as absolute values. The slices are valid only during the call.
	Harvest(f func(field, value []byte))
	// Load restores a field, in any order, after Grow; Loaded ends loading. Load fails with ErrState.
	Load(field, value []byte) error
	Loaded()
	// Merge adds another Finder's own sums to ours; numbers maps its items to our numbers. It fails with ErrMerge.
	Merge(from Finder, numbers []policy.Item) error

	Status() Status
	Report(r *Report)
}

// Pooling lets the partitions of a process share the order. A global Finder reads the fields of every source, and makes the order. The
// partitions' own ones add their selections to their own sums, and decide by the global order: their selections are in it once their fields
// have been published and read.
type Pooling interface {
	// Share puts the Finder, which must be empty, below a global one; number maps its items to global numbers. Loaded follows. The global
	// one must not change while it is used.
	Share(global Finder, number func(policy.Item) policy.Item)
	// BeGlobal makes the Finder, which must be empty, a global one. Mark identifies items by numbers that are equal in all processes.
	BeGlobal(mark func(policy.Item) uint64)
	// SetSource replaces a source's field; nil deletes it. Malformed values and unknown items are ignored.
	SetSource(source int32, field, value []byte, items func(theirs policy.Item) (ours policy.Item, ok bool))
	// Commit ends a batch of changes to a global Finder, of so many items.
	Commit(items int)
	// BeginResync begins to read a source's whole state. EndResync removes fields that were not read; read returns whether one of an
	// item was.
	BeginResync(source int32)
	EndResync(source int32, read func(policy.Item) bool)
}

// Explores returns whether a result of Sort asks for Explore: some rank is undecided, and the order is no guess.
func Explores(undecided []int32) bool { return len(undecided) > 0 && undecided[0] > 0 }

// Selection is a user's selection from a ranking.
type Selection struct {
	// Items are in Sort's order at the decision, Order their ranks in the order shown. If Order is empty, Items are as shown.
	Items []policy.Item
	Order []int32
	// Undecided is Sort's result at the decision.
	Undecided []int32
	// At is the selection's position shown, from 0.
	At int
	// Utility is the user's own rating of the selection, if HasUtility.
	Utility    float64
	HasUtility bool
}

func (s *Selection) selected() policy.Item { return s.shown(s.At) }

func (s *Selection) shown(at int) policy.Item {
	if len(s.Order) == 0 {
		return s.Items[at]
	}
	return s.Items[s.Order[at]]
}

// Status is a summary of a Finder's state.
type Status struct {
	Undecided      int64 // pairs of known items whose order is not certain
	Contradictions int64 // since the process started: selections against a certain order
	Unused         int64 // since the process started: selections without the utility needed
}

// Report is the order found so far.
type Report struct {
	// Items are all items in increasing utility, as far as it is known.
	Items []policy.Item
	// Undecided are the ranks in Items whose item is not certain to exceed the one before.
	Undecided []int32
	Status    Status
	// Expected is a rough number of selections until all is certain, a rule of thumb from this package's benchmark.
	Expected float64
}

// Counters of draws, beyond those of policies: a policy decides with the same key, and its propensities hold for any order found.
const (
	drawTie  = 1 << 40 // and each candidate's position
	drawKind = 1<<41 + iota
	drawStart
	drawSwap
	drawRest
	drawShuffle
)
