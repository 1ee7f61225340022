package joinedlog

import (
	"context"
	"errors"
	"io"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Source is a series of records of one topic: a partition, or a file.
type Source interface {
	// Topic is whose records they are.
	Topic() event.Topic
	// Next is the next record, valid until the call after; io.EOF behind the last.
	Next(ctx context.Context) (*Entry, error)
	// Place says where the record stands that Next has returned last, for people.
	Place() string
	// Progress is how much of how much has been read, in units that are the same for all sources of a kind.
	Progress() (done, all int64)
	// Close releases what it holds.
	Close() error
}

// Entry is a record of a source.
type Entry struct {
	partition.Record
	// Timed tells whether Timestamp is known. Else the record's own time counts.
	Timed bool
	// Keyed tells that the record has the key with which it was written, which must be the impression's id.
	Keyed bool
}

// head is a source with its next record decoded.
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

	at   event.Millis // the record's effective time
	key  event.Millis // the greatest effective time until now: what sources are merged by
	done bool
}

// errNoTime says that nothing tells when a record was written.
var errNoTime = errors.New("it has no time, neither of its own nor Kafka's")

// next goes on to the next record that can be read; refused is told of those that cannot.
func (h *head) next(ctx context.Context, refused func(h *head, why error)) error {
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
		own, has, err := h.decode(e)
		if err == nil && !has && !e.Timed {
			err = errNoTime
		}
		if err != nil {
			refused(h, err)
			continue
		}
		h.at = effective(e, own, has)
		if l, ok := h.source.(*lines); ok && l.order == nil && h.at < h.key-disorder {
			return errDisorder{l}
		}
		h.key = max(h.key, h.at)
		return nil
	}
}

// effective is what a record's time counts as: its own, but none after the one at which it was written.
func effective(e *Entry, own event.Millis, has bool) event.Millis {
	switch {
	case !e.Timed:
		return own
	case has:
		return min(own, e.Timestamp)
	}
	return e.Timestamp
}

// decode reads a record, and says what time it has of its own.
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
		err = h.decoder.ImpressionIn(&h.impression, e.Key, &c)
		return h.impression.Time, h.impression.HasTime, err
	case event.Selections:
		err = h.decoder.SelectionIn(&h.selection, e.Key, &c)
		return h.selection.Time, h.selection.HasTime, err
	}
	err = h.decoder.PayoffIn(&h.payoff, e.Key, &c)
	return h.payoff.Time, h.payoff.HasTime, err
}

// merged gives the records of several sources by the greatest time that each has come to. It is a binary heap.
type merged struct {
	heads   []*head
	refused func(h *head, why error)
}

// newMerged begins with the first record of each source.
func newMerged(ctx context.Context, heads []*head, refused func(*head, error)) (*merged, error) {
	m := &merged{refused: refused}
	for _, h := range heads {
		if err := h.next(ctx, refused); err != nil {
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

// first is the next record; nil behind the last.
func (m *merged) first() *head {
	if len(m.heads) == 0 {
		return nil
	}
	return m.heads[0]
}

// pass goes on behind the first record.
func (m *merged) pass(ctx context.Context) error {
	h := m.heads[0]
	if err := h.next(ctx, m.refused); err != nil {
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

// before puts what an impression waits for behind it at equal times.
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
