package partition

import (
	"encoding/binary"
	"math"
)

// numbers reads the varints of rankings' headers.
type numbers struct {
	rest []byte
	bad  bool // one is cut off or too large
}

func (d *numbers) uvarint() int64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > math.MaxInt64 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

func (d *numbers) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}
