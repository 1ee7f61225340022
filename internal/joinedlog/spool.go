package joinedlog

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// spool stores events in an unlinked temporary file, which no end of the program leaves behind.
type spool struct {
	file   *os.File
	out    *bufio.Writer
	events *gob.Encoder // writes to out
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "ranker-worker-log-*")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for records: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	out := bufio.NewWriterSize(f, 1<<20)
	return &spool{f, out, gob.NewEncoder(out)}, nil
}

func (s *spool) close() error { return s.file.Close() }

func (s *spool) put(e *Event) error {
	if err := s.events.Encode(e); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	return nil
}

// Play calls f with all events in order, and stops at its first error. It may be called again afterwards.
func (l *Log) Play(f func(*Event) error) error {
	s := l.spool
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	in := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, 0, math.MaxInt64), 1<<20))
	var e Event
	for {
		// The file lacks zero fields, and empty slices.
		e = Event{Decision: Decision{Items: e.Items[:0], Order: e.Order[:0], Propensities: e.Propensities[:0], About: e.About[:0]}}
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading records from a temporary file: %w", err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}
