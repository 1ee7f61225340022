package partition

import (
	"encoding/binary"
	"math"
)

// numbers reads the values of rankings' headers. Behind one that is cut off or too large all are undefined.
type numbers struct {
	rest []byte
	bad  bool
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

// bytes reads n bytes. They are valid as long as the header is; if some lack, none are returned.
func (d *numbers) bytes(n int64) []byte {
	if d.bad || n > int64(len(d.rest)) {
		d.bad = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *numbers) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *numbers) fixed32() uint32 {
	if b := d.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *numbers) fixed64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// text reads a text behind its length.
func (d *numbers) text() string { return string(d.bytes(d.uvarint())) }
