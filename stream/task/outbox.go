package task

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

const (
	maxBatchRecords = 2000
	maxBatchBytes   = 900 << 10
)

// outbox holds the rankings and each input topic's dead letters on their way to Kafka, each with at most one batch in flight.
type outbox struct {
	rankings rankingsOut
	letters  [event.Inputs]deadLettersOut
}

// emitted counts rankings and dead letters up to some step.
type emitted struct {
	rankings int64
	letters  [event.Inputs]int64
}

// made returns the counts of all steps so far.
func (l *outbox) made() (all emitted) {
	all.rankings = l.rankings.made
	for i := range l.letters {
		all.letters[i] = l.letters[i].made
	}
	return all
}

// acked reports whether everything emitted up to some step is in the log.
func (l *outbox) acked(e emitted) bool {
	for i := range l.letters {
		if e.letters[i] > l.letters[i].acked {
			return false
		}
	}
	return e.rankings <= l.rankings.acked
}

func (l *outbox) noneInFlight() bool {
	for i := range l.letters {
		if l.letters[i].inFlight > 0 {
			return false
		}
	}
	return l.rankings.inFlight == nil
}

// idle reports whether nothing is in flight or waiting.
func (l *outbox) idle() bool {
	for i := range l.letters {
		if !l.letters[i].idle() {
			return false
		}
	}
	return l.rankings.idle()
}

// fenced restarts the sequence numbers, as a new producer epoch does.
func (l *outbox) fenced() {
	l.rankings.sequence = 0
	for i := range l.letters {
		l.letters[i].sequence = 0
	}
}

// rankingsOut holds an open batch of rankings that steps fill, and at most one in flight.
type rankingsOut struct {
	cur, spare *batch
	inFlight   *batch
	maxRecords int // most records of a batch, after the broker refused more; 0: no bound
	sequence   int32
	made       int64         // rankings put into batches
	acked      int64         // of those, the number in the log
	position   int64         // behind the last acked ranking; a replay reads decisions from here
	witness    state.Witness // of the last acked ranking with a known offset
}

type batch struct {
	out      partition.Output
	times    []event.Millis // of the impressions
	messages []OutMessage
	headers  []Header // of messages, one or two each
	bytes    int      // of the rankings, and of dead letters made with them
	counted  int      // rankings of out that are counted in bytes
}

func (o *rankingsOut) open() *partition.Output {
	if o.cur == nil {
		if o.cur = o.spare; o.cur == nil {
			o.cur = &batch{}
		}
		o.spare = nil
	}
	return &o.cur.out
}

// note counts the ranking or order record just made.
func (o *rankingsOut) note(impression event.Millis) {
	b := o.cur
	m := &b.out.Rankings[b.counted]
	b.counted++
	b.bytes += len(m.Key) + len(m.Value) + len(m.Steps) + len(m.Seen) + RecordOverhead + 2*HeaderOverhead
	if m.Value != nil && impression >= 0 {
		b.times = append(b.times, impression)
	}
	o.made++
}

// weigh counts the bytes of dead letters, which stay in the batch's memory until it is acked.
func (o *rankingsOut) weigh(out *partition.Output, from int) {
	if o.cur == nil || out != &o.cur.out {
		return
	}
	for i := range out.DeadLetters[from:] {
		l := &out.DeadLetters[from+i]
		o.cur.bytes += len(l.Key) + len(l.Value)
	}
}

// room reports whether another ranking fits into a batch of this many bytes. The machine refuses a ranking that alone exceeds the limit.
func (o *rankingsOut) room(most int) bool {
	return o.cur == nil || o.cur.counted < maxBatchRecords && o.cur.bytes < most
}

func (o *rankingsOut) idle() bool {
	return o.inFlight == nil && (o.cur == nil || o.cur.counted == 0)
}

// next returns the open batch, which is in flight from now on; nil if there is none, or another is in flight.
func (o *rankingsOut) next() *batch {
	if o.inFlight != nil || o.cur == nil {
		return nil
	}
	if o.cur.counted == 0 {
		o.cur.reset() // dead letters only; they were copied
		return nil
	}
	b := o.cur
	o.inFlight, o.cur = b, nil
	b.headers = slices.Grow(b.headers, 2*len(b.out.Rankings))
	for i := range b.out.Rankings {
		m := &b.out.Rankings[i]
		first := len(b.headers)
		b.headers = append(b.headers, Header{StepsHeader, m.Steps})
		if len(m.Seen) > 0 {
			b.headers = append(b.headers, Header{SeenHeader, m.Seen})
		}
		b.messages = append(b.messages, OutMessage{Key: m.Key, Value: m.Value, Headers: b.headers[first:len(b.headers):len(b.headers)]})
	}
	return b
}

func (o *rankingsOut) fit(messages []OutMessage, limit int) int {
	return fitting(messages[:min(len(messages), cmp.Or(o.maxRecords, maxBatchRecords))], limit)
}

// delivered notes that messages are in the log from offset base on. base is -1 if the broker
// recognised a duplicate without its offset: the position then stays behind, which a replay tolerates.
func (o *rankingsOut) delivered(base int64, messages []OutMessage) {
	n := int64(len(messages))
	o.sequence = advance(o.sequence, len(messages))
	o.acked += n
	if base >= 0 {
		last := &messages[n-1]
		o.position = base + n
		o.witness = witnessOf(base+n-1, 0, last.Key, last.Value)
	}
}

// done ends the flight of a batch, whose memory is reused by the next but one.
func (o *rankingsOut) done() {
	o.inFlight.reset()
	o.inFlight, o.spare = nil, o.inFlight
}

func (b *batch) reset() {
	b.out.Reset()
	b.times, b.messages, b.headers = b.times[:0], b.messages[:0], b.headers[:0]
	b.bytes, b.counted = 0, 0
}

// fitting returns how many of the messages, at least one, fit into a batch with this max.message.bytes.
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
	n := RecordOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += HeaderOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// advance adds n to a sequence number, which wraps to 0 after 2³¹−1.
func advance(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

type deadLettersOut struct {
	messages   []OutMessage
	bytes      int
	inFlight   int // from the front of messages
	maxRecords int // most records of a batch, after the broker refused more; 0: no bound
	sequence   int32
	made       int64
	acked      int64
}

// maxDeadLetterBytes bounds waiting dead letters. The input topic waits above it.
const maxDeadLetterBytes = 4 << 20

func (d *deadLettersOut) room() bool { return d.bytes < maxDeadLetterBytes }
func (d *deadLettersOut) idle() bool { return len(d.messages) == 0 }

func (d *deadLettersOut) add(m OutMessage) {
	d.messages = append(d.messages, m)
	d.bytes += size(&m)
	d.made++
}

// next puts the first messages, as many as fit, in flight.
func (d *deadLettersOut) next(limit int) []OutMessage {
	n := fitting(d.messages[:min(len(d.messages), cmp.Or(d.maxRecords, maxBatchRecords))], min(maxBatchBytes, limit))
	d.inFlight = n
	return d.messages[:n:n]
}

// refused handles a batch that is too large: the dead-letter topic takes
// less than its input. It reports whether a smaller one can be tried.
func (d *deadLettersOut) refused() bool {
	if d.inFlight == 1 && !d.shorten() {
		return false
	}
	d.maxRecords, d.inFlight = max(1, d.inFlight/2), 0
	return true
}

func (d *deadLettersOut) delivered() {
	n := d.inFlight
	d.sequence = advance(d.sequence, n)
	d.acked += int64(n)
	for i := range d.messages[:n] {
		d.bytes -= size(&d.messages[i])
	}
	d.messages = append([]OutMessage(nil), d.messages[n:]...)
	d.inFlight = 0
}

// deadLetter copies a dead letter, with the headers of Kafka Streams'
// dead-letter queues (KIP-1034). limit is the topic's max.message.bytes.
func (c *Config) deadLetter(l *partition.DeadLetter, limit int) OutMessage {
	m := OutMessage{Headers: []Header{
		{"__streams.errors.exception", []byte(l.Reason)},
		{"__streams.errors.message", []byte(l.Detail)},
		{"__streams.errors.topic", []byte(c.TopicNames[l.Topic])},
		{"__streams.errors.partition", strconv.AppendInt(nil, int64(c.Partition), 10)},
		{"__streams.errors.offset", strconv.AppendInt(nil, l.Offset, 10)},
	}}
	room := batchRoom(limit) - RecordOverhead - 1024
	key := cutOff(l.Key, room/2)
	value := cutOff(l.Value, min(c.MaxRecordBytes, room-len(key)))
	if len(key)+len(value) < l.Size {
		m.Headers = append(m.Headers, truncatedFrom(l.Size))
	}
	m.Key, m.Value = append([]byte(nil), key...), append([]byte(nil), value...)
	return m
}

func truncatedFrom(n int) Header {
	return Header{"ranker.truncated.from", strconv.AppendInt(nil, int64(n), 10)}
}

// shorten cuts the first message's longer part in half. It returns false if nothing is left to cut.
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
