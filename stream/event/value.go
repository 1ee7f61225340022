package event

import (
	"math"
	"strconv"
)

// text returns a string of at most MaxIDBytes; nil if absent.
func (v *value) text(name string) ([]byte, *Fault) {
	b, f := v.longText(name)
	if f == nil && len(b) > MaxIDBytes {
		return nil, faultf(IDTooLong, "%s has %d bytes, at most %d are allowed", name, len(b), MaxIDBytes).at(name)
	}
	return b, f
}

// longText returns a string; nil if absent.
func (v *value) longText(name string) ([]byte, *Fault) {
	switch v.kind {
	case absent:
		return nil, nil
	case text:
		return v.raw, nil
	}
	return nil, v.wrongType(name, "a string")
}

func (v *value) moment(name string) (Millis, *Fault) {
	b, f := v.longText(name)
	if f != nil {
		return 0, f
	}
	t, ok := ParseTime(b)
	if !ok {
		return 0, faultf(InvalidTime, "%s is %s, not a time as in 2026-11-21T10:00:00.000Z", name, quote(b)).at(name)
	}
	return t, nil
}

func (v *value) float(name string) (float64, *Fault) {
	if v.kind != number {
		return 0, v.wrongType(name, "a number")
	}
	if v.decimal.short {
		return v.decimal.float(), nil
	}
	x, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, faultf(NotFinite, "%s is %s, beyond the range of a float64", name, quote(v.raw)).at(name)
	}
	return x, nil
}

// integer stores a number, written as an integer from low on, in an *int64, or one below 2³¹ in an *int or *int32.
func (v *value) integer(name string, low int64, dst any) *Fault {
	if v.kind != number {
		return v.wrongType(name, "a number")
	}
	high := int64(math.MaxInt32)
	if _, wide := dst.(*int64); wide {
		high = math.MaxInt64
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil || n < low || n > high {
		return faultf(WrongType, "%s is %s, not an integer from %d to %d", name, quote(v.raw), low, high)
	}
	switch p := dst.(type) {
	case *int:
		*p = int(n)
	case *int32:
		*p = int32(n)
	case *int64:
		*p = n
	}
	return nil
}

// item returns the required field "item".
func (v *value) item() ([]byte, *Fault) {
	item, f := v.text("item")
	if f == nil && len(item) == 0 {
		return nil, missingItem()
	}
	return item, f
}

// elements calls each with the elements of an array; not at all if it is absent. The array was read before, hence is valid.
func (v *value) elements(name string, each func(i int, e value) *Fault) *Fault {
	switch v.kind {
	case absent:
		return nil
	case array:
	default:
		return v.wrongType(name, "an array")
	}
	p, i := parser{b: v.raw}, 0
	for more := p.enter(']'); more; more = p.next(']') {
		if f := each(i, p.value()); f != nil {
			return f
		}
		i++
	}
	return nil
}

func (v *value) wrongType(name, want string) *Fault {
	return faultf(WrongType, "%s is not %s but: %s", name, want, v.kind).at(name)
}
