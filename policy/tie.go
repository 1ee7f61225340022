package policy

// tie decides between two positions that are equal to a policy. Fewer selections in flight come first, so that a wait is not spent
// on one item, then a random draw of the decision. Two positions' draws always differ, since SplitMix64 is a bijection.
func (in *Input) tie(a, b int32) bool {
	if in.InFlight != nil {
		if fa, fb := in.InFlight.Pooled(in.Items[a]), in.InFlight.Pooled(in.Items[b]); fa != fb {
			return fa < fb
		}
	}
	return in.Key.Uint64(uint64(a)) < in.Key.Uint64(uint64(b))
}
