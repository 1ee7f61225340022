package policy

// Item is a learner's number of an item: dense, from 0, never reused within one partition's learner.
type Item = int32

// Sums are the additive statistics of one item.
type Sums struct {
	N int64   // payoffs fed (N_i)
	R float64 // their sum (R_i), in normalised units
	Q float64 // the sum of their squares
}

type Input struct {
	// Items are the candidates in increasing utility, distinct and at least one.
	Items []Item
	// Table holds the statistics of at least these items.
	Table *Table
	// InFlight counts selections in flight by item; nil if the learner does not. Among equal items policies prefer fewer.
	InFlight Counts
	// Context is the impression's segment and features, for contextual learners; nil for others.
	Context *Context
	// Known holds a contextual learner's estimates in place of Table's; nil for others.
	Known *Known
	Key   Key
}

// Counts are numbers by item.
type Counts interface {
	Pooled(i Item) Count
}

type Policy interface {
	// Rank fills dst, as long as in.Items, with positions in in.Items in the order shown. It does not allocate once ws has grown to
	// n, and leaves in unchanged.
	Rank(in *Input, ws *Workspace, dst []int32)
}
