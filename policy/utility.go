package policy

// Utility is a baseline: the users' own order, highest utility first, which everybody selects first. It learns nothing.
type Utility struct{}

var utilitySpec = Spec{Name: "utility", Colour: "#767d87", About: "the users' own order; learns nothing",
	Rank: func(*Parameters) (Policy, error) { return NewUtility(), nil }}

var _ Policy = (*Utility)(nil)

func NewUtility() *Utility { return &Utility{} }

// Rank implements Policy. The item of the highest utility leads, and blocks all others.
func (*Utility) Rank(in *Input, _ *Workspace, dst []int32) {
	place(dst, 0, int32(len(in.Items))-1)
}
