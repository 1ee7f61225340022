package event

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendProtobufImpression appends an impression in Protobuf, by docs/schemas/ranker.proto.
func AppendProtobufImpression(dst []byte, r *Impression) []byte {
	dst = appendProtoText(dst, 1, r.ID)
	dst = appendProtoText(dst, 2, r.Learner)
	dst = appendStamp(dst, r.Time, r.HasTime)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		size := protowire.SizeTag(1) + protowire.SizeBytes(len(c.Item))
		given := r.HasUtility(i)
		if given {
			size += protowire.SizeTag(2) + protowire.SizeFixed64()
		}
		if i < len(r.Context.Candidates) {
			size += sizeProtoContext(&r.Context.Candidates[i])
		}
		dst = protowire.AppendTag(dst, 4, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size))
		dst = protowire.AppendTag(dst, 1, protowire.BytesType)
		dst = protowire.AppendBytes(dst, c.Item)
		dst = appendDouble(dst, 2, c.Utility, given)
		if i < len(r.Context.Candidates) {
			dst = appendProtoContext(dst, &r.Context.Candidates[i])
		}
	}
	dst = appendProtoText(dst, 5, r.User)
	return appendProtoText(appendProtoFeatures(dst, 6, r.Context.Features), 7, r.Context.Segment)
}

func AppendProtobufSelection(dst []byte, r *Selection) []byte {
	dst = appendProtoText(dst, 1, r.ID)
	dst = appendProtoText(dst, 2, r.Item)
	dst = appendStamp(dst, r.Time, r.HasTime)
	dst = appendDouble(dst, 4, r.Utility, r.HasUtility)
	if r.ByUtility {
		dst = appendProtoText(dst, 5, []byte(ShownByUtility))
	}
	return dst
}

func AppendProtobufPayoff(dst []byte, r *Payoff) []byte {
	dst = appendProtoText(dst, 1, r.ID)
	dst = appendDouble(dst, 2, r.Payoff, true)
	dst = appendStamp(dst, r.Time, r.HasTime)
	dst = appendProtoText(dst, 4, r.Item)
	return appendProtoText(dst, 5, r.EventID)
}

func appendProtoText(dst []byte, number protowire.Number, s []byte) []byte {
	if len(s) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), s)
}

func appendDouble(dst []byte, number protowire.Number, x float64, given bool) []byte {
	if !given {
		return dst
	}
	return protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), math.Float64bits(x))
}

// appendStamp appends field 3, a google.protobuf.Timestamp, with nanoseconds ≥ 0.
func appendStamp(dst []byte, t Millis, given bool) []byte {
	if !given {
		return dst
	}
	seconds, millis := t/1000, t%1000
	if millis < 0 {
		seconds, millis = seconds-1, millis+1000
	}
	size := 0
	if seconds != 0 {
		size += 1 + protowire.SizeVarint(uint64(seconds))
	}
	if millis != 0 {
		size += 1 + protowire.SizeVarint(uint64(millis*1_000_000))
	}
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 3, protowire.BytesType), uint64(size))
	if seconds != 0 {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.VarintType), uint64(seconds))
	}
	if millis != 0 {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.VarintType), uint64(millis*1_000_000))
	}
	return dst
}
