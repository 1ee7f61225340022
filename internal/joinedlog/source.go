package joinedlog

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Source is a sequence of records of one topic: a partition, or a file.
type Source interface {
	Topic() event.Topic
	// Next returns the next record, valid until the next call; io.EOF after the last.
	Next(ctx context.Context) (*Entry, error)
	// Place describes the place of the last record, for people.
	Place() string
	// Progress returns the amounts read and in all, in a unit per kind of source.
	Progress() (done, all int64)
	Close() error
}

type Entry struct {
	partition.Record
	// Timed says that Timestamp is known; otherwise the record's own time counts.
	Timed bool
	// Keyed says that the record has its original key, which must be the impression's id.
	Keyed bool
	// Ahead is the time by which the record is dated ahead. Others must not wait for it, and event time must not go by it.
	Ahead event.Millis
}

// head is a source with its next record decoded, or refused.
type head struct {
	source  Source
	limits  event.Limits
	formats event.Formats
	context bool
	decoder *event.Decoder // nil before the first record

	impression event.Impression
	ranking    event.Ranking
	selection  event.Selection
	payoff     event.Payoff

	refused error        // why the record cannot be read; nil if it can
	at      event.Millis // effective time of the record
	reached event.Millis // likewise, less Entry.Ahead
	key     event.Millis // largest reached so far, by which sources are merged
	done    bool
}

// errNoTime is a record's fault of having no time.
var errNoTime = errors.New("it has no time, neither of its own nor Kafka's")

// unknownTime is the time of a refused record without one.
const unknownTime = math.MinInt64

// next reads the next record.
func (h *head) next(ctx context.Context) error {
	for {
		e, err := h.source.Next(ctx)
		if errors.Is(err, io.EOF) {
			h.done = true
			return nil
		}
		if err != nil {
			return err
		}
		if e.Value == nil { // a tombstone of a compacted topic, or an order record
			continue
		}
		h.at, h.refused = h.read(e)
		if l, ok := h.source.(*lines); ok && l.order == nil && h.at < h.key-disorder && h.at != unknownTime {
			return errDisorder{l}
		}
		h.reached = h.at - e.Ahead
		h.key = max(h.key, h.reached)
		return nil
	}
}

// read decodes a record, and returns its effective time: its own, at most the time at which it was written. That of a refused record is
// the latter.
func (h *head) read(e *Entry) (at event.Millis, refused error) {
	own, has, err := h.decode(e)
	switch {
	case err == nil && has && e.Timed:
		return min(own, e.Timestamp), nil
	case err == nil && has:
		return own, nil
	case e.Timed:
		return e.Timestamp, err
	case err == nil:
		err = errNoTime
	}
	return unknownTime, err
}

// decode decodes a record, and returns its own time.
func (h *head) decode(e *Entry) (at event.Millis, has bool, err error) {
	switch {
	case h.decoder != nil:
	case e.Keyed:
		h.decoder = event.NewFormatsDecoder(h.limits, h.formats)
	default:
		h.decoder = event.NewKeylessDecoder(h.limits)
	}
	if h.context {
		h.decoder.WithContext()
	}
	if e.Fault != nil {
		return 0, false, e.Fault
	}
	topic := h.source.Topic()
	if topic == event.Rankings {
		err = h.decoder.Ranking(&h.ranking, e.Value)
		return h.ranking.Time, true, err
	}
	c := event.Content{Form: h.formats.Of(topic, e.Value), Value: e.Value, Plain: e.Plain}
	switch topic {
	case event.Impressions:
		err = h.decoder.ImpressionIn(&h.impression, e.Key, c)
		return h.impression.Time, h.impression.HasTime, err
	case event.Selections:
		err = h.decoder.SelectionIn(&h.selection, e.Key, c)
		return h.selection.Time, h.selection.HasTime, err
	}
	err = h.decoder.PayoffIn(&h.payoff, e.Key, c)
	return h.payoff.Time, h.payoff.HasTime, err
}

// merged merges several sources by their heads' keys, in a binary heap.
type merged struct{ heads []*head }

// newMerged starts with the first record of each source.
func newMerged(ctx context.Context, heads []*head) (*merged, error) {
	m := &merged{}
	for _, h := range heads {
		if err := h.next(ctx); err != nil {
			return nil, err
		}
		if !h.done {
			m.heads = append(m.heads, h)
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

func (m *merged) first() *head {
	if len(m.heads) == 0 {
		return nil
	}
	return m.heads[0]
}

func (m *merged) pass(ctx context.Context) error {
	h := m.heads[0]
	if err := h.next(ctx); err != nil {
		return err
	}
	if h.done {
		last := len(m.heads) - 1
		m.heads[0] = m.heads[last]
		m.heads = m.heads[:last]
	}
	m.down(0)
	return nil
}

// before orders by key, then an impression before its ranking, selection and payoffs.
func (m *merged) before(a, b *head) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return order(a.source.Topic()) < order(b.source.Topic())
}

func order(t event.Topic) int {
	return [event.Topics]int{event.Impressions: 0, event.Rankings: 1, event.Selections: 2, event.Payoffs: 3}[t]
}

func (m *merged) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(m.heads); c++ {
			if m.before(m.heads[c], m.heads[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}
