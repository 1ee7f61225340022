package features

import "math"

// Quantise is the number as one of the steps −127 to 127 of the feature's range; clamped tells whether it lies outside. What is missing,
// NaN, is in the middle.
func (f *Feature) Quantise(v float64) (step int8, clamped bool) {
	if math.IsNaN(v) {
		return 0, false
	}
	if v < f.Low || v > f.High {
		v, clamped = min(max(v, f.Low), f.High), true
	}
	low, high := f.Low, f.High
	if f.Log {
		v, low, high = SignedLog(v), SignedLog(low), SignedLog(high)
	}
	middle, half := low/2+high/2, high/2-low/2
	if half == 0 { // of a range of denormal numbers
		return 0, clamped
	}
	return int8(math.Round(min(max((v-middle)/half, -1), 1) * One)), clamped
}

// SignedLog is sign(v)·log(1+|v|).
func SignedLog(v float64) float64 { return math.Copysign(math.Log1p(math.Abs(v)), v) }

// QuantiseUser appends the steps of a user's numbers, as many as User has features. Bit k of clamped is set where number k was outside
// its range.
func (s *Space) QuantiseUser(dst []int8, numbers []float64) (_ []int8, clamped uint64) {
	for k := range s.declared.User {
		step, outside := s.declared.User[k].Quantise(numbers[k])
		dst = append(dst, step)
		if outside {
			clamped |= 1 << k
		}
	}
	return dst, clamped
}

// QuantiseItem appends the steps of a candidate's numbers, as many as Item has features: Given of them are numbers, in the order
// declared, and the others are its utility and what the platform predicts of it, which mean nothing where they are not declared. Bits of
// clamped are by the place in Item.
func (s *Space) QuantiseItem(dst []int8, numbers []float64, utility, predicted float64) (_ []int8, clamped uint64) {
	given := 0
	for k := range s.declared.Item {
		var v float64
		switch k {
		case s.utility:
			v = utility
		case s.predicted:
			v = predicted
		default:
			v = numbers[given]
			given++
		}
		step, outside := s.declared.Item[k].Quantise(v)
		dst = append(dst, step)
		if outside {
			clamped |= 1 << k
		}
	}
	return dst, clamped
}

// Vector appends the Width coordinates of a user's and a candidate's steps, as many as User and Item have features. A product is rounded
// once, to the nearest; there are no ties, for One is odd.
func (s *Space) Vector(dst []int8, user, item []int8) []int8 {
	if len(user) != len(s.declared.User) || len(item) != len(s.declared.Item) {
		panic("features: a vector of other numbers than were declared")
	}
	from := len(dst)
	dst = append(dst, One)
	for _, steps := range [...][]int8{user, item} {
		for _, k := range steps {
			dst = append(dst, max(k, -One))
		}
	}
	for _, c := range s.cross {
		dst = append(dst, product(dst[from+int(c[0])], dst[from+int(c[1])]))
	}
	return dst
}

func product(a, b int8) int8 {
	p := int(a) * int(b)
	if p < 0 {
		return int8((p - One/2) / One)
	}
	return int8((p + One/2) / One)
}
