package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// topicLog reads one topic's partition in order: inputs read-committed, rankings read-uncommitted.
type topicLog struct {
	batches chan task.Fetched
	failed  error // set before batches is closed
	cur     task.Fetched
	at      int
	now     logged
	fences  func(task.Marker) // called with control records before the next record; may be nil
}

// fetchBytes bounds one answer of the broker; readAhead is the number of answers that wait.
const (
	fetchBytes = 1 << 20
	readAhead  = 2
)

// read starts to read a topic from an offset to another, or to its end as
// of the first answer if to is negative. Skipped offsets cannot be read.
func (c *checker) read(ctx context.Context, p int32, topic event.Topic, from, to int64, skipped ...span) *topicLog {
	l := &topicLog{batches: make(chan task.Fetched, readAhead)}
	go func() {
		defer close(l.batches)
		l.failed = c.fetchAll(ctx, p, topic, from, to, skipped, l.batches)
	}()
	return l
}

func (c *checker) fetchAll(ctx context.Context, p int32, topic event.Topic, next, to int64, skipped []span, into chan<- task.Fetched) error {
	part := c.broker.Partition(p)
	good := time.Now()
	send := func(f task.Fetched) error {
		select {
		case into <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for to < 0 || next < to {
		if i := slices.IndexFunc(skipped, func(s span) bool { return s.from <= next && next < s.to }); i >= 0 {
			if err := send(placeholders(topic, next, skipped[i].to)); err != nil {
				return err
			}
			next = skipped[i].to
			continue
		}
		call, cancel := context.WithTimeout(ctx, c.opt.Patience)
		f, err := part.Fetch(call, task.Fetch{Topic: topic, Offset: next, MaxBytes: fetchBytes, MaxWait: 200 * time.Millisecond})
		cancel()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, task.ErrOffsetOutOfRange) || time.Since(good) > c.opt.Patience {
				return fmt.Errorf("reading %s from offset %d: %w", c.broker.Topic(topic), next, err)
			}
			if err := pause(ctx, retryPause); err != nil {
				return err
			}
			continue
		}
		if to < 0 {
			to = f.High
		}
		if f.Next > next {
			good = time.Now()
		} else if time.Since(good) > c.opt.Patience {
			return fmt.Errorf("reading %s: the broker sends nothing from offset %d on, of %d", c.broker.Topic(topic), next, to)
		}
		next = max(next, f.Next)
		for len(f.Records) > 0 && f.Records[len(f.Records)-1].Offset >= to {
			f.Records = f.Records[:len(f.Records)-1]
		}
		if len(f.Records) == 0 && len(f.Markers) == 0 {
			continue
		}
		if err := send(f); err != nil {
			return err
		}
	}
	return nil
}

// span is a range of offsets.
type span struct{ from, to int64 }

// placeholders stand for unreadable records.
func placeholders(topic event.Topic, from, to int64) (f task.Fetched) {
	f.Records = slices.Grow(f.Records, int(to-from))[:to-from]
	for k := range f.Records {
		r := &f.Records[k]
		r.Topic, r.Offset, r.Skipped = topic, from+int64(k), "skipped"
	}
	return f
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type logged struct {
	offset     int64
	timestamp  event.Millis
	key, value []byte
	cut        bool   // it is cut off, but
	cutHash    uint64 // its hash
	skipped    bool   // it cannot be read
	plain      []byte // the decoded value, if the value alone cannot be decoded
	fault      *event.Fault

	producer      int64  // its producer; of rankings only
	transactional bool   // likewise
	steps         []byte // likewise, its header
}

func (r *logged) hash() uint64 {
	if r.cut {
		return r.cutHash
	}
	return hashRecord(r.key, r.value)
}

// record returns the next record after peek returned true. The next call overwrites it.
func (l *topicLog) record() *logged {
	r := &l.cur.Records[l.at]
	l.now = logged{offset: r.Offset, timestamp: r.Timestamp, key: r.Key, value: r.Value, skipped: r.Skipped != "",
		plain: r.Plain, fault: r.Fault}
	if r.Cut != nil {
		l.now.cut, l.now.cutHash = true, r.Cut.Hash
	}
	if len(l.cur.Origins) > 0 {
		o := &l.cur.Origins[l.at]
		l.now.producer, l.now.transactional, l.now.steps = o.Producer.ID, o.Transactional, o.Steps
	}
	l.at++
	return &l.now
}

// peek waits for the next record; ok is false at the end.
func (l *topicLog) peek() (ok bool, err error) {
	for {
		for l.fences != nil && len(l.cur.Markers) > 0 && (l.at >= len(l.cur.Records) || l.cur.Markers[0].Offset < l.cur.Records[l.at].Offset) {
			l.fences(l.cur.Markers[0])
			l.cur.Markers = l.cur.Markers[1:]
		}
		if l.at < len(l.cur.Records) {
			return true, nil
		}
		f, more := <-l.batches
		if !more {
			return false, l.failed
		}
		l.cur, l.at = f, 0
	}
}

// letters reads an input topic's dead letters up to their present end, and returns the offsets of
// the refused records, ascending. Dead letters without headers are ignored: they may be anybody's.
func (c *checker) letters(ctx context.Context, p int32, topic event.Topic) (about []int64, read int64, err error) {
	name := c.cfg.Kafka.Topics.DLQ(c.broker.Topic(topic))
	next, end := int64(-1), int64(0)
	good := time.Now()
	for next < end {
		n, from, err := int64(0), next, error(nil)
		if next < 0 {
			next, end, err = c.lettersBounds(ctx, name, p)
		} else {
			n, next, err = c.lettersFrom(ctx, name, p, next, &about)
		}
		read += n
		switch {
		case err == nil && (next > from || next >= end):
			good = time.Now()
		case ctx.Err() != nil || time.Since(good) > c.opt.Patience:
			return nil, 0, fmt.Errorf("reading %s from offset %d of %d: %w", name, next, end, err)
		case err != nil:
			if err := pause(ctx, retryPause); err != nil {
				return nil, 0, err
			}
			end = max(end, next+1)
		}
	}
	slices.Sort(about)
	return slices.Compact(about), read, nil
}

// lettersBounds returns the first offset and the end of a dead-letter topic; next is -1 without an answer.
func (c *checker) lettersBounds(ctx context.Context, name string, p int32) (next, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Patience)
	defer cancel()
	list, err := c.broker.Kafka().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		name: {kafka.FirstOffsetOf(int(p)), kafka.LastOffsetOf(int(p))}}})
	if err != nil {
		return -1, 0, err
	}
	next, end = -1, -1
	for _, o := range list.Topics[name] {
		if o.Error != nil {
			return -1, 0, o.Error
		}
		next, end = max(next, o.FirstOffset), max(end, o.LastOffset)
	}
	if next < 0 || end < 0 {
		return -1, 0, errors.New("the broker does not report its bounds")
	}
	return next, end, nil
}

func (c *checker) lettersFrom(ctx context.Context, name string, p int32, from int64, about *[]int64) (n, next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Patience)
	defer cancel()
	answer, err := c.broker.Kafka().Fetch(ctx, &kafka.FetchRequest{Topic: name, Partition: int(p), Offset: from, MinBytes: 1,
		MaxBytes: fetchBytes, MaxWait: 100 * time.Millisecond})
	if err != nil {
		return 0, from, err
	}
	if answer.Error != nil {
		return 0, from, answer.Error
	}
	next = from
	for {
		r, err := answer.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			if n == 0 && from < answer.HighWatermark {
				next++ // a fence's marker, which kafka-go skips silently
			}
			return n, next, nil
		}
		if err != nil {
			return n, next, err
		}
		if r.Offset < next {
			continue
		}
		next = r.Offset + 1
		n++
		for _, h := range r.Headers {
			if h.Key == "__streams.errors.offset" {
				if at, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil {
					*about = append(*about, at)
				}
			}
		}
	}
}

func hashRecord(key, value []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(key) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(value)
	return d.Sum64()
}

// checkWitness compares a record with its topic's witness, if that is its offset.
func (f *fold) checkWitness(t event.Topic, r *logged) {
	w := f.state.rankings.witness
	if t < event.Inputs {
		w = f.state.inputs[t].witness
	}
	if r.offset != w.offset {
		return
	}
	f.ranked.witnessed = f.ranked.witnessed || t == event.Rankings
	hash := r.hash()
	same := hash == w.hash && (t == event.Rankings && w.timestamp == 0 || r.timestamp == w.timestamp)
	f.out.must(metaWitness, same, roles[t], say("the record at offset %d: timestamp %d, hash %x", r.offset, r.timestamp, hash),
		say("timestamp %d, hash %x", w.timestamp, w.hash))
}
