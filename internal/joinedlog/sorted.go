package joinedlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// disorder is the largest step back in time, in milliseconds, of a file that is not sorted. A topic's records are ordered except
// for producers' clocks; a dump of several partitions is not.
const disorder = 60_000

type errDisorder struct{ l *lines }

func (e errDisorder) Error() string {
	return fmt.Sprintf("%s: it is not in the order of time", e.l.Place())
}

type lineAt struct {
	time   event.Millis
	offset int64
	number int
}

type ordered struct {
	all  []lineAt
	next int
}

func (l *lines) rewind() error {
	if l.order != nil {
		l.order.next = 0
		return nil
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s again: %w", l.name, err)
	}
	l.in.in.Reset(l.file)
	l.number, l.offset = 0, 0
	return nil
}

// sort makes l read in the order of time. Lines without one come first.
func (h *head) sort(ctx context.Context, l *lines) error {
	if err := l.rewind(); err != nil {
		return err
	}
	var all []lineAt
	for {
		e, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at, _ := h.read(e)
		all = append(all, lineAt{time: at, offset: l.began, number: l.number})
	}
	slices.SortStableFunc(all, func(a, b lineAt) int { return cmp.Compare(a.time, b.time) })
	l.order = &ordered{all: all}
	l.in = NewLineReader(l.file, 16<<10) // the next line is seldom adjacent
	return nil
}

func (l *lines) seek() error {
	o := l.order
	if o.next == len(o.all) {
		return io.EOF
	}
	at := o.all[o.next]
	o.next++
	if at.offset != l.offset {
		if _, err := l.file.Seek(at.offset, io.SeekStart); err != nil {
			return fmt.Errorf("reading %s: %w", l.name, err)
		}
		l.in.in.Reset(l.file)
	}
	l.offset, l.number = at.offset, at.number-1
	return nil
}

// OpenInput copies standard input to a temporary file, and opens that.
func OpenInput(topic event.Topic, in io.Reader) (Source, error) {
	f, err := os.CreateTemp("", "ranker-worker-input-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // it exists while it is open
		return nil, errors.Join(err, f.Close())
	}
	_, err = io.Copy(f, in)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copying standard input: %w", err), f.Close())
	}
	return newLines(topic, "standard input", f)
}
