package delay

import (
	"errors"
	"math"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// ErrContextual is wrapped by errors about a contextual learner's settings.
var ErrContextual = errors.New("delay: settings of features are faulty")

// ContextualConfig configures NewContextual.
type ContextualConfig struct {
	Space *features.Space
	// Silence.Horizon bounds the age of payoffs and sets the bucket length. Payoffs before a detected change do not count.
	Silence Silence
	// Expires says that an unpaid selection counts as Silence.Default, at the horizon or sooner. Changes within the last horizon
	// are then not detected, since its payoffs are incomplete.
	Expires bool
	// Belief gives σ. Its prior is EmpiricalPrior; or NoPrior with a given Sigma, where items have no means of their own and
	// payoffs depend on features only.
	Belief policy.Belief
}

// contexts are the group statistics of a contextual learner.
//
// A cell is an item for users of one segment at one level of the clock; without segments and clock it is the item. A cell sums its
// payoffs and features, paid and in flight. Linear sums are over all cells. All are integers, by source. The model pools cells by
// group (grouping). It is a function of the sums, the items' evidence and categories, and the time of the last fit, which is
// stored. In a partition's learner, the global one (Pooling) holds other sources' sums and makes the fits.
type contexts struct {
	model      *contextual.Model
	names      []string
	dim        int
	declared   int    // coordinates without products
	middle     []int8 // features of a user without any
	known      policy.Known
	mean       []float64
	categories categories
	met        met
	x          []int8 // scratch for one vector
	width      int    // of vectors without age

	segments int32 // cell = item·segments + segment
	grouping
	own     policy.Pages[cellRows]
	pooled  policy.Pages[cellSums] // by group, over all sources; empty with a global learner
	awaited policy.Pages[int64]    // by item, of all sources; with a global learner, our own
	linear  paidLinear             // of this partition
	grid    inflight.Scheme
	tick    int64                // tick of our own newest fed selection
	theirs  map[int32]*theirSums // by source
	sums    cellSums             // scratch for one cell
	shared
	turning
	silent        silentCells
	weigh         func(policy.Item) // Table.Weigh: below a global learner, items whose cells differ are fresh
	stale         policy.Changes    // items whose weight in flight has changed since it was set in the model
	changedGroups policy.Changes    // groups likewise
	cells         policy.Changes    // own cells changed since the last harvest
	newData       bool              // since the last check whether a fit is due
	unstored      bool              // the fit has not been harvested
	unfed         int64             // payoffs without features, since the process started
	fits          int64             // since the process started
}

// shared links a partition's contextual learner to the global one (Pooling).
//
// The numbers of nodes in a partition's model are the global ones. Its model holds only cells in which it differs from the global
// learner, or whose items do.
type shared struct {
	global   *contexts
	source   int32
	number   func(policy.Item) policy.Item
	readFits int64 // number of the global fits read

	isGlobal bool
	coming   map[int32]*theirSums // by source, during its resync
	votes    map[int32]int        // scratch, by category
}

// turning searches for the time of a change in the effects of features and items. Later only payoffs of selections from that time
// on count. The time is part of the fit (contextual.Model.Since). A search runs at each tick of the newest paid selection.
type turning struct {
	settles int64 // ms after which a selection's outcome is a fair sample
	period  int64 // ms, of the clock: both sides of a cut are longer, since a change within a period may return
	looked  int64 // tick of the last search
	begins  int64 // the time that the last call of seek found; inflight.Never: none
	turns   int64 // changes found since the process started
}

func newContexts(c *ContextualConfig) *contexts {
	s := c.Space
	dim := s.Dim()
	u := &contexts{dim: dim, declared: s.Declared(), names: s.Names(), grid: inflight.NewCoarseScheme(max(1, c.Silence.Horizon)), tick: inflight.Never, middle: make([]int8, dim), segments: int32(s.Segments()),
		theirs: map[int32]*theirSums{}, mean: make([]float64, dim), sums: cellSums{s: make([]int64, dim), awaitedSums: awaitedSums{x: make([]int64, dim)}}}
	u.coming, u.votes = map[int32]*theirSums{}, map[int32]int{}
	u.grouping = newGrouping(s)
	u.middle[0] = features.One
	if u.looked = inflight.Never; c.Expires {
		u.settles = c.Silence.Horizon
	}
	u.period = s.Clock().Period()
	u.categories.look = s.Categories()
	u.met, u.width = newMet(s, func(i policy.Item) bool { return u.awaited.Get(i) > 0 }), s.Width()
	return u
}

// cell returns the number of a cell; false beyond the largest int32, which is after 16 million items of 127 segments, or 12 million
// with 168 levels of the clock. Nothing is learned there.
func (u *contexts) cell(i policy.Item, segment int32) (int32, bool) {
	if segment < 0 || segment >= u.segments {
		segment = 0
	}
	if i >= math.MaxInt32/u.segments {
		return -1, false
	}
	return i*u.segments + segment, true
}

func (u *contexts) eachCell(i policy.Item, do func(cell int32)) {
	if first, ok := u.cell(i, 0); ok {
		for cell := first; cell < first+u.segments; cell++ {
			do(cell)
		}
	}
}

// itemOf returns the item of a cell; -1 for cell -1.
func (u *contexts) itemOf(cell int32) policy.Item {
	if cell < 0 {
		return -1
	}
	return cell / u.segments
}

// items returns the level of items in the model.
func (u *contexts) items() int {
	if u.segments > 1 {
		return 1
	}
	return 0
}

// numberOf returns an item's number in the model.
func (u *contexts) numberOf(i policy.Item) policy.Item {
	if u.global == nil {
		return i
	}
	return u.number(i)
}

// kindOf returns the number of an item's category; n is the item's number in the model. The global learner's category applies once
// it has data of the item. Until then our own does, by a number that is unused there if the category is unknown.
func (u *contexts) kindOf(i, n policy.Item) int32 {
	if u.global == nil || !u.model.Heeds() {
		return u.categories.of(i)
	}
	w := u.global
	if kind := w.categories.of(n); kind != 0 || w.model.Holds(u.items(), n) {
		return kind
	}
	ours := u.categories.of(i)
	if ours == 0 {
		return 0
	}
	if theirs, known := w.categories.byName[u.categories.name(i)]; known {
		return theirs
	}
	return int32(len(w.categories.all)) + ours
}

// path returns an item's place in the model, for a group of cells within it. It is false where the item has no number.
func (u *contexts) path(i policy.Item, within int32) (at contextual.Path, ok bool) {
	n := u.numberOf(i)
	if _, ok = u.cell(n, 0); !ok {
		return contextual.Path{-1, -1, -1}, false
	}
	at[0] = n*u.groups + within
	at[u.items()] = n
	if u.categories.look {
		at[u.items()+1] = u.kindOf(i, n)
	}
	return at, true
}

// within returns the place of a segment's group within its item.
func (u *contexts) within(segment int32) int32 {
	if segment < 0 || segment >= u.segments {
		segment = 0
	}
	return u.place[segment]
}

func (u *contexts) groupOf(cell int32) int32 {
	return u.itemOf(cell)*u.groups + u.place[cell%u.segments]
}

func (u *contexts) eachGroup(i policy.Item, do func(group int32)) {
	if _, ok := u.cell(i, 0); ok {
		for at := range u.groups {
			do(i*u.groups + at)
		}
	}
}

// note marks a cell's group, and its item's weight in flight, as changed.
func (u *contexts) note(cell int32) {
	u.changedGroups.Note(u.groupOf(cell), 1)
	if u.groups > 1 {
		u.stale.Note(u.itemOf(cell), 1)
	}
}

// vector appends the item's age at an event time to given features, if age is a feature. It is valid until the next call.
func (u *contexts) vector(given []int8, i policy.Item, began int64) []int8 {
	if !u.met.space.HasAge() {
		return given
	}
	var age int64
	if first := int64(u.met.Own(i)); first > 0 {
		age = began - first
	}
	u.x = u.met.space.AppendAge(append(u.x[:0], given...), age)
	return u.x
}

// row returns a candidate's features; without any, those in the middle of their ranges.
func (u *contexts) row(about *policy.Context, at, candidates int, i policy.Item) []int8 {
	if x := about.Row(at, candidates); len(x) == u.width {
		return u.vector(x, i, about.At)
	}
	return u.middle
}
