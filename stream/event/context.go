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

// WithContext makes the decoder read contexts. Without it their fields count as unknown.
func (d *Decoder) WithContext() *Decoder {
	d.impressionNames, d.candidateNames = impressions.names, candidates.names
	return d
}

func (d *Decoder) readsContext() bool { return len(d.impressionNames) > contextFeatures }

// noted records a fault, unless there is an earlier one.
func (c *Context) noted(f *Fault) {
	if c.Fault == nil {
		c.Fault = f
	}
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

// protoFeatures appends numbers of a list, packed or single. A list may come in any number of pieces: only one that is not read last is copied.
func (d *Decoder) protoFeatures(have []float64, f *protoField) ([]float64, *Fault) {
	start := len(d.numbers) - len(have)
	if len(have) > 0 && (start < 0 || &d.numbers[start] != &have[0]) {
		start = len(d.numbers)
		d.numbers = append(d.numbers, have...)
	}
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

// protoUserFeatures reads a piece of the user's features. The first fault stays.
func (d *Decoder) protoUserFeatures(dst *Impression, part protoField) *Fault {
	if c := &dst.Context; c.Fault == nil {
		c.Features, c.Fault = d.protoFeatures(c.Features, &part)
	}
	return nil
}

func (d *Decoder) protoSegment(dst *Impression, part protoField) (f *Fault) {
	dst.Context.Segment, f = part.text()
	dst.Context.noted(f)
	return nil
}

// protoContext reads a part of a candidate's context. Only the last prediction has to be finite, so the caller checks that.
func (d *Decoder) protoContext(dst *Context, candidate int, part *protoField) {
	var f *Fault
	switch c := &dst.Candidates[candidate]; part.row {
	case candidateFeatures:
		c.Features, f = d.protoFeatures(c.Features, part)
	case candidatePredicted:
		c.Predicted, f = part.float()
	case candidateCategory:
		c.Category, f = part.text()
	}
	dst.in(f, candidate)
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
	return appendList(dst, `,"features":[`, features, appendFloat)
}

func appendProtoContext(dst []byte, c *CandidateContext) []byte {
	dst = appendProtoFeatures(dst, candidateFeatures+1, c.Features)
	if !math.IsNaN(c.Predicted) {
		dst = appendDouble(dst, candidatePredicted+1, c.Predicted)
	}
	return appendProtoText(dst, candidateCategory+1, c.Category)
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
