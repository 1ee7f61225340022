package registry

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// plain is a message of docs/schemas/ranker.proto under construction. Absent fields stay absent; the decoder judges them.
type plain []byte

func (p plain) text(number protowire.Number, s *string) plain {
	if s == nil {
		return p
	}
	return protowire.AppendString(protowire.AppendTag(p, number, protowire.BytesType), *s)
}

func (p plain) double(number protowire.Number, x *float64) plain {
	if x == nil {
		return p
	}
	return protowire.AppendFixed64(protowire.AppendTag(p, number, protowire.Fixed64Type), math.Float64bits(*x))
}

// doubles writes numbers packed; null is NaN.
func (p plain) doubles(number protowire.Number, all []*float64) plain {
	if len(all) == 0 {
		return p
	}
	p = protowire.AppendVarint(protowire.AppendTag(p, number, protowire.BytesType), uint64(8*len(all)))
	for _, x := range all {
		if x == nil {
			p = protowire.AppendFixed64(p, math.Float64bits(math.NaN()))
		} else {
			p = protowire.AppendFixed64(p, math.Float64bits(*x))
		}
	}
	return p
}

// time writes field 3, a google.protobuf.Timestamp.
func (p plain) time(t *time.Time) plain {
	if t == nil {
		return p
	}
	stamp := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(t.Unix()))
	stamp = protowire.AppendVarint(protowire.AppendTag(stamp, 2, protowire.VarintType), uint64(t.Nanosecond()))
	return protowire.AppendBytes(protowire.AppendTag(p, 3, protowire.BytesType), stamp)
}

func (r *impression) plain() []byte {
	p := plain{}.text(1, r.ID).text(2, r.Learner).time(r.Time)
	var one plain
	for i := range r.Candidates {
		c := &r.Candidates[i]
		one = one[:0].text(1, c.Item).double(2, c.Utility).doubles(3, c.Features).double(4, c.Predicted).text(5, c.Category)
		p = protowire.AppendBytes(protowire.AppendTag(p, 4, protowire.BytesType), one)
	}
	return p.text(5, r.User).doubles(6, r.Features).text(7, r.Segment)
}

func (r *selection) plain() []byte {
	return plain{}.text(1, r.ID).text(2, r.Item).time(r.Time).double(4, r.Utility).text(5, r.Shown)
}

func (r *payoff) plain() []byte {
	return plain{}.text(1, r.ID).double(2, r.Payoff).time(r.Time).text(4, r.Item).text(5, r.EventID)
}
