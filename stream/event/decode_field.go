package event

import (
	"math"
	"strconv"

	"github.com/valyala/fastjson"
)

// text reads a string of at most MaxIDBytes; nil where v is.
func text(v *fastjson.Value, name string) ([]byte, *Fault) {
	b, f := longText(v, name)
	if f == nil && len(b) > MaxIDBytes {
		return nil, faultf(IDTooLong, "%s has %d bytes, at most %d are allowed", name, len(b), MaxIDBytes).at(name)
	}
	return b, f
}

// longText reads a string; nil where v is.
func longText(v *fastjson.Value, name string) ([]byte, *Fault) {
	if v == nil {
		return nil, nil
	}
	if v.Type() != fastjson.TypeString {
		return nil, wrongType(v, name, "a string")
	}
	return v.GetStringBytes(), nil
}

// moment reads a time; ok is false where v is nil.
func moment(v *fastjson.Value, name string) (t Millis, ok bool, f *Fault) {
	b, f := longText(v, name)
	if f != nil || v == nil {
		return 0, false, f
	}
	if t, ok = ParseTime(b); !ok {
		return 0, false, faultf(InvalidTime, "%s is %s, not a time as in 2026-11-21T10:00:00.000Z", name, quote(b)).at(name)
	}
	return t, true, nil
}

// float reads a number exactly: to the nearest float64. The library's own conversion rounds twice where there is an
// exponent.
func (d *Decoder) float(v *fastjson.Value, name string) (float64, *Fault) {
	if v.Type() != fastjson.TypeNumber {
		return 0, wrongType(v, name, "a number")
	}
	d.number = v.MarshalTo(d.number[:0])
	x, err := strconv.ParseFloat(string(d.number), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, faultf(NotFinite, "%s is %s, beyond what a float64 holds", name, quote(d.number)).at(name)
	}
	return x, nil
}

// array reads the elements of an array; none where v is nil.
func array(v *fastjson.Value, name string) ([]*fastjson.Value, *Fault) {
	if v == nil {
		return nil, nil
	}
	if v.Type() != fastjson.TypeArray {
		return nil, wrongType(v, name, "an array")
	}
	return v.GetArray(), nil
}

func wrongType(v *fastjson.Value, name, want string) *Fault {
	return faultf(WrongType, "%s is not %s but: %s", name, want, v.Type()).at(name)
}
