package policy

// Item is a learner's own number of an item: dense, from 0, never reused within one partition's learner.
type Item = int32

// Sums are the additive statistics of one item.
type Sums struct {
	N int64   // payoffs fed (N_i)
	R float64 // their sum (R_i), in normalised units
	Q float64 // the sum of their squares
}

// Input is one impression as a policy sees it.
type Input struct {
	// Items are the candidates, labelled in increasing utility: Items[0] has the lowest. Never empty, no item twice.
	Items []Item
	// Table holds the statistics of at least all of Items.
	Table *Table
	// InFlight counts, per item of the table, the selections whose payoff is still awaited. Nil when the delay
	// handling does not count them. Of items that are otherwise alike, policies prefer those with fewer.
	InFlight Counts
	// Context is what else is known of the impression, for a learner whose candidates are worth different things to different
	// users; nil for all others.
	Context *Context
	// Known is what is known of the candidates instead of what Table says, as such a learner finds out; nil for all others. Policies
	// that take payoffs as they arrive, and no windows, go by it.
	Known *Known
	// Key draws the random numbers of this decision.
	Key Key
}

// Counts are numbers of something, by item.
type Counts interface {
	Pooled(i Item) Count
}

// Policy ranks candidates from statistics.
type Policy interface {
	// Rank fills dst, which is as long as in.Items, with a permutation of 0..n-1: the positions in in.Items in
	// the order in which they are shown. It does not allocate once ws has grown to n, and it leaves in unchanged.
	Rank(in *Input, ws *Workspace, dst []int32)
}
