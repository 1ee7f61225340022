package features

import "math"

// Quantise returns the number's step in its range, −127 to 127; clamped if it lies outside. NaN, for missing, is in the middle.
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
	if half == 0 { // a range of denormal numbers
		return 0, clamped
	}
	return int8(math.Round(min(max((v-middle)/half, -1), 1) * One)), clamped
}

// SignedLog returns sign(v)·log(1+|v|).
func SignedLog(v float64) float64 { return math.Copysign(math.Log1p(math.Abs(v)), v) }

// QuantiseUser appends the steps of a user's numbers, one for each of User. Bit k of clamped is set if number k was out of range.
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

// QuantiseItem appends the steps of a candidate's features, one for each of Item. numbers holds those in a candidate's own list
// (Given) in declared order; utility and predicted are used if declared. Bits of clamped are by index in Item.
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

// Vector appends the Width coordinates of a user's and a candidate's steps. Products are rounded once to the nearest; since One is
// odd there are no ties.
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
