package task

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// What a record batch of ours takes at most beyond its keys, values and headers: package broker's bounds, which it does
// the encoding by.
const (
	batchOverhead  = 61
	recordOverhead = 36
	headerOverhead = 10
)

// batchRoom is what the records of one batch may take in a topic with the given max.message.bytes: less the batch's
// header, and what compression adds to records that it cannot make smaller.
func batchRoom(limit int) int { return limit - batchOverhead - limit/64 - 128 }

// Bounds of one batch of rankings.
const (
	maxBatchRecords = 2000
	maxBatchBytes   = 900 << 10
)

// produceTimeout is for one try. The same bytes and sequence are sent again until the broker answers.
const produceTimeout = 10 * time.Second

// rankingsOut are the rankings on their way: one open batch that steps fill, and at most one in flight.
type rankingsOut struct {
	cur, spare *batch
	flying     *batch
	most       int // records of a batch, where the broker refused more; 0: no such bound
	sequence   int32
	made       int64         // rankings put into batches so far
	acked      int64         // of those, how many are in the log
	position   int64         // behind the last acked; a replay looks for decisions from here
	witness    state.Witness // of the last acked whose offset is known
}

// batch is an open or flying batch.
type batch struct {
	out      partition.Output
	times    []event.Millis // of the impressions
	messages []OutMessage
	headers  []Header // of messages, one each
	bytes    int      // of the rankings, and of dead letters made with them
	counted  int      // rankings of out that are in bytes
	first    int64
}

func (o *rankingsOut) open() *partition.Output {
	if o.cur == nil {
		if o.cur = o.spare; o.cur == nil {
			o.cur = &batch{}
		}
		o.spare = nil
		o.cur.first = o.made
	}
	return &o.cur.out
}

// note counts the ranking just made.
func (o *rankingsOut) note(impression event.Millis) {
	b := o.cur
	m := &b.out.Rankings[b.counted]
	b.counted++
	b.bytes += len(m.Key) + len(m.Value) + len(m.Steps) + recordOverhead + headerOverhead
	b.times = append(b.times, impression)
	o.made++
}

// weigh counts the bytes of dead letters that stay in the open batch's memory until it is acked.
func (o *rankingsOut) weigh(out *partition.Output, from int) {
	if o.cur == nil || out != &o.cur.out {
		return
	}
	for i := range out.DeadLetters[from:] {
		l := &out.DeadLetters[from+i]
		o.cur.bytes += len(l.Key) + len(l.Value)
	}
}

// room tells whether another ranking fits. One that exceeds the limit by itself was refused by the machine.
func (o *rankingsOut) room() bool {
	return o.cur == nil || o.cur.counted < maxBatchRecords && o.cur.bytes < maxBatchBytes
}

func (o *rankingsOut) idle() bool {
	return o.flying == nil && (o.cur == nil || o.cur.counted == 0)
}

func (b *batch) reset() {
	b.out.Reset()
	b.times, b.messages, b.headers = b.times[:0], b.messages[:0], b.headers[:0]
	b.bytes, b.counted = 0, 0
}

// produce sends what is ready: rankings and dead letters, one request in flight each.
func (t *Task) produce() {
	r := t.run
	if r.refencing {
		return
	}
	if t.refenceDue() {
		if r.quiet() {
			t.refence()
		}
		return // let what is in flight come home first
	}
	for i := range r.deadLetters {
		t.produceLetters(event.Topic(i))
	}
	o := &r.rankings
	if o.flying != nil || o.cur == nil {
		return
	}
	if o.cur.counted == 0 {
		o.cur.reset() // dead letters only; they have been copied
		return
	}
	o.flying, o.cur = o.cur, nil
	b := o.flying
	b.headers = slices.Grow(b.headers, len(b.out.Rankings))
	for i := range b.out.Rankings {
		m := &b.out.Rankings[i]
		b.headers = append(b.headers, Header{StepsHeader, m.Steps})
		b.messages = append(b.messages, OutMessage{Key: m.Key, Value: m.Value, Headers: b.headers[i : i+1 : i+1]})
	}
	t.sendRankings(b, b.messages)
}

// quiet tells whether nothing of ours is on its way to the broker.
func (r *runner) quiet() bool {
	for i := range r.deadLetters {
		if r.deadLetters[i].flying > 0 {
			return false
		}
	}
	return r.rankings.flying == nil
}

func (r *runner) resetSequences() {
	r.rankings.sequence = 0
	for i := range r.deadLetters {
		r.deadLetters[i].sequence = 0
	}
}

// sendRankings sends messages, the rest of the flying batch, in as many batches as the topic's limit needs.
func (t *Task) sendRankings(b *batch, messages []OutMessage) {
	r := t.run
	o := &r.rankings
	n := fitting(messages[:min(len(messages), cmp.Or(o.most, maxBatchRecords))], t.acq.facts.Topics[event.Rankings].MaxMessageBytes)
	p := Produce{Topic: event.Rankings, Producer: t.acq.producer, Sequence: o.sequence, Messages: messages[:n]}
	sent := t.now.Mono
	if t.cfg.sabotage.noSequences {
		p.Sequence = -1
	}
	tooLarge := func(err error) {
		if n == 1 {
			t.stop(StopTopic, fmt.Errorf("%w although the topic's max.message.bytes allows it", err))
			return
		}
		o.most = n / 2 // the limit was lowered since we last looked
		t.sendRankings(b, messages)
	}
	t.deliver("producing rankings", p, tooLarge, func(base int64) {
		o.sequence = advance(o.sequence, n)
		if base >= 0 && base < o.position {
			t.stop(StopOffsets, fmt.Errorf("%s[%d] gave our ranking offset %d although the log had reached %d: the topic "+
				"was recreated", t.cfg.TopicNames[event.Rankings], t.cfg.Partition, base, o.position))
			return
		}
		r.acked(base, messages[:n])
		t.obs.produced(n, t.now.Mono-sent)
		if n < len(messages) {
			t.sendRankings(b, messages[n:])
			return
		}
		for _, at := range b.times {
			t.obs.Latencies = append(t.obs.Latencies, max(0, t.now.Wall-at))
		}
		b.reset()
		o.flying, o.spare = nil, b
	})
}

// deliver repeats one produce request until it is acked, or refused for its size: then nothing of it is in the log. Each try
// has the time of its own moment: one that the broker does not believe would not be believed the next time either.
func (t *Task) deliver(doing string, p Produce, tooLarge func(error), ok func(base int64)) {
	p.Timestamp = t.kafkaTime()
	sent := t.now.Mono
	send(t, produceTimeout, p, func(r Produced, err error) {
		switch {
		case err == nil:
			t.fine(doing)
			if !p.DeadLetters { // of these the broker does not set the time
				t.learnTime(r.AppendTime, sent)
			}
			ok(r.BaseOffset)
		case errors.Is(err, ErrTooLarge):
			tooLarge(fmt.Errorf("%s: %w", doing, err))
		case errors.Is(err, ErrInvalidRecord):
			t.stop(StopTopic, fmt.Errorf("%s: %w: is the topic compacted, or does it have a schema?", doing, err))
		default:
			t.failed(doing, err, func() { t.deliver(doing, p, tooLarge, ok) })
		}
	})
}

// acked moves the positions of segments whose last ranking is among those just acked. base is -1 where the broker
// recognised a copy without saying where it stands: the position then stays behind, which a replay can bear.
func (r *runner) acked(base int64, messages []OutMessage) {
	o := &r.rankings
	before, n := o.acked, int64(len(messages))
	o.acked += n
	if base >= 0 {
		last := &messages[n-1]
		o.position = base + n
		o.witness = witnessOf(base+n-1, 0, last.Key, last.Value)
	}
	for _, s := range r.segments {
		if s.rankings <= before || s.rankings > o.acked {
			continue
		}
		s.position, s.witness = o.position, o.witness
		if base >= 0 && s.rankings < o.acked {
			last := &messages[s.rankings-before-1]
			s.position = base + s.rankings - before
			s.witness = witnessOf(s.position-1, 0, last.Key, last.Value)
		}
	}
}

// fitting is how many of the messages one batch takes in a topic with the given max.message.bytes, at least one.
func fitting(messages []OutMessage, limit int) int {
	room, bytes := batchRoom(limit), 0
	for i := range messages {
		bytes += size(&messages[i])
		if i > 0 && bytes > room {
			return i
		}
	}
	return len(messages)
}

func size(m *OutMessage) int {
	n := recordOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// advance adds n to a sequence number; it wraps to 0 after 2³¹−1.
func advance(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// deadLettersOut are the dead letters of one input topic on their way.
type deadLettersOut struct {
	messages []OutMessage
	bytes    int
	flying   int // of messages, from the front
	most     int // records of a batch, where the broker refused more; 0: no such bound
	sequence int32
	made     int64
	acked    int64
}

// maxDeadLetterBytes bounds what waits; a topic with so many faults waits with them.
const maxDeadLetterBytes = 4 << 20

func (d *deadLettersOut) room() bool { return d.bytes < maxDeadLetterBytes }
func (d *deadLettersOut) idle() bool { return len(d.messages) == 0 }

// bury copies the dead letters that a step made, with the headers of Kafka Streams' dead-letter queues (KIP-1034).
func (t *Task) bury(out *partition.Output, from int) {
	for i := from; i < len(out.DeadLetters); i++ {
		l := &out.DeadLetters[i]
		d := &t.run.deadLetters[l.Topic]
		limit := batchRoom(t.acq.facts.Topics[l.Topic].MaxMessageBytes) - recordOverhead - 1024
		m := OutMessage{Headers: []Header{
			{"__streams.errors.exception", []byte(l.Reason)},
			{"__streams.errors.message", []byte(l.Detail)},
			{"__streams.errors.topic", []byte(t.cfg.TopicNames[l.Topic])},
			{"__streams.errors.partition", strconv.AppendInt(nil, int64(t.cfg.Partition), 10)},
			{"__streams.errors.offset", strconv.AppendInt(nil, l.Offset, 10)},
		}}
		key, value := cutOff(l.Key, limit/2), cutOff(l.Value, min(t.cfg.MaxRecordBytes, limit/2))
		if len(key)+len(value) < l.Size {
			m.Headers = append(m.Headers, truncatedFrom(l.Size))
		}
		m.Key, m.Value = append([]byte(nil), key...), append([]byte(nil), value...)
		d.messages = append(d.messages, m)
		d.bytes += size(&m)
		d.made++
		t.obs.DeadLetters = append(t.obs.DeadLetters, Refusal{l.Topic, l.Reason})
	}
	out.DeadLetters = out.DeadLetters[:from]
}

func truncatedFrom(n int) Header {
	return Header{"ranker.truncated.from", strconv.AppendInt(nil, int64(n), 10)}
}

// shorten takes half of the first message's longer part away; it tells whether there was anything to take.
func (d *deadLettersOut) shorten() bool {
	m := &d.messages[0]
	was := len(m.Key) + len(m.Value)
	if was == 0 {
		return false
	}
	d.bytes -= size(m)
	if len(m.Value) >= len(m.Key) {
		m.Value = m.Value[:len(m.Value)/2]
	} else {
		m.Key = m.Key[:len(m.Key)/2]
	}
	if last := len(m.Headers) - 1; m.Headers[last].Key != truncatedFrom(0).Key {
		m.Headers = append(m.Headers, truncatedFrom(was))
	}
	d.bytes += size(m)
	return true
}

func cutOff(b []byte, limit int) []byte {
	return b[:min(len(b), max(limit, 0))]
}

func (t *Task) produceLetters(topic event.Topic) {
	r := t.run
	d := &r.deadLetters[topic]
	if d.flying > 0 || len(d.messages) == 0 {
		return
	}
	n := fitting(d.messages[:min(len(d.messages), cmp.Or(d.most, maxBatchRecords))], min(maxBatchBytes, t.acq.facts.Topics[topic].MaxMessageBytes))
	d.flying = n
	p := Produce{Topic: topic, DeadLetters: true, Producer: t.acq.producer, Sequence: d.sequence, Messages: d.messages[:n:n]}
	if t.cfg.sabotage.noSequences {
		p.Sequence = -1
	}
	doing := "producing dead letters of " + t.cfg.TopicNames[topic]
	tooLarge := func(err error) {
		// The dead-letter topic takes less than its input does.
		if n == 1 && !d.shorten() {
			t.stop(StopTopic, fmt.Errorf("%w although it is as short as it can be", err))
			return
		}
		d.most, d.flying = max(1, n/2), 0
		t.produceLetters(topic)
	}
	t.deliver(doing, p, tooLarge, func(int64) {
		d.sequence = advance(d.sequence, n)
		d.acked += int64(n)
		for i := range d.messages[:n] {
			d.bytes -= size(&d.messages[i])
		}
		d.messages = append([]OutMessage(nil), d.messages[n:]...)
		d.flying = 0
	})
}
