package joinedlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// ahead is a file's buffer in bytes.
const ahead = 1 << 20

// lines are a file's records, each line a record's JSON or the output of `kcat -J`.
type lines struct {
	topic  event.Topic
	name   string
	file   *os.File
	size   int64
	in     *LineReader
	number int
	began  int64    // start of the line
	offset int64    // its end
	order  *ordered // nil: in the file's order
	entry  Entry
}

// OpenLines opens a file of one topic's records.
func OpenLines(topic event.Topic, name string) (Source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return newLines(topic, name, f)
}

func newLines(topic event.Topic, name string, f *os.File) (Source, error) {
	about, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &lines{topic: topic, name: name, file: f, size: about.Size(), in: NewLineReader(f, ahead)}, nil
}

func (l *lines) Topic() event.Topic { return l.topic }

func (l *lines) Place() string { return fmt.Sprintf("%s:%d", l.name, l.number) }

func (l *lines) Progress() (done, all int64) {
	if l.order != nil && len(l.order.all) > 0 {
		return l.size * int64(l.order.next) / int64(len(l.order.all)), l.size
	}
	return l.offset, l.size
}

func (l *lines) Close() error { return l.file.Close() }

// envelope is a record as kcat -J prints it.
type envelope struct {
	Topic     *string `json:"topic"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Timestamp *int64  `json:"ts"`
	Key       *string `json:"key"`
	Payload   *string `json:"payload"`
}

func (l *lines) Next(ctx context.Context) (*Entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		l.entry = Entry{Record: partition.Record{Topic: l.topic, Offset: int64(l.number), Value: line}}
		if bytes.HasPrefix(line, []byte(`{"topic":`)) {
			if err := l.open(line); err != nil {
				return nil, fmt.Errorf("%s: %w", l.Place(), err)
			}
		}
		return &l.entry, nil
	}
}

func (l *lines) open(line []byte) error {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("this is no line of kcat -J: %w", err)
	}
	l.entry.Value, l.entry.Offset = nil, e.Offset
	if e.Payload != nil {
		l.entry.Value = []byte(*e.Payload)
	}
	if e.Timestamp != nil {
		l.entry.Timestamp, l.entry.Timed = *e.Timestamp, true
	}
	if e.Key != nil {
		l.entry.Key = []byte(*e.Key)
	}
	return nil
}

// line returns the next line, with its end if it has one.
func (l *lines) line() ([]byte, error) {
	if l.order != nil {
		if err := l.seek(); err != nil {
			return nil, err
		}
	}
	l.number++
	l.began = l.offset
	line, err := l.in.Next()
	l.offset = l.began + l.in.read
	l.in.read = 0
	switch {
	case errors.Is(err, ErrLongLine):
		return nil, fmt.Errorf("%s: %w", l.Place(), err)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("reading %s: %w", l.name, err)
	}
	return line, err
}
