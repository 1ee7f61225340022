package partition

import (
	"encoding/binary"
	"fmt"
	"math"
)

// binaryReader reads numbers and bytes in stored form. After its first error it returns zeros, and nothing is left.
type binaryReader struct {
	rest []byte
	err  error
}

// fail keeps the first error.
func (d *binaryReader) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
		d.rest = nil
	}
}

// failure returns the error as one of a kind, or nil.
func (d *binaryReader) failure(kind error) error {
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kind, d.err)
}

func (d *binaryReader) count(limit uint64, name string) int64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("%s is cut off", name)
		return 0
	}
	if v > limit {
		d.fail("%s is %d, at most %d can be", name, v, limit)
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

func (d *binaryReader) uvarint() int64 { return d.count(math.MaxInt64, "a number") }

func (d *binaryReader) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// bytes reads n bytes, which alias the input; if some lack, none are returned.
func (d *binaryReader) bytes(n int64) []byte {
	if n > int64(len(d.rest)) {
		d.fail("cut off")
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// part reads bytes behind their length.
func (d *binaryReader) part(length string) []byte {
	return d.bytes(d.count(uint64(len(d.rest)), length))
}

func (d *binaryReader) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *binaryReader) fixed32() uint32 {
	if b := d.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *binaryReader) fixed64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
