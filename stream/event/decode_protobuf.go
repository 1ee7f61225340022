package event

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoField is one field of a message: names[i] has number i+1 in docs/schemas/ranker.proto. Its wire type decides whether bytes or number
// is set.
type protoField struct {
	name  string // "" for one that is not ours
	row   int    // of its table
	wire  protowire.Type
	bytes []byte
	bits  uint64
}

// nextField reads a message's first field. The result aliases b. Unknown fields and groups are skipped.
func nextField(b []byte, names []string) (f protoField, rest []byte, fault *Fault) {
	number, wire, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber { // ConsumeTag passes greater ones
		return f, nil, malformedProtobuf("a field's number: " + parseError(n))
	}
	b = b[n:]
	f.wire = wire
	if int(number) <= len(names) {
		f.row = int(number) - 1
		f.name = names[f.row]
	}
	switch wire {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(number, wire, b)
	}
	if n < 0 {
		return f, nil, malformedProtobuf("field " + strconv.Itoa(int(number)) + ": " + parseError(n))
	}
	return f, b[n:], nil
}

// parseError replaces the library's messages, which differ from build to build on purpose.
func parseError(code int) string {
	if errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) {
		return "the value ends within it"
	}
	return "it is not one of Protobuf's"
}

func malformedProtobuf(what string) *Fault { return faultf(MalformedProtobuf, "%s", what) }

var wireNames = [...]string{"a varint", "64 bits", "bytes", "a group", "a group's end", "32 bits"}

// as checks the field's wire type.
func (f *protoField) as(want protowire.Type) *Fault {
	if f.wire != want {
		return faultf(WrongType, "%s is not %s but: %s", f.name, wireNames[want], wireNames[f.wire]).at(f.name)
	}
	return nil
}

// text reads a string of at most MaxIDBytes.
func (f *protoField) text() ([]byte, *Fault) {
	if fault := f.as(protowire.BytesType); fault != nil {
		return nil, fault
	}
	switch {
	case len(f.bytes) > MaxIDBytes:
		return nil, faultf(IDTooLong, "%s has %d bytes, at most %d are allowed", f.name, len(f.bytes), MaxIDBytes).at(f.name)
	case !utf8.Valid(f.bytes):
		return nil, faultf(MalformedProtobuf, "%s is not valid UTF-8: %s", f.name, quote(f.bytes)).at(f.name)
	}
	return f.bytes, nil
}

// float reads a double. Only the last of a field has to be finite, so the caller checks that.
func (f *protoField) float() (float64, *Fault) {
	return math.Float64frombits(f.bits), f.as(protowire.Fixed64Type)
}

// place reads a place from 1 on; 0 is absent.
func (f *protoField) place() (int32, *Fault) {
	if fault := f.as(protowire.VarintType); fault != nil {
		return 0, fault
	}
	if f.bits > math.MaxInt32 {
		return 0, faultf(WrongType, "%s is %d, above %d", f.name, f.bits, math.MaxInt32).at(f.name)
	}
	return int32(f.bits), nil
}

func finite(x float64, name string) *Fault {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return faultf(NotFinite, "%s is %v", name, x).at(name)
	}
	return nil
}

// stamp is a google.protobuf.Timestamp. Repeated ones of a field are merged, as in Protobuf.
type stamp struct {
	seconds int64
	nanos   int32
}

func (s *stamp) merge(f *protoField) *Fault {
	if fault := f.as(protowire.BytesType); fault != nil {
		return fault
	}
	for b := f.bytes; len(b) > 0; {
		part, rest, fault := nextField(b, stampFields)
		if fault != nil {
			return fault.at(f.name)
		}
		if b = rest; part.name == "" {
			continue
		}
		if fault := part.as(protowire.VarintType); fault != nil {
			return fault.at(f.name)
		}
		if part.name == "seconds" {
			s.seconds = int64(part.bits)
		} else {
			s.nanos = int32(part.bits)
		}
	}
	return nil
}

var stampFields = []string{"seconds", "nanos"}

// time truncates to milliseconds.
func (s *stamp) time() (Millis, *Fault) {
	if s.seconds < MinTime/1000 || s.seconds > MaxTime/1000 || s.nanos < 0 || s.nanos > 999_999_999 {
		return 0, faultf(InvalidTime, "time is %d seconds and %d nanoseconds, not within the years 0001 to 9999 with nanoseconds below 10⁹",
			s.seconds, s.nanos).at("time")
	}
	return s.seconds*1000 + int64(s.nanos)/1_000_000, nil
}

func (d *Decoder) protoImpression(dst *Impression, key, b []byte) *Fault {
	f := impressions.fromProtobuf(d, dst, d.impressionNames, b)
	if f == nil {
		f = d.sameKey(dst.ID, key)
	}
	if f != nil {
		return f
	}
	if len(dst.Candidates) == 0 {
		return faultf(NoCandidates, "candidates is absent or empty").at("candidates")
	}
	if i := d.repeats(dst); i >= 0 {
		return sameItem(i, dst.Candidates[i].Item)
	}
	return nil
}

func (d *Decoder) protoCandidate(dst *Impression, f protoField) *Fault {
	i := len(dst.Candidates)
	if f.wire != protowire.BytesType {
		return faultf(WrongType, "candidates[%d] is not a message but: %s", i, wireNames[f.wire]).at(strconv.Itoa(i)).at("candidates")
	}
	if most := d.limits.MaxCandidates; most > 0 && i >= most {
		return tooManyCandidates(i+1, most)
	}
	c, hasUtility, b := usualCandidate(f.bytes)
	if d.readsContext() {
		dst.Context.Candidates = append(dst.Context.Candidates, CandidateContext{Predicted: math.NaN()})
	}
	for len(b) > 0 {
		part, rest, fault := nextField(b, d.candidateNames)
		if fault == nil {
			b = rest
			switch part.name {
			case "item":
				c.Item, fault = part.text()
			case "utility":
				hasUtility = true
				c.Utility, fault = part.float()
			case "pin":
				c.Pin, fault = part.place()
			case "":
			default:
				d.protoContext(&dst.Context, i, &part)
			}
		}
		if fault != nil {
			return within(fault, "candidates", i)
		}
	}
	if fault := finite(c.Utility, "utility"); fault != nil {
		return within(fault, "candidates", i)
	}
	if len(c.Item) == 0 {
		return within(missingItem(), "candidates", i)
	}
	if !hasUtility {
		dst.Filled = append(dst.Filled, int32(i))
	}
	dst.Candidates = append(dst.Candidates, c)
	if d.readsContext() && math.IsInf(dst.Context.Candidates[i].Predicted, 0) {
		dst.Context.in(finite(dst.Context.Candidates[i].Predicted, "predicted"), i)
	}
	return nil
}

// usualCandidate reads the usual candidate three times as fast: a short ASCII item, and a utility or none. It reads nothing of other
// candidates. The rest has to be read field by field.
func usualCandidate(b []byte) (c Candidate, hasUtility bool, rest []byte) {
	const item, utility = 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.Fixed64Type)
	if len(b) < 2 || b[0] != item || b[1] >= utf8.RuneSelf || len(b) < 2+int(b[1]) {
		return c, false, b
	}
	end := 2 + int(b[1])
	text := b[2:end]
	for _, x := range text {
		if x >= utf8.RuneSelf {
			return c, false, b
		}
	}
	c.Item, rest = text, b[end:]
	if len(rest) == 9 && rest[0] == utility {
		c.Utility, hasUtility, rest = math.Float64frombits(binary.LittleEndian.Uint64(rest[1:])), true, nil
	}
	return c, hasUtility, rest
}
