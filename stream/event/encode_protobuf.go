package event

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendProtobufImpression appends an impression in Protobuf, by docs/schemas/ranker.proto.
func AppendProtobufImpression(dst []byte, r *Impression) []byte {
	dst = impressions.appendProtobuf(dst, r, 0, candidatesRow)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		dst = beginMessage(dst, candidatesRow+1)
		start := len(dst)
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), c.Item)
		if r.HasUtility(i) {
			dst = appendDouble(dst, 2, c.Utility)
		}
		if c.Pin != 0 {
			dst = protowire.AppendVarint(protowire.AppendTag(dst, candidatePin+1, protowire.VarintType), uint64(c.Pin))
		}
		if i < len(r.Context.Candidates) {
			dst = appendProtoContext(dst, &r.Context.Candidates[i])
		}
		dst = endMessage(dst, start)
	}
	dst = impressions.appendProtobuf(dst, r, candidatesRow+1, excludeRow)
	dst = appendProtoFeatures(dst, contextFeatures+1, r.Context.Features)
	return impressions.appendProtobuf(dst, r, contextSegment, len(impressions.rows))
}

// beginMessage begins a message that is a field of another, with one byte for its length.
func beginMessage(dst []byte, number protowire.Number) []byte {
	return append(protowire.AppendTag(dst, number, protowire.BytesType), 0)
}

// endMessage sets the length of the message that begins at start.
func endMessage(dst []byte, start int) []byte {
	size := len(dst) - start
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		dst = append(dst, make([]byte, more)...)
		copy(dst[start+more:], dst[start:start+size])
	}
	binary.PutUvarint(dst[start-1:], uint64(size))
	return dst
}

func appendProtoText(dst []byte, number protowire.Number, s []byte) []byte {
	if len(s) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), s)
}

func appendDouble(dst []byte, number protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), math.Float64bits(x))
}

// appendStamp appends a google.protobuf.Timestamp, with nanoseconds ≥ 0.
func appendStamp(dst []byte, number protowire.Number, t Millis) []byte {
	seconds, millis := t/1000, t%1000
	if millis < 0 {
		seconds, millis = seconds-1, millis+1000
	}
	dst = beginMessage(dst, number)
	start := len(dst)
	for i, part := range []int64{seconds, millis * 1_000_000} {
		if part != 0 {
			dst = protowire.AppendVarint(protowire.AppendTag(dst, protowire.Number(i+1), protowire.VarintType), uint64(part))
		}
	}
	return endMessage(dst, start)
}
