package dlq

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// headerReplay names, on a record that was sent again, the dead letter that it was sent from. Any producer can write it: it counts
// on a record that has the letter's key and value, and stands where that letter is sent.
const headerReplay = "ranker.replay.of"

// Query says which dead letters to send again. Zero values choose all.
type Query struct {
	Topics   []string // as in Find
	Reasons  []string
	From, To time.Time // of the refusal: from, and before
	// Offsets of the refused records, the first and the last; with Partition, or -1 for all.
	First, Last int64 // Last -1: no end
	Partition   int
	ByKey       bool // to the partition of the key by murmur2, not to that where the record was
	Again       bool // also what was sent again before, and was refused once more
	Do          bool // without it nothing is sent
}

// takes tells whether a dead letter is asked for.
func (q *Query) takes(l *Letter) bool {
	return (len(q.Reasons) == 0 || slices.Contains(q.Reasons, l.Reason)) &&
		(q.From.IsZero() || !l.Time.Before(q.From)) && (q.To.IsZero() || l.Time.Before(q.To)) &&
		l.Of.Offset >= q.First && (q.Last < 0 || l.Of.Offset <= q.Last) && (q.Partition < 0 || l.Of.Partition == q.Partition)
}

// Replayed is what Replay did, or would do.
type Replayed struct {
	Sent      int            `json:"sent"`      // records; without Do, that would be
	ByReason  map[string]int `json:"by_reason"` // of these
	Before    int            `json:"before"`    // left out: sent again before
	Refused   int            `json:"refused"`   // left out: refused again after they were sent again; unless Again
	Cut       int            `json:"cut"`       // left out: the bytes are not all there
	Duplicate int            `json:"duplicate"` // left out: a further dead letter of the same record
	Done      bool           `json:"done"`      // false: nothing was sent
}

// Replay sends the records of dead letters again, as they were, to the topic and partition where they were refused. Each carries
// a header that names its dead letter: by that and by its contents, a letter that was sent again before is left out, as far back as the topic is kept,
// and so are records that were refused after having been sent again. Two that run at the same time can send twice.
func (b *Box) Replay(ctx context.Context, q Query, say func(string)) (*Replayed, error) {
	inputs, err := b.inputs(q.Topics)
	if err != nil {
		return nil, err
	}
	r := &Replayed{ByReason: map[string]int{}, Done: q.Do}
	for _, input := range inputs {
		if err := b.replay(ctx, &q, input, r, say); err != nil {
			return r, err
		}
	}
	return r, nil
}

// replay sends the records of one topic again. It reads the dead letters twice, so that it need not hold them.
func (b *Box) replay(ctx context.Context, q *Query, input string, r *Replayed, say func(string)) error {
	boxes, err := b.broker.Spans(ctx, b.topics.DLQ(input), 0)
	if err != nil {
		return err
	}
	into, err := b.broker.Spans(ctx, input, 0)
	if err != nil {
		return err
	}
	var chosen []Letter // without their bytes
	sent := map[string]sending{}
	for _, s := range boxes {
		say(fmt.Sprintf("reading %s[%d]", b.topics.DLQ(input), s.Partition))
		found, err := b.choose(ctx, q, input, s, len(into), sent, r)
		if err != nil {
			return err
		}
		chosen = append(chosen, found...)
	}
	if chosen, err = b.leaveOut(ctx, q, input, chosen, sent, into, r, say); err != nil {
		return err
	}
	wanted := map[At]bool{}
	for i := range chosen {
		wanted[chosen[i].Letter] = true
		if !q.Do {
			r.count(&chosen[i])
		}
	}
	if !q.Do || len(wanted) == 0 {
		return nil
	}
	for _, s := range boxes {
		say(fmt.Sprintf("sending again what is in %s[%d]", b.topics.DLQ(input), s.Partition))
		if err := b.sendFrom(ctx, q, input, s, len(into), wanted, r); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replayed) count(l *Letter) {
	r.Sent++
	r.ByReason[l.Reason]++
}

// sending is how a dead letter is sent: to the partition where its record was, or to that of its key.
type sending struct {
	content [sha256.Size]byte
	at, key int
}

// contentOf is the digest of a key and a value, null told from empty.
func contentOf(key, value []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%t %d %s %t %s", key == nil, len(key), key, value == nil, value))
}

// sends tells whether a record is what a replay of the letter sends.
func (s *sending) sends(one *record) bool {
	return (one.at.Partition == s.at || one.at.Partition == s.key) && contentOf(one.key, one.value) == s.content
}

// byKey is the partition of a letter's key; that of its record where it has none.
func byKey(l *Letter, partitions int) int {
	if len(l.Key) == 0 {
		return l.Of.Partition
	}
	numbers := make([]int, partitions)
	for i := range numbers {
		numbers[i] = i
	}
	return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: l.Key}, numbers...)
}

// choose reads which dead letters of a partition are asked for, the first of each record. It notes of every letter how it is sent.
func (b *Box) choose(ctx context.Context, q *Query, input string, s broker.Span, partitions int, sent map[string]sending, r *Replayed) (all []Letter, err error) {
	seen := map[int64]bool{}
	err = b.read(ctx, b.topics.DLQ(input), s, func(one *record) error {
		l, ok := letterOf(one)
		if ok && l.Of.Topic == input && l.Whole() {
			sent[l.Letter.String()] = sending{contentOf(l.Key, l.Value), l.Of.Partition, byKey(&l, partitions)}
		}
		switch {
		case !ok || l.Of.Topic != input || !q.takes(&l):
		case !l.Whole():
			r.Cut++
		case seen[l.Of.Offset]:
			r.Duplicate++
		default:
			seen[l.Of.Offset] = true
			l.Key, l.Value, l.Headers = nil, nil, nil
			all = append(all, l)
		}
		return nil
	})
	return all, err
}

// leaveOut looks through the input for records that were sent again, and leaves their dead letters out, and those of such records
// that were refused once more.
func (b *Box) leaveOut(ctx context.Context, q *Query, input string, all []Letter, sent map[string]sending, into []broker.Span, r *Replayed, say func(string)) ([]Letter, error) {
	if len(all) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(all, func(a, b Letter) int { return a.Time.Compare(b.Time) })
	replayed, again := map[string]bool{}, map[At]bool{}
	for _, s := range into {
		from, err := b.since(ctx, input, s, oldest.Time) // a record that is sent again has the time of its refusal
		if err != nil {
			return nil, err
		}
		for i := range all {
			if all[i].Of.Partition == s.Partition {
				from = min(from, all[i].Of.Offset)
			}
		}
		s.First = max(s.First, from)
		say(fmt.Sprintf("looking for what was sent again before: %s[%d] from offset %d to %d", input, s.Partition, s.First, s.End))
		err = b.read(ctx, input, s, func(one *record) error {
			name, _ := one.header(headerReplay)
			if of, ok := sent[string(name)]; ok && of.sends(one) {
				replayed[string(name)], again[one.at] = true, true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(l Letter) bool {
		switch {
		case replayed[l.Letter.String()]:
			r.Before++
		case again[l.Of] && !q.Again:
			r.Refused++
		default:
			return false
		}
		return true
	}), nil
}

// sendFrom reads the dead letters of a partition again, and sends those that are wanted.
func (b *Box) sendFrom(ctx context.Context, q *Query, input string, s broker.Span, partitions int, wanted map[At]bool, r *Replayed) error {
	var waiting []Letter
	size := 0
	flush := func() error {
		if err := b.send(ctx, q, input, partitions, waiting); err != nil {
			return err
		}
		for i := range waiting {
			r.count(&waiting[i])
		}
		waiting, size = nil, 0
		return nil
	}
	err := b.read(ctx, b.topics.DLQ(input), s, func(one *record) error {
		l, ok := letterOf(one)
		if !ok || !wanted[l.Letter] {
			return nil
		}
		waiting = append(waiting, l)
		if size += len(l.Key) + len(l.Value); len(waiting) < sendAtOnce && size < sendBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// since is the first offset of a partition at or after a time: where a record that was sent by its key can be.
func (b *Box) since(ctx context.Context, topic string, s broker.Span, at time.Time) (int64, error) {
	res, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.TimeOffsetOf(s.Partition, at)}}})
	if err != nil {
		return 0, fmt.Errorf("asking for the offset of %s[%d] at %v: %w", topic, s.Partition, at, err)
	}
	for _, p := range res.Topics[topic] {
		for offset := range p.Offsets {
			if offset >= 0 {
				return max(s.First, offset), nil
			}
		}
	}
	return s.End, nil
}

// sendAtOnce and sendBytes are when what waits is sent: a request takes so much and a record more.
const (
	sendAtOnce = 500
	sendBytes  = 256 << 10
)

// send produces records, in order, acknowledged by all replicas.
func (b *Box) send(ctx context.Context, q *Query, input string, partitions int, all []Letter) error {
	byPartition := map[int][]kafka.Record{}
	for i := range all {
		l := &all[i]
		p := l.Of.Partition
		if q.ByKey {
			p = byKey(l, partitions)
		}
		one := kafka.Record{Time: l.Time, Headers: []kafka.Header{{Key: headerReplay, Value: []byte(l.Letter.String())}}}
		if l.Key != nil {
			one.Key = kafka.NewBytes(l.Key)
		}
		if l.Value != nil {
			one.Value = kafka.NewBytes(l.Value)
		}
		byPartition[p] = append(byPartition[p], one)
	}
	for p, records := range byPartition {
		if err := b.produce(ctx, input, p, records); err != nil {
			return err
		}
	}
	return nil
}

func (b *Box) produce(ctx context.Context, topic string, partition int, records []kafka.Record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := b.client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(records...)})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("sending %d records to %s[%d]: %w; give the command again: what has arrived is left out", len(records), topic, partition, err)
	}
	return nil
}
