package policy

// Utility is a baseline: the users' own order, highest utility first. Each user selects their favourite, whatever their
// window; nothing is learned from payoffs.
type Utility struct{}

var utilityKind = Spec{Name: "utility", Colour: "#767d87", About: "the users' own order; learns nothing",
	Rank: func(*Parameters) (Policy, error) { return NewUtility(), nil }}

var _ Policy = (*Utility)(nil)

// NewUtility makes the policy.
func NewUtility() *Utility { return &Utility{} }

// Rank implements Policy. The leader is the item of the highest utility, and blocks all others.
func (*Utility) Rank(in *Input, _ *Workspace, dst []int32) {
	place(dst, 0, int32(len(in.Items))-1)
}
