package policy

// Greedy is a baseline: the item with the largest empirical mean payoff leads. Items without payoffs lead before all others, those with the
// fewest selections in flight first, so that each is tried once. Regret is linear if the first payoffs mislead it. Ties in the mean go to
// fewer payoffs, then fewer in flight, then a random draw.
//
// For payoff per impression, Input.selection gives the mean.
type Greedy struct{}

var greedySpec = Spec{Name: "greedy", Colour: "#c68637", About: "the best mean so far", Contextual: true,
	Rank: func(*Parameters) (Policy, error) { return NewGreedy(), nil }}

var _ Policy = (*Greedy)(nil)

func NewGreedy() *Greedy { return &Greedy{} }

// Rank implements Policy in O(n): the leader of a suffix is its first item or the leader of the rest.
func (*Greedy) Rank(in *Input, ws *Workspace, dst []int32) {
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		mean, index := greedily(in, i)
		r.enter(i, mean, index)
	}
	ws.byMean(dst)
}

// greedily returns a candidate's mean and index.
func greedily(in *Input, k int32) (mean, index float64) {
	mean, weight := believed(in, k)
	payoff, worth := in.selection(k, Estimate{mean, weight})
	return mean, worth.of(payoff.Mean)
}
