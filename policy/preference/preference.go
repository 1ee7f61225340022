package preference

import (
	"errors"

	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrState says that a stored field is not what this package writes.
var ErrState = errors.New("preference: stored state is faulty")

// Finder finds the order of utilities of one learner's items. It is not safe for concurrent use.
//
// What it stores are sums that every source (partition) keeps of its own selections; what it knows is a function of all
// sources' sums, however they came about. A selection changes the sums in a way that depends on its Selection alone.
type Finder interface {
	// Grow tells how many items there are: 0..items-1 exist from now on.
	Grow(items int)
	// Sort fills order, which is as long as candidates, with positions in candidates in increasing utility as far as
	// that is known, and in a random order beyond. It appends to undecided, in ascending order, each rank r (1 to
	// n-1) for which it is not certain that the item at rank r has a higher utility than that at rank r-1. When it appends
	// none, the order is certain. It does not allocate in steady state.
	Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32
	// Explore fills shown, which is as long as items, with the ranks in the order in which they are to be shown so as to
	// learn more. The items are in the order of Sort, and undecided is what it told of them, and not empty.
	Explore(items []policy.Item, undecided []int32, key policy.Key, shown []int32)
	// Selected takes in what a user selected.
	Selected(s *Selection)
	// Advance tells how far event time has come, in milliseconds. What is done on a schedule is done then.
	Advance(watermark int64)

	// Hash names the hash that the state is stored in.
	Hash() string
	// Harvest hands out the fields of one's own that have changed since the last call, as absolute values. The slices are
	// valid during the call only.
	Harvest(f func(field, value []byte))
	// Load restores a field, in any order, after Grow; Loaded ends loading.
	Load(field, value []byte) error
	Loaded()
	// SetSource sets what another source has in a field, in place of what it had before; a nil value is a field that is gone.
	// What makes no sense, or names items that items does not know, is passed over.
	SetSource(source int32, field, value []byte, items func(theirs policy.Item) (ours policy.Item, ok bool))

	// Merge adds what another Finder of the same kind has of its own to our own; numbers gives our number, below that which
	// Grow told of, for each of its items. It fails with ErrMerge.
	Merge(from Finder, numbers []policy.Item) error

	// Status is for people and metrics.
	Status() Status
	// Report fills r with the order found so far.
	Report(r *Report)
}

// Selection is what a user selected from what was shown.
type Selection struct {
	// Items are the candidates in the order that Sort found at the decision, and Order holds their ranks in the order
	// shown. Where Order is empty that order is not known, and Items are in the order shown.
	Items []policy.Item
	Order []int32
	// Undecided is what Sort told at the decision.
	Undecided []int32
	// At is the position shown, from 0, of what was selected.
	At int
	// Utility is the user's own estimate of what was selected, where HasUtility is true.
	Utility    float64
	HasUtility bool
}

// selected is the item.
func (s *Selection) selected() policy.Item { return s.shown(s.At) }

// shown is the item at a position shown.
func (s *Selection) shown(at int) policy.Item {
	if len(s.Order) == 0 {
		return s.Items[at]
	}
	return s.Items[s.Order[at]]
}

// Status is the condition of a Finder at a glance.
type Status struct {
	Undecided      int64 // pairs of items known so far whose order is not certain
	Contradictions int64 // since the process started: selections against what was certain
	Unused         int64 // since the process started: selections that taught nothing, for want of a utility
}

// Report is the order found so far.
type Report struct {
	// Items are all items in increasing utility, as far as it is known.
	Items []policy.Item
	// Undecided holds the ranks in Items whose item is not certain to be above the one before.
	Undecided []int32
	Status    Status
	// Expected is about how many more selections it takes until all is certain: a rule of thumb for windows as in the
	// bench of this package, not a bound.
	Expected float64
}

// Decimal places of what Explore draws: those of Sort are the candidates' positions.
const (
	drawKind = 1<<32 + iota
	drawStart
	drawSwap
	drawRest
	drawShuffle
)
