package policy

// Each calls f with each known coordinate in ascending order.
func (v *Vector) Each(f func(coordinate int32, x float64)) {
	for c, x := range v.x.All() {
		f(c, *x)
	}
}
