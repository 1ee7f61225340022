package joinedlog

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// spool stores events in an unlinked temporary file, which no end of the program leaves behind.
type spool struct {
	file   *os.File
	out    *bufio.Writer
	events *gob.Encoder // writes to out
	batch  []Event      // put, and not yet encoded
}

// batchSize is the number of events that are encoded together: a message of gob each would take longer.
const batchSize = 256

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "ranker-worker-log-*")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for records: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	out := bufio.NewWriterSize(f, 1<<20)
	return &spool{f, out, gob.NewEncoder(out), make([]Event, 0, batchSize)}, nil
}

func (s *spool) close() error { return s.file.Close() }

func (s *spool) put(e *Event) error {
	n := len(s.batch)
	s.batch = s.batch[:n+1]
	s.batch[n].copy(e)
	if n+1 < batchSize {
		return nil
	}
	return s.encode()
}

// encode writes the batch.
func (s *spool) encode() error {
	if err := s.events.Encode(s.batch); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	s.batch = s.batch[:0]
	return nil
}

// copy makes e equal to from, in e's memory.
func (e *Event) copy(from *Event) {
	items, order, propensities, about := e.Items[:0], e.Order[:0], e.Propensities[:0], e.About[:0]
	*e = *from
	e.Items, e.Order = append(items, from.Items...), append(order, from.Order...)
	e.Propensities, e.About = append(propensities, from.Propensities...), append(about, from.About...)
	e.Shadows = nil
	for _, order := range from.Shadows {
		e.Shadows = append(e.Shadows, slices.Clone(order))
	}
}

// Play calls f with all events in order, and stops at its first error. It may be called again afterwards.
func (l *Log) Play(f func(*Event) error) error {
	s := l.spool
	if len(s.batch) > 0 {
		if err := s.encode(); err != nil {
			return err
		}
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("writing records to a temporary file: %w", err)
	}
	in := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, 0, math.MaxInt64), 1<<20))
	var batch []Event
	for {
		batch = batch[:cap(batch)]
		for i := range batch { // the file lacks zero fields, and empty slices
			e := &batch[i]
			*e = Event{Decision: Decision{Items: e.Items[:0], Order: e.Order[:0], Propensities: e.Propensities[:0], About: e.About[:0]}}
		}
		switch err := in.Decode(&batch); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading records from a temporary file: %w", err)
		}
		for i := range batch {
			if err := f(&batch[i]); err != nil {
				return err
			}
		}
	}
}
