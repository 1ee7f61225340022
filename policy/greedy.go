package policy

var greedySpec = Spec{Name: "greedy", Colour: "#c68637", About: "the best mean so far", Contextual: true,
	Rank: func(*Parameters) (Policy, error) { return NewGreedy(), nil }}

// NewGreedy returns a baseline: the item with the largest empirical mean payoff leads. Items without payoffs lead before all others, those with the
// fewest selections in flight first, so that each is tried once. Regret is linear if the first payoffs mislead it. Ties in the mean go to
// fewer payoffs, then fewer in flight, then a random draw.
//
// For payoff per impression, Input.selection gives the mean.
func NewGreedy() *Index {
	return &Index{belief: Unbelieving, of: (*common).payoff, rule: "the candidate with the highest mean payoff leads; unseen ones come first"}
}

// payoff returns a candidate's mean and index.
func (x *common) payoff(in *Input, k int32, _ float64) (mean, index float64) {
	mean, weight := x.at(in, k)
	payoff, worth := in.selection(k, Estimate{mean, weight})
	return mean, worth.of(payoff.Mean)
}
