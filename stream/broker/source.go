package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
)

// source is the input of a batch's record reader: the batch's own bytes, which results alias, or the unpacked stream, from which results
// are copies.
type source struct {
	ctx  context.Context
	b    []byte    // unread
	from *unpacker // source of further bytes; nil: none
	slab []byte    // room for small copies
	next int       // size of the next slab
}

// Copies of up to slabMost bytes share a slab. The last of them keeps it in memory.
const (
	slabLeast = 1 << 10
	slabSize  = 64 << 10
	slabMost  = 4 << 10
)

// errPast: the bytes end within a record.
var errPast = errors.New("the records end before they are whole")

// fill reads more bytes into b, or returns io.EOF.
func (s *source) fill() error {
	if s.from == nil {
		return io.EOF
	}
	// A shutdown does not wait for a batch of gigabytes. An expired deadline is ignored: the next attempt would have the same work.
	if err := s.ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	n := copy(s.from.ahead[:], s.b)
	s.b = s.from.ahead[:n]
	for range 100 {
		m, err := s.from.Read(s.from.ahead[n:])
		if m > 0 {
			s.b = s.from.ahead[:n+m]
			return nil // the next read returns the error
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// more is fill where the end is an error.
func (s *source) more() error {
	err := s.fill()
	if err == io.EOF {
		return errPast
	}
	return err
}

// varint reads a zigzag number; n is its length.
func (s *source) varint() (v int64, n int, err error) {
	for {
		switch v, n = binary.Varint(s.b); {
		case n > 0:
			s.b = s.b[n:]
			return v, n, nil
		case n < 0:
			return 0, 0, errRecord
		}
		if err := s.more(); err != nil {
			return 0, 0, err
		}
	}
}

// take reads n bytes, and returns the first keep of them. All n are added to sum, unless that is nil.
func (s *source) take(n, keep int64, sum *xxhash.Digest) ([]byte, error) {
	kept := min(n, keep)
	if s.from == nil {
		if n > int64(len(s.b)) {
			return nil, errPast
		}
		b := s.b[:kept:kept]
		return b, s.skip(n, sum)
	}
	b := s.room(kept)
	for int64(len(b)) < kept {
		if len(b) == cap(b) { // larger ones grow as far as the bytes prove the claimed length
			b = append(make([]byte, 0, min(kept, 2*int64(cap(b)))), b...)
		}
		if len(s.b) == 0 {
			if err := s.more(); err != nil {
				return nil, err
			}
		}
		got := s.b[:min(len(s.b), cap(b)-len(b))]
		b = append(b, got...)
		if sum != nil {
			_, _ = sum.Write(got)
		}
		s.b = s.b[len(got):]
	}
	return b, s.skip(n-kept, sum)
}

// room returns memory for n bytes, or for the first of them.
func (s *source) room(n int64) []byte {
	if n > slabMost {
		return make([]byte, 0, min(n, slabSize))
	}
	if s.slab == nil || int(n) > cap(s.slab)-len(s.slab) {
		s.slab = make([]byte, 0, max(s.next, slabMost))
		s.next = min(2*s.next, slabSize)
	}
	at := len(s.slab)
	s.slab = s.slab[:at+int(n)]
	return s.slab[at:at:len(s.slab)]
}

// skip skips n bytes.
func (s *source) skip(n int64, sum *xxhash.Digest) error {
	for n > 0 {
		if len(s.b) == 0 {
			if err := s.more(); err != nil {
				return err
			}
		}
		got := s.b[:min(int64(len(s.b)), n)]
		if sum != nil {
			_, _ = sum.Write(got)
		}
		s.b = s.b[len(got):]
		n -= int64(len(got))
	}
	return nil
}
