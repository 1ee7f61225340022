package recency

import (
	"encoding/binary"
	"math/bits"

	"github.com/ranker-worker/ranker-worker/delay/history"
)

// Packed is an item's rows in a few bytes each: a process keeps those of every item and partition. Equal rows are equal texts. The zero
// value has none.
//
// A row is its level, the index of its bucket counted from the end of the row before, N, D, R, and Q, as varints. R and Q are written in
// payoffs of 1 where they are whole: those of conversions take a byte each.
type Packed string

// Pack packs rows.
func Pack(rows Rows) Packed {
	if len(rows) == 0 {
		return ""
	}
	text := make([]byte, 0, typicalRow*len(rows))
	end := int64(0)
	for i := range rows {
		x := &rows[i]
		text = append(text, byte(x.Level))
		text = binary.AppendVarint(text, x.Index-end>>x.Level)
		text = binary.AppendVarint(text, x.Sum.N)
		text = binary.AppendVarint(text, x.Sum.D)
		text = appendPayoffs(appendPayoffs(text, x.Sum.R), x.Sum.Q)
		end = x.End()
	}
	return Packed(text)
}

const (
	typicalRow = 16 // bytes
	unitBits   = 30 // history.Units
)

// appendPayoffs writes a sum in history.Units: its last bit says whether it is in payoffs of 1.
func appendPayoffs(text []byte, sum int64) []byte {
	if bits.TrailingZeros64(uint64(sum)) >= unitBits {
		return binary.AppendVarint(text, sum>>unitBits<<1|1)
	}
	return binary.AppendVarint(text, sum<<1)
}

// Rows appends the rows to dst.
func (p Packed) Rows(dst Rows) Rows {
	end := int64(0)
	for len(p) > 0 {
		var x history.Row[Selections]
		x.Level, p = int8(p[0]), p[1:]
		x.Index = p.number() + end>>x.Level
		x.Sum.N, x.Sum.D, x.Sum.R, x.Sum.Q = p.number(), p.number(), p.payoffs(), p.payoffs()
		end = x.End()
		dst = append(dst, x)
	}
	return dst
}

// number reads a varint and cuts it off.
func (p *Packed) number() int64 {
	var x uint64
	for k := 0; ; k++ {
		b := (*p)[k]
		x |= uint64(b&0x7f) << (7 * k)
		if b < 0x80 {
			*p = (*p)[k+1:]
			return int64(x>>1) ^ -int64(x&1)
		}
	}
}

func (p *Packed) payoffs() int64 {
	n := p.number()
	if n&1 != 0 {
		return n >> 1 << unitBits
	}
	return n >> 1
}

// Add returns the rows of both. It implements policy.Summand.
func (p Packed) Add(o Packed) Packed {
	switch {
	case p == "":
		return o
	case o == "":
		return p
	}
	return Pack(p.Rows(nil).Add(o.Rows(nil)))
}

// Replace is Rows.Replace.
func (p Packed) Replace(old, by Packed) (sum Packed, ok bool) {
	switch {
	case old == by:
		return p, true
	case p == old: // the only one
		return by, true
	}
	rows, ok := p.Rows(nil).Replace(old.Rows(nil), by.Rows(nil))
	if !ok {
		return "", false
	}
	return Pack(rows), true
}
