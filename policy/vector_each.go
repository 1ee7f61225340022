package policy

import "math/bits"

// Each calls f with each known coordinate in ascending order.
func (v *Vector) Each(f func(coordinate int32, x float64)) {
	for number, b := range v.blocks {
		if b == nil {
			continue
		}
		for has := b.has; has != 0; has &= has - 1 {
			k := bits.TrailingZeros32(has)
			f(int32(number*VectorBlock+k), b.x[k])
		}
	}
}
