package joinedlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// spool stores events in an unlinked temporary file, which no end of the program leaves behind.
type spool struct {
	file *os.File
	out  *bufio.Writer
	buf  []byte
	at   int64
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "ranker-worker-journal-*")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for records: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{file: f, out: bufio.NewWriterSize(f, 1<<20)}, nil
}

func (s *spool) close() error { return s.file.Close() }

// Flags in an event's first byte, besides its kind.
const (
	kindBits        = 0x0f
	hasPropensities = 0x10
	hasUtility      = 0x20
	hasShadows      = 0x40
	hasAbout        = 0x80
)

func (s *spool) put(e *Event) error {
	first := byte(e.Kind)
	if len(e.Propensities) > 0 {
		first |= hasPropensities
	}
	if e.HasUtility {
		first |= hasUtility
	}
	if len(e.Shadows) > 0 {
		first |= hasShadows
	}
	if len(e.About) > 0 {
		first |= hasAbout
	}
	b := append(s.buf[:0], first)
	b = binary.AppendVarint(b, e.At-s.at)
	s.at = e.At
	b = binary.AppendUvarint(b, uint64(e.Row))
	switch e.Kind {
	case Decided:
		b = binary.AppendVarint(b, e.At-e.Time)
		b = binary.AppendVarint(b, e.Began-e.Time)
		b = binary.AppendUvarint(b, uint64(len(e.Items)))
		for _, i := range e.Items {
			b = binary.AppendUvarint(b, uint64(i))
		}
		for _, r := range e.Order {
			b = binary.AppendUvarint(b, uint64(r))
		}
		for _, p := range e.Propensities {
			b = appendFloat(b, p)
		}
		if len(e.Shadows) > 0 {
			b = appendShadows(b, e.Shadows)
		}
		if len(e.About) > 0 {
			b = append(binary.AppendUvarint(b, uint64(len(e.About))), e.About...)
		}
	case WasSelected:
		if e.HasUtility {
			b = appendFloat(b, e.Utility)
		}
	case WasPaid, PaidPart:
		b = appendFloat(b, e.Payoff)
		b = binary.AppendVarint(b, e.Age)
	}
	s.buf = b
	if _, err := s.out.Write(b); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	return nil
}

func appendShadows(b []byte, all [][]int32) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, order := range all {
		b = binary.AppendUvarint(b, uint64(len(order)))
		for _, r := range order {
			b = binary.AppendUvarint(b, uint64(r))
		}
	}
	return b
}

func appendFloat(b []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
}

// Play calls f with all events in order, and stops at its first error. It may be called again afterwards.
func (l *Log) Play(f func(*Event) error) error {
	s := l.spool
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	in := reader{in: bufio.NewReaderSize(io.NewSectionReader(s.file, 0, math.MaxInt64), 1<<20)}
	var e Event
	var at int64
	for {
		first, err := in.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading records from a temporary file: %w", err)
		}
		at += in.varint()
		e = Event{Kind: Kind(first & kindBits), At: at, Row: int32(in.uvarint()), HasUtility: first&hasUtility != 0,
			Decision: Decision{Items: e.Items[:0], Order: e.Order[:0], Propensities: e.Propensities[:0], About: e.About[:0]}}
		switch e.Kind {
		case Decided:
			in.decision(&e, first&hasPropensities != 0)
			if first&hasShadows != 0 {
				in.shadows(&e)
			}
			if first&hasAbout != 0 {
				in.about(&e)
			}
		case WasSelected:
			if e.HasUtility {
				e.Utility = in.float()
			}
		case WasPaid, PaidPart:
			e.Payoff, e.Age = in.float(), in.varint()
		}
		if in.err != nil {
			return fmt.Errorf("reading records from a temporary file: %w", in.err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}

type reader struct {
	in  *bufio.Reader
	err error
}

func (r *reader) decision(e *Event, propensities bool) {
	e.Time = e.At - r.varint()
	e.Began = e.Time + r.varint()
	n := int(r.uvarint())
	for range n {
		e.Items = append(e.Items, int32(r.uvarint()))
	}
	for range n {
		e.Order = append(e.Order, int32(r.uvarint()))
	}
	for range n {
		if !propensities {
			break
		}
		e.Propensities = append(e.Propensities, r.float())
	}
}

func (r *reader) shadows(e *Event) {
	for range r.uvarint() {
		var order []int32
		for range r.uvarint() {
			order = append(order, int32(r.uvarint()))
		}
		e.Shadows = append(e.Shadows, order)
	}
}

func (r *reader) about(e *Event) {
	n := int(r.uvarint())
	if r.err != nil {
		return
	}
	e.About = slices.Grow(e.About[:0], n)[:n]
	_, err := io.ReadFull(r.in, e.About)
	r.note(err)
}

func (r *reader) uvarint() uint64 {
	v, err := binary.ReadUvarint(r.in)
	r.note(err)
	return v
}

func (r *reader) varint() int64 {
	v, err := binary.ReadVarint(r.in)
	r.note(err)
	return v
}

func (r *reader) float() float64 {
	b, err := r.in.Peek(8)
	if r.note(err); err != nil {
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(b))
	_, err = r.in.Discard(8)
	r.note(err)
	return x
}

func (r *reader) note(err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
}
