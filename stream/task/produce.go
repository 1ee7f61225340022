package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// produceTimeout is for one try. The same bytes and sequence are sent again until the broker answers.
const produceTimeout = 10 * time.Second

// produce sends rankings and dead letters, one request in flight each.
func (t *Task) produce() {
	r := t.run
	if r.refencing {
		return
	}
	if t.refenceDue() && t.refence() {
		return
	}
	for i := range r.lanes.letters {
		t.produceLetters(event.Topic(i))
	}
	if b := r.lanes.rankings.next(); b != nil {
		t.sendRankings(b, b.messages)
	}
}

// sendRankings sends messages, the rest of the batch in flight, in as many batches as the topic's limit requires.
func (t *Task) sendRankings(b *batch, messages []OutMessage) {
	r := t.run
	o := &r.lanes.rankings
	n := o.fit(messages, t.acq.facts.Topics[event.Rankings].MaxMessageBytes)
	p := Produce{Topic: event.Rankings, Producer: t.acq.producer, Sequence: o.sequence, Messages: messages[:n]}
	sent := t.now.Mono
	tooLarge := func(err error) {
		if n == 1 {
			t.stop(StopTopic, fmt.Errorf("%w although the topic's max.message.bytes allows it", err))
			return
		}
		o.maxRecords = n / 2 // the limit was lowered meanwhile
		t.sendRankings(b, messages)
	}
	t.deliver("producing rankings", p, tooLarge, func(base int64) {
		if base >= 0 && base < o.position {
			t.stop(StopOffsets, fmt.Errorf("%s[%d] gave our ranking offset %d although the log had reached %d: the topic "+
				"was recreated", t.cfg.TopicNames[event.Rankings], t.cfg.Partition, base, o.position))
			return
		}
		o.delivered(base, messages[:n])
		r.checkpoints.delivered(o, base, messages[:n])
		t.obs.produced(countRankings(messages[:n]), t.now.Mono-sent)
		if n < len(messages) {
			t.sendRankings(b, messages[n:])
			return
		}
		for _, at := range b.times {
			t.obs.Latencies = append(t.obs.Latencies, max(0, t.now.Wall-at))
		}
		o.done()
	})
}

func countRankings(messages []OutMessage) (n int) {
	for i := range messages {
		if messages[i].Value != nil {
			n++
		}
	}
	return n
}

// deliver repeats a produce request until it is acked, or refused for its size, with nothing appended.
func (t *Task) deliver(doing string, p Produce, tooLarge func(error), ok func(base int64)) {
	t.deliverSince(t.now.Mono, doing, p, tooLarge, ok)
}

// deliverSince is deliver for a request first tried at a time. Each try has its own timestamp: a broker that refuses one would refuse it
// again. The answer to a copy has the time at which the first try was appended.
func (t *Task) deliverSince(first time.Duration, doing string, p Produce, tooLarge func(error), ok func(base int64)) {
	p.Timestamp = t.clock.kafka(t.now, t.cfg.OneClock)
	send(t, produceTimeout, p, func(r Produced, err error) {
		switch {
		case err == nil:
			t.failures.clear(doing)
			if !p.DeadLetters { // the broker does not set dead letters' time
				t.clock.learn(r.AppendTime, first, t.now.Mono)
			}
			ok(r.BaseOffset)
		case errors.Is(err, ErrTooLarge):
			tooLarge(fmt.Errorf("%s: %w", doing, err))
		case errors.Is(err, ErrInvalidRecord):
			t.stop(StopTopic, fmt.Errorf("%s: %w: is the topic compacted, or does it have a schema?", doing, err))
		default:
			t.failed(doing, err, func() { t.deliverSince(first, doing, p, tooLarge, ok) })
		}
	})
}

// takeDeadLetters moves a step's dead letters from its output to the outbox.
func (t *Task) takeDeadLetters(out *partition.Output, from int) {
	for i := from; i < len(out.DeadLetters); i++ {
		l := &out.DeadLetters[i]
		t.run.lanes.letters[l.Topic].add(t.cfg.deadLetter(l, t.acq.facts.DeadLetters[l.Topic].MaxMessageBytes))
		t.obs.DeadLetters = append(t.obs.DeadLetters, Refusal{l.Topic, l.Offset, l.Reason, l.Detail})
	}
	out.DeadLetters = out.DeadLetters[:from]
}

func (t *Task) produceLetters(topic event.Topic) {
	d := &t.run.lanes.letters[topic]
	if d.inFlight > 0 || d.idle() {
		return
	}
	messages := d.next(t.acq.facts.DeadLetters[topic].MaxMessageBytes)
	p := Produce{Topic: topic, DeadLetters: true, Producer: t.acq.producer, Sequence: d.sequence, Messages: messages}
	doing := "producing dead letters of " + t.cfg.TopicNames[topic]
	tooLarge := func(err error) {
		if !d.refused() {
			t.stop(StopTopic, fmt.Errorf("%w although it is as short as it can be", err))
			return
		}
		t.produceLetters(topic)
	}
	t.deliver(doing, p, tooLarge, func(int64) { d.delivered() })
}

// Upper bounds of a record batch in bytes, beyond keys, values and headers. Package broker encodes within them.
const (
	// BatchHeaderSize is the size of a batch of version 2 without records.
	BatchHeaderSize = 61
	// RecordOverhead bounds a record's length, attributes, timestamp and offset deltas, lengths of key and value, and number of headers.
	RecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	HeaderOverhead = 5 + 5
)

// CompressionOverhead bounds by how many bytes n bytes of records can grow by compression. A broker
// compresses if the topic's compression.type names a codec, and applies max.message.bytes to the result. Incompressible
// data is stored in blocks with headers: snappy, the worst, adds 16 bytes and 10 for each 32 KiB. Libraries may cut smaller blocks.
func CompressionOverhead(n int) int { return n/64 + 128 }

// batchRoom returns the bytes for records in a batch with this max.message.bytes.
func batchRoom(limit int) int { return limit - BatchHeaderSize - CompressionOverhead(limit) }
