package event

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxFeatures is how many numbers a list of features may have. No learner declares as many.
const MaxFeatures = 64

// Context holds an impression's fields for contextual learners. Other learners do not read it, so a fault in it is no
// fault of the record for them.
type Context struct {
	Features   []float64          // the user's; NaN: null; empty: none are given
	Segment    []byte             // the name of the user's; empty: none is given
	Candidates []CandidateContext // by candidate; empty with a decoder that does not read contexts
	Fault      *Fault             // the first, nil: there is none
}

// CandidateContext is the part of one candidate.
type CandidateContext struct {
	Features  []float64 // NaN: null; empty: none are given
	Predicted float64   // expected by another model, in raw units; NaN: not given
	Category  []byte    // the name of the item's; empty: none is given
}

// Places of the fields of a context, in impressionFields and candidateFields. All from the first on are fields of a context.
const (
	contextFeatures   = 5
	contextSegment    = 6
	candidateFeatures = 2
	candidateCategory = 4
)

// WithContext makes the decoder read contexts too. A decoder without takes their fields for unknown ones.
func (d *Decoder) WithContext() *Decoder {
	d.impressionNames, d.candidateNames = impressionFields, candidateFields
	return d
}

// readsContext reports whether contexts are read.
func (d *Decoder) readsContext() bool { return len(d.impressionNames) > contextFeatures }

// candidateFaults are the faults of a candidate's context, by the index of the field behind candidateFeatures.
type candidateFaults [3]*Fault

// firstFault is the first that there is.
func firstFault(all ...*Fault) *Fault {
	for _, one := range all {
		if one != nil {
			return one
		}
	}
	return nil
}

// in takes a fault in a candidate's context, if there is one, as that of the whole where it is the first.
func (c *Context) in(f *Fault, candidate int) {
	if f != nil && c.Fault == nil {
		c.Fault = within(f, "candidates", candidate)
	}
}

// features reads the next value, a list of numbers. A null element is NaN; a null value is no list.
func (d *Decoder) features(p *parser) ([]float64, *Fault) {
	if !p.stands('[') {
		v := p.value()
		if v.kind == null {
			return nil, nil
		}
		return nil, v.wrongType("features", "an array")
	}
	var fault *Fault
	start, n := len(d.numbers), 0
	for more := p.enter(']'); more; more = p.next(']') {
		x, f := p.feature(n)
		if fault == nil {
			fault = f
		}
		if n++; n <= MaxFeatures {
			d.numbers = append(d.numbers, x)
		}
	}
	if n > MaxFeatures {
		fault = tooManyFeatures()
	}
	if fault != nil {
		return nil, fault
	}
	return d.listFrom(start), nil
}

// listFrom returns the numbers read since start; nil where there are none.
func (d *Decoder) listFrom(start int) []float64 {
	if end := len(d.numbers); end > start {
		return d.numbers[start:end:end]
	}
	return nil
}

// feature reads the number that is next, in a list.
func (p *parser) feature(i int) (float64, *Fault) {
	v := p.value()
	if v.kind == null {
		return math.NaN(), nil
	}
	x, f := v.float("number")
	if f != nil {
		return 0, inFeatures(f, i)
	}
	return x, nil
}

// inFeatures says which number of a list a fault is in.
func inFeatures(f *Fault, i int) *Fault {
	f.Pointer = ""
	return within(f, "features", i)
}

func tooManyFeatures() *Fault {
	return faultf(WrongFeatures, "features has more than %d numbers", MaxFeatures).at("features")
}

// candidateContext reads the value of a field of a candidate's context that is next.
func (d *Decoder) candidateContext(c *CandidateContext, p *parser, field int) (f *Fault) {
	if field == candidateFeatures {
		c.Features, f = d.features(p)
		return f
	}
	var v value
	p.member(&v)
	switch {
	case field == candidateCategory:
		c.Category, f = v.text("category")
	case v.kind != absent:
		c.Predicted, f = v.float("predicted")
	}
	return f
}

// protoFeatures reads numbers of a list, behind those that are read: packed, or one.
func (d *Decoder) protoFeatures(have []float64, f *protoField) ([]float64, *Fault) {
	start := len(d.numbers)
	d.numbers = append(d.numbers, have...)
	switch {
	case f.wire == protowire.Fixed64Type && len(have) < MaxFeatures:
		d.numbers = append(d.numbers, math.Float64frombits(f.bits))
	case f.wire == protowire.BytesType && len(f.bytes)%8 != 0:
		return nil, faultf(MalformedProtobuf, "features has %d bytes, not 8 for each number", len(f.bytes)).at("features")
	case f.wire == protowire.BytesType && len(have)+len(f.bytes)/8 <= MaxFeatures:
		for b := f.bytes; len(b) > 0; b = b[8:] {
			d.numbers = append(d.numbers, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case f.wire == protowire.BytesType || f.wire == protowire.Fixed64Type:
		return nil, tooManyFeatures()
	default:
		return nil, f.as(protowire.BytesType)
	}
	list := d.listFrom(start)
	for i, x := range list {
		if math.IsInf(x, 0) {
			return nil, inFeatures(faultf(NotFinite, "number is %v", x), i)
		}
	}
	return list, nil
}

// protoContext reads a field of a candidate's context. Of a list that is cut into parts the first fault stays.
func (d *Decoder) protoContext(c *CandidateContext, f *protoField) {
	faults := &d.unfit
	switch f.name {
	case "features":
		if faults[0] == nil {
			c.Features, faults[0] = d.protoFeatures(c.Features, f)
		}
	case "category":
		c.Category, faults[2] = f.text()
	default:
		if c.Predicted, faults[1] = f.float(); faults[1] == nil && math.IsInf(c.Predicted, 0) {
			faults[1] = finite(c.Predicted, "predicted")
		}
	}
}

// appendContext appends a candidate's context, behind its other fields.
func appendContext(dst []byte, c *CandidateContext) []byte {
	dst = appendFeatures(dst, c.Features)
	if !math.IsNaN(c.Predicted) {
		dst = appendFloat(append(dst, `,"predicted":`...), c.Predicted)
	}
	if len(c.Category) > 0 {
		dst = appendText(append(dst, `,"category":`...), c.Category)
	}
	return dst
}

func appendFeatures(dst []byte, features []float64) []byte {
	if len(features) == 0 {
		return dst
	}
	dst = append(dst, `,"features":[`...)
	for i, x := range features {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, x)
	}
	return append(dst, ']')
}

// appendProtoContext appends a candidate's context in Protobuf.
func appendProtoContext(dst []byte, c *CandidateContext) []byte {
	dst = appendProtoFeatures(dst, 3, c.Features)
	return appendProtoText(appendDouble(dst, 4, c.Predicted, !math.IsNaN(c.Predicted)), 5, c.Category)
}

// sizeProtoContext is how many bytes that takes.
func sizeProtoContext(c *CandidateContext) (size int) {
	if n := len(c.Features); n > 0 {
		size += protowire.SizeTag(3) + protowire.SizeBytes(8*n)
	}
	if !math.IsNaN(c.Predicted) {
		size += protowire.SizeTag(4) + protowire.SizeFixed64()
	}
	if n := len(c.Category); n > 0 {
		size += protowire.SizeTag(5) + protowire.SizeBytes(n)
	}
	return size
}

func appendProtoFeatures(dst []byte, number protowire.Number, features []float64) []byte {
	if len(features) == 0 {
		return dst
	}
	dst = protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(8*len(features)))
	for _, x := range features {
		dst = protowire.AppendFixed64(dst, math.Float64bits(x))
	}
	return dst
}
