package dlq

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// headerReplay, on a record that was sent again, names its dead letter. Since any producer can write it, it counts only on a record with
// the letter's key and value, at the letter's destination.
const headerReplay = "ranker.replay.of"

// Query selects the dead letters to send again. Zero values select all.
type Query struct {
	Topics   []string // as in Find
	Reasons  []string
	From, To time.Time // of the refusal: from, and before
	// Offsets of the refused records, the first and the last; with Partition, or -1 for all.
	First, Last int64 // Last -1: no end
	Partition   int
	ByKey       bool // send to the partition of the key by murmur2, not to the record's
	Again       bool // also records that were refused again after a replay
	Do          bool // without it nothing is sent
}

func (q *Query) takes(l *Letter) bool {
	return (len(q.Reasons) == 0 || slices.Contains(q.Reasons, l.Reason)) &&
		(q.From.IsZero() || !l.Time.Before(q.From)) && (q.To.IsZero() || l.Time.Before(q.To)) &&
		l.Of.Offset >= q.First && (q.Last < 0 || l.Of.Offset <= q.Last) && (q.Partition < 0 || l.Of.Partition == q.Partition)
}

type Replayed struct {
	Sent      int            `json:"sent"`      // records; without Do, those to send
	ByReason  map[string]int `json:"by_reason"` // of these
	Before    int            `json:"before"`    // skipped: sent again before
	Refused   int            `json:"refused"`   // skipped: refused again after they were sent again; unless Again
	Cut       int            `json:"cut"`       // skipped: incomplete bytes
	Duplicate int            `json:"duplicate"` // skipped: another dead letter of the same record
	Done      bool           `json:"done"`      // false: nothing was sent
}

// Replay sends the records of dead letters again, unchanged, to their topic and partition. Each gets a header that names its dead letter.
// By that header and their content, letters that were sent again before are skipped, as far back as the topic is kept, and so are records
// that were refused again. Two concurrent replays can send twice.
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

// replay sends the records of one topic. It reads the dead letters twice instead of keeping them in memory.
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
	if chosen, err = b.leaveOut(ctx, q, input, chosen, sent, r, say); err != nil {
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
		say(fmt.Sprintf("sending the letters of %s[%d] again", b.topics.DLQ(input), s.Partition))
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

// refusal identifies a refused record. Records may share an offset: after an unclean election, or if a topic was made again beside its dead
// letters.
type refusal struct {
	of      At
	content [sha256.Size]byte
}

// sending is a refused record and its destination: the record's partition, or that of its key.
type sending struct {
	refusal
	key int
}

// contentOf returns a digest of key and value that distinguishes null from empty.
func contentOf(key, value []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%t %d %s %t %s", key == nil, len(key), key, value == nil, value))
}

// sends reports whether a replay of the letter sends this record.
func (s *sending) sends(one *record) bool {
	return (one.at.Partition == s.of.Partition || one.at.Partition == s.key) && contentOf(one.key, one.value) == s.content
}

// exists reports whether the topic still has the partition of the letter's record: it may have been made again with fewer, and headers of
// letters can be forged.
func exists(l *Letter, partitions int) bool {
	return l.Of.Partition >= 0 && l.Of.Partition < partitions
}

// byKey returns the partition of a letter's key; without a key, that of its record.
func byKey(l *Letter, partitions int) int {
	if len(l.Key) == 0 && exists(l, partitions) {
		return l.Of.Partition
	}
	return int(state.PartitionOf(l.Key, partitions))
}

// choose selects a partition's dead letters, the first of each record, and records the destination of every letter. It gives those selected
// the time of the record's first refusal, even if the query leaves that out.
func (b *Box) choose(ctx context.Context, q *Query, input string, s broker.Span, partitions int, sent map[string]sending, r *Replayed) (all []Letter, err error) {
	seen, first := map[refusal]bool{}, map[refusal]time.Time{}
	err = b.read(ctx, b.topics.DLQ(input), s, func(one *record) error {
		l, ok := letterOf(one)
		id := refusal{l.Of, contentOf(l.Key, l.Value)}
		if ok && l.Of.Topic == input && l.Complete() {
			sent[l.Letter.String()] = sending{id, byKey(&l, partitions)}
			if first[id].IsZero() {
				first[id] = l.Time
			}
		}
		switch {
		case !ok || l.Of.Topic != input || !q.takes(&l):
		case !l.Complete():
			r.Cut++
		case seen[id]:
			r.Duplicate++
		default:
			seen[id] = true
			l.Time, l.Key, l.Value, l.Headers = first[id], nil, nil, nil
			all = append(all, l)
		}
		return nil
	})
	return all, err
}

// leaveOut searches the input for records that were sent again, and removes their dead letters, and those of such records that were refused
// once more.
func (b *Box) leaveOut(ctx context.Context, q *Query, input string, all []Letter, sent map[string]sending, r *Replayed, say func(string)) ([]Letter, error) {
	if len(all) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(all, func(a, b Letter) int { return a.Time.Compare(b.Time) })
	into, err := b.broker.Spans(ctx, input, oldest.Time.UnixMilli()) // a record that is sent again has the time of its refusal
	if err != nil {
		return nil, err
	}
	replayed, again := map[refusal]bool{}, map[refusal]bool{}
	for _, s := range into {
		from := s.Since
		for i := range all {
			if all[i].Of.Partition == s.Partition {
				from = min(from, all[i].Of.Offset)
			}
		}
		s.First = max(s.First, from)
		say(fmt.Sprintf("looking for records sent again before: %s[%d] from offset %d to %d", input, s.Partition, s.First, s.End))
		// Records that were sent again may stand behind an open transaction.
		err = b.readAll(ctx, input, s, kafka.ReadUncommitted, func(one *record) error {
			name, _ := one.header(headerReplay)
			if of, ok := sent[string(name)]; ok && of.sends(one) {
				replayed[of.refusal], again[refusal{one.at, of.content}] = true, true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(l Letter) bool {
		switch of := sent[l.Letter.String()].refusal; {
		case replayed[of]:
			r.Before++
		case again[of] && !q.Again:
			r.Refused++
		default:
			return false
		}
		return true
	}), nil
}

// sendFrom reads a partition's dead letters again, and sends the wanted ones.
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

// sendAtOnce and sendBytes bound a request, except for its last record.
const (
	sendAtOnce = 500
	sendBytes  = 256 << 10
)

// send produces records in order, acknowledged by all replicas.
func (b *Box) send(ctx context.Context, q *Query, input string, partitions int, all []Letter) error {
	byPartition := map[int][]*Letter{}
	for i := range all {
		l := &all[i]
		p := l.Of.Partition
		if q.ByKey || !exists(l, partitions) {
			p = byKey(l, partitions)
		}
		byPartition[p] = append(byPartition[p], l)
	}
	for p, letters := range byPartition {
		if err := b.produce(ctx, input, p, letters); err != nil {
			return err
		}
	}
	return nil
}

// produce sends half as many records at once where the topic takes less.
func (b *Box) produce(ctx context.Context, topic string, partition int, letters []*Letter) error {
	records := make([]kafka.Record, len(letters))
	for i, l := range letters {
		records[i] = kafka.Record{Time: l.Time, Headers: []kafka.Header{{Key: headerReplay, Value: []byte(l.Letter.String())}}}
		if l.Key != nil {
			records[i].Key = kafka.NewBytes(l.Key)
		}
		if l.Value != nil {
			records[i].Value = kafka.NewBytes(l.Value)
		}
	}
	err := b.produceOnce(ctx, topic, partition, records)
	if half := len(letters) / 2; half > 0 && (errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)) {
		if err = b.produce(ctx, topic, partition, letters[:half]); err == nil {
			err = b.produce(ctx, topic, partition, letters[half:])
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("sending %d records to %s[%d]: %w; repeat the command: it skips records that have arrived", len(records), topic, partition, err)
	}
	return nil
}

func (b *Box) produceOnce(ctx context.Context, topic string, partition int, records []kafka.Record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := b.client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(records...)})
	if err == nil {
		err = res.Error
	}
	return err
}
