package broker

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const (
	readCommitted = 1 // isolation level

	// maxBatchSize bounds a compressed batch. A broker sends the first one in full, ignoring max_bytes. Producers are bounded by
	// socket.request.max.bytes, 100 MiB by default.
	maxBatchSize = 128 << 20
	// decodeFactor times the requested bytes is the unpacked size from which an answer ends before its next record.
	decodeFactor = 8
	// waitMargin is the part of a long poll's deadline reserved for the answer's way back.
	waitMargin = 200 * time.Millisecond
)

// Fetch reads from a topic of this partition number: only committed records of an input topic, all of rankings. It waits up to MaxWait for
// the first byte. Uncompressed records keep the memory of the whole answer alive.
func (p *Partition) Fetch(ctx context.Context, f task.Fetch) (task.Fetched, error) {
	l, lead, err := p.leader(ctx, p.c.Topic(f.Topic))
	if err != nil {
		return task.Fetched{}, err
	}
	lead.epoch = p.trusted(f.Topic, lead.epoch)
	if deadline, ok := ctx.Deadline(); ok {
		f.MaxWait = max(0, min(f.MaxWait, time.Until(deadline)-waitMargin))
	}
	out := task.Fetched{Next: f.Offset}
	d := fetchDecoder{asked: &f, maxValue: int64(p.c.o.MaxValue), traces: p.c.o.Traces, epoch: -1}
	a, err := p.ask(ctx, l, lead, &f)
	if err == nil {
		if err = d.decode(ctx, a, &out); err != nil && leaderMoved(err) {
			p.c.metadataCache.outdated(l)
		}
	}
	if err == nil {
		err = p.c.read(ctx, f.Topic, &out)
	}
	if err != nil {
		if !throttled(err) {
			p.distrust(f.Topic)
		}
		return task.Fetched{}, fmt.Errorf("fetching %s: %w", partitionName(p.c.Topic(f.Topic), p.number), err)
	}
	p.note(f.Topic, out.Next, d.epoch)
	return out, nil
}

func (p *Partition) ask(ctx context.Context, l *metadata, lead leader, f *task.Fetch) (*kmsg.FetchResponseTopicPartition, error) {
	res, err := p.fetchRequest(f, lead.epoch).RequestWith(ctx, p.c.to(wire.ToBroker(lead.broker)))
	var got *kmsg.FetchResponseTopicPartition
	if err == nil {
		got, err = fetched(res, p.c.Topic(f.Topic), p.number)
	}
	if err != nil {
		if !throttled(err) {
			p.c.metadataCache.outdated(l)
		}
		return nil, err
	}
	return got, nil
}

func throttled(err error) bool {
	_, ok := errors.AsType[task.Throttled](err)
	return ok
}

// readsCommitted reports whether records of open and aborted transactions of a topic are skipped.
func readsCommitted(t event.Topic) bool { return t != event.Rankings }

func (p *Partition) leader(ctx context.Context, topic string) (*metadata, leader, error) {
	none := leader{-1, -1}
	if topic == "" {
		return nil, none, fmt.Errorf("%w: the topic is not configured", task.ErrUnsupported)
	}
	l, err := p.c.metadata(ctx)
	if err != nil {
		return nil, none, err
	}
	lead, err := l.leader(topic, p.number)
	if err != nil {
		p.c.metadataCache.outdated(l)
		return nil, none, err
	}
	return l, lead, nil
}

// trusted returns the epoch to fetch with: that of the last check of the log, even if a newer leader is known. So the first fetch after a
// change of leader fails (KIP-320), and the task checks the log for lost records before it reads on.
func (p *Partition) trusted(t event.Topic, present int32) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epochs[t] < 0 {
		p.epochs[t] = present
	}
	return p.epochs[t]
}

// distrust is called when the task receives an error, after which it checks the log and reads it in its present epoch.
func (p *Partition) distrust(t event.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs[t] = -1
}

// note keeps the farthest offset read, and the epoch of the leader that appended the batch before it.
func (p *Partition) note(t event.Topic, next int64, epoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch >= 0 && next >= p.read[t].next {
		p.read[t] = position{next, epoch}
	}
}

func (p *Partition) fetchRequest(f *task.Fetch, epoch int32) *kmsg.FetchRequest {
	one := kmsg.NewFetchRequestTopicPartition()
	one.Partition, one.CurrentLeaderEpoch, one.FetchOffset = p.number, epoch, f.Offset
	one.PartitionMaxBytes = int32(min(max(1, f.MaxBytes), 1<<30))
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = p.c.Topic(f.Topic), []kmsg.FetchRequestTopicPartition{one}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes = int32(f.MaxWait.Milliseconds()), 1
	req.MaxBytes = one.PartitionMaxBytes + maxBatchSize // the partition's own limit decides
	if readsCommitted(f.Topic) {
		req.IsolationLevel = readCommitted
	}
	req.Topics = []kmsg.FetchRequestTopic{topic}
	return req
}

// fetched returns the only partition of an answer.
func fetched(res *kmsg.FetchResponse, topic string, number int32) (*kmsg.FetchResponseTopicPartition, error) {
	if err := brokerError(res.ErrorCode); err != nil {
		return nil, err
	}
	if len(res.Topics) == 0 && res.ThrottleMillis > 0 {
		return nil, task.Throttled(time.Duration(res.ThrottleMillis) * time.Millisecond)
	}
	if len(res.Topics) != 1 || res.Topics[0].Topic != topic || len(res.Topics[0].Partitions) != 1 ||
		res.Topics[0].Partitions[0].Partition != number {
		return nil, fmt.Errorf("%w: fetch", wire.ErrAnswer)
	}
	return &res.Topics[0].Partitions[0], nil
}

// abortedTxn invalidates the producer's records from FirstOffset to its next abort marker.
type abortedTxn = kmsg.FetchResponseTopicPartitionAbortedTransaction

// fetchDecoder decodes an answer into records.
//
// An answer ends once its records reach the budget, even within a batch. The next fetch gets the same batch again and skips the records
// already delivered. So a batch of n unpacked bytes is unpacked up to its middle n/budget times on average. An answer usually holds a whole
// batch. Skipping a record costs a fraction of processing one.
type fetchDecoder struct {
	asked    *task.Fetch
	maxValue int64
	traces   bool         // read traces
	aborted  []abortedTxn // not begun, by first offset
	open     []int64      // producers in an aborted transaction
	room     int64        // unused budget
	epoch    int32        // leader's, of the last batch; -1: none
}

const recordCost = int64(unsafe.Sizeof(partition.Record{}))

// decode fills out. An unreadable record fails only if it is the first. Otherwise the answer ends before it.
func (d *fetchDecoder) decode(ctx context.Context, a *kmsg.FetchResponseTopicPartition, out *task.Fetched) error {
	if err := brokerError(a.ErrorCode); err != nil {
		return err
	}
	out.High, out.Readable, out.LogStart = a.HighWatermark, a.HighWatermark, a.LogStartOffset
	if readsCommitted(d.asked.Topic) {
		if a.LastStableOffset >= 0 {
			out.Readable = a.LastStableOffset
		}
		d.aborted = a.AbortedTransactions
		slices.SortFunc(d.aborted, func(x, y abortedTxn) int { return cmp.Compare(x.FirstOffset, y.FirstOffset) })
	}
	d.room = int64(max(d.asked.MaxBytes, 1)) * decodeFactor
	out.Records = make([]partition.Record, 0, min(estimateRecords(a.RecordBatches), d.room/recordCost+1))
	rest := a.RecordBatches
	for len(rest) > 0 && !d.full(out) {
		b, next, err := ReadBatch(rest)
		switch {
		case errors.Is(err, errPartial):
			err = fmt.Errorf("%w: a batch cut off at offset %d", wire.ErrAnswer, d.asked.Offset)
		case err == nil:
			err = d.batch(ctx, &b, out)
		}
		if err != nil {
			if out.Next > d.asked.Offset {
				break
			}
			return err
		}
		rest = next
	}
	out.LastRead = out.Next >= out.High && (a.LastStableOffset < 0 || a.LastStableOffset == a.HighWatermark)
	return nil
}

// full reports whether the answer ends here. It holds at least one record.
func (d *fetchDecoder) full(out *task.Fetched) bool { return d.room <= 0 && len(out.Records) > 0 }

// batch appends a batch's records, up to the budget. After an error, the records before it have been appended.
func (d *fetchDecoder) batch(ctx context.Context, b *Batch, out *task.Fetched) error {
	d.epoch = b.leaderEpoch
	for len(d.aborted) > 0 && d.aborted[0].FirstOffset <= b.LastOffset() {
		d.open = append(d.open, d.aborted[0].ProducerID)
		d.aborted = d.aborted[1:]
	}
	switch {
	case b.Control():
		m, ok, err := b.marker(ctx)
		if err != nil {
			return err
		}
		if ok && m.Abort {
			d.open = slices.DeleteFunc(d.open, func(id int64) bool { return id == m.Producer.ID })
		}
		if ok && m.Offset >= d.asked.Offset {
			out.Markers = append(out.Markers, m)
		}
	case b.LastOffset() < d.asked.Offset || b.Transactional() && slices.Contains(d.open, b.Producer.ID):
	default:
		if all, err := d.records(ctx, b, out); err != nil || !all {
			return err
		}
	}
	out.Next = max(out.Next, b.LastOffset()+1)
	return nil
}

// records appends a batch's records; all is false if the budget ended before.
func (d *fetchDecoder) records(ctx context.Context, b *Batch, out *task.Fetched) (all bool, err error) {
	r := recordReader{topic: d.asked.Topic, from: d.asked.Offset, most: d.maxValue, traces: d.traces}
	if d.asked.Topic == event.Rankings {
		r.most = maxBatchSize // a worker's own records are read in full
	}
	defer r.end()
	if err := r.read(ctx, b); err != nil {
		return false, err
	}
	for r.unread > 0 {
		if d.full(out) {
			return false, nil
		}
		rec, steps, ok, err := r.next()
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		out.Records = append(out.Records, rec)
		out.Next = max(out.Next, rec.Offset+1)
		d.room -= recordCost + int64(len(rec.Key)+len(rec.Value))
		if d.asked.Topic == event.Rankings {
			out.Origins = append(out.Origins, task.Origin{Producer: b.Producer, Transactional: b.Transactional(), Steps: steps, Seen: r.seen})
			d.room -= originCost + int64(len(steps)+len(r.seen))
		}
		if len(r.trace.Parent) > 0 {
			r.trace.Record = len(out.Records) - 1
			out.Traces = append(out.Traces, r.trace)
			d.room -= traceCost + int64(len(r.trace.Parent)+len(r.trace.State))
			r.trace = task.Trace{}
		}
	}
	return true, nil
}

const originCost = int64(unsafe.Sizeof(task.Origin{}))

// estimateRecords estimates the number of records in batches, assuming that compression shrinks a record of 7 bytes to one at most.
func estimateRecords(data []byte) (total int64) {
	for len(data) >= BatchHeaderSize {
		size := int64(int32(binary.BigEndian.Uint32(data[atLength:]))) + atLeaderEpoch
		count := int64(int32(binary.BigEndian.Uint32(data[atCount:])))
		if size < BatchHeaderSize || size > int64(len(data)) {
			break
		}
		total += max(0, min(count, size-BatchHeaderSize))
		data = data[size:]
	}
	return total
}

// ErrContent: this value cannot be read at present, since something it needs is missing. Other values can be read.
var ErrContent = errors.New("this record cannot be read")

// Contents reads input records whose values cannot be read alone.
type Contents interface {
	// Read reads values of a topic in order. For nil, and for a value that can be read alone, it returns an empty Content. It stops before
	// the first value that cannot be read at present, with the error: ErrContent if only this value is affected.
	Read(ctx context.Context, topic event.Topic, values [][]byte) ([]Content, error)
}

// Content is the result of reading a value: the same record in Protobuf, or its fault. Both are functions of the value that never change.
type Content struct {
	Plain []byte
	Fault *event.Fault
}

// read converts the records of an answer. A record that cannot be read at present fails only if it is the first. Otherwise the answer ends
// before it.
func (c *Client) read(ctx context.Context, t event.Topic, out *task.Fetched) error {
	if c.o.Contents == nil || t >= event.Inputs || len(out.Records) == 0 {
		return nil
	}
	values := make([][]byte, len(out.Records))
	for i := range out.Records {
		if rec := &out.Records[i]; rec.Cut == nil && len(rec.Value) <= c.o.MaxValue {
			values[i] = rec.Value
		}
	}
	contents, err := c.o.Contents.Read(ctx, t, values)
	for i := range contents {
		out.Records[i].Plain, out.Records[i].Fault = contents[i].Plain, contents[i].Fault
	}
	read := len(contents)
	if err == nil || read == 0 {
		return err
	}
	out.Next, out.LastRead = out.Records[read].Offset, false
	out.Records = slices.Clip(out.Records[:read])
	out.Traces = slices.DeleteFunc(out.Traces, func(t task.Trace) bool { return t.Record >= read })
	out.Markers = slices.DeleteFunc(out.Markers, func(m task.Marker) bool { return m.Offset >= out.Next })
	return nil
}
