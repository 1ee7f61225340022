package event

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxFeatures bounds the length of a list of features. No learner declares as many.
const MaxFeatures = 64

// Context holds an impression's fields for contextual learners. Others do not read it, so its faults are not theirs.
type Context struct {
	Features   []float64          // of the user; NaN: null; empty: none
	Segment    []byte             // the user's; empty: none
	Candidates []CandidateContext // by candidate; empty if the decoder reads no contexts
	Fault      *Fault             // the first one; nil: none
}

type CandidateContext struct {
	Features  []float64 // NaN: null; empty: none
	Predicted float64   // another model's expected payoff, in raw units; NaN: none
	Category  []byte    // the item's; empty: none
}

// Indexes in impressionFields and candidateFields. All fields from the first of these on belong to contexts.
const (
	contextFeatures   = 5
	contextSegment    = 6
	candidateFeatures = 2
	candidateCategory = 4
)

// WithContext makes the decoder read contexts. Without it their fields count as unknown.
func (d *Decoder) WithContext() *Decoder {
	d.impressionNames, d.candidateNames = impressionFields, candidateFields
	return d
}

func (d *Decoder) readsContext() bool { return len(d.impressionNames) > contextFeatures }

// candidateFaults are the faults of a candidate's context, by the index of the field behind candidateFeatures.
type candidateFaults [3]*Fault

func firstFault(all ...*Fault) *Fault {
	for _, one := range all {
		if one != nil {
			return one
		}
	}
	return nil
}

// in records a fault in a candidate's context, unless there is an earlier one.
func (c *Context) in(f *Fault, candidate int) {
	if f != nil && c.Fault == nil {
		c.Fault = within(f, "candidates", candidate)
	}
}

// features reads a list of numbers. A null element is NaN; a null value is no list.
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

// listFrom returns the numbers read since start; nil for none.
func (d *Decoder) listFrom(start int) []float64 {
	if end := len(d.numbers); end > start {
		return d.numbers[start:end:end]
	}
	return nil
}

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

// inFeatures adds a list index to a fault.
func inFeatures(f *Fault, i int) *Fault {
	f.Pointer = ""
	return within(f, "features", i)
}

func tooManyFeatures() *Fault {
	return faultf(WrongFeatures, "features has more than %d numbers", MaxFeatures).at("features")
}

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

// protoFeatures appends numbers of a list, packed or single.
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

// protoContext reads a field of a candidate's context. For a list in several pieces the first fault stays.
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

func appendProtoContext(dst []byte, c *CandidateContext) []byte {
	dst = appendProtoFeatures(dst, 3, c.Features)
	return appendProtoText(appendDouble(dst, 4, c.Predicted, !math.IsNaN(c.Predicted)), 5, c.Category)
}

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
