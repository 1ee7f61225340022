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

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	readUncommitted int8 = 0
	readCommitted   int8 = 1

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
	l, lead, err := p.leader(ctx, p.c.topic(f.Topic))
	if err != nil {
		return task.Fetched{}, err
	}
	lead.epoch = p.trusted(f.Topic, lead.epoch)
	if deadline, ok := ctx.Deadline(); ok {
		f.MaxWait = max(0, min(f.MaxWait, time.Until(deadline)-waitMargin))
	}
	out := task.Fetched{Next: f.Offset}
	a, err := p.ask(ctx, l, lead, &f)
	if err == nil {
		d := fetchDecoder{asked: &f, maxValue: int64(p.c.o.MaxValue), traces: p.c.o.Traces}
		if err = d.decode(ctx, a, &out); err != nil && leaderMoved(err) {
			p.c.metadataCache.outdated(l)
		}
	}
	if err == nil {
		err = p.c.read(ctx, f.Topic, &out)
	}
	if err != nil {
		p.distrust(f.Topic)
		return task.Fetched{}, fmt.Errorf("fetching %s: %w", partitionName(p.c.topic(f.Topic), p.number), err)
	}
	return out, nil
}

func (p *Partition) ask(ctx context.Context, l *metadata, lead leader, f *task.Fetch) (*fetchedPartition, error) {
	var got *fetchedPartition
	a, err := p.c.do(ctx, brokerExchange{p.fetchRequest(f, lead.epoch), lead.broker})
	if err == nil {
		got, err = parseFetch(a, p.c.topic(f.Topic), p.number)
	}
	if err != nil {
		p.c.metadataCache.outdated(l)
		return nil, err
	}
	return got, nil
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

func (c *Client) topic(t event.Topic) string {
	if int(t) >= len(c.o.Topics) {
		return ""
	}
	return c.o.Topics[t]
}

func (p *Partition) fetchRequest(f *task.Fetch, epoch int32) *exchange {
	name, isolation := p.c.topic(f.Topic), readUncommitted
	if readsCommitted(f.Topic) {
		isolation = readCommitted
	}
	wait, offset, bytes := f.MaxWait, f.Offset, min(max(1, f.MaxBytes), 1<<30)
	limit := bytes + maxBatchSize
	x := p.c.exchange(apiFetch, func(version int16, b []byte) []byte {
		b = appendInt32(b, -1) // no replica
		b = appendInt32(b, int32(wait.Milliseconds()))
		b = appendInt32(b, 1)            // min bytes
		b = appendInt32(b, int32(limit)) // the partition's own limit, below, decides
		b = append(b, byte(isolation))
		if version >= 7 { // no fetch session
			b = appendInt32(b, 0)
			b = appendInt32(b, -1)
		}
		b = appendInt32(b, 1)
		b = appendString(b, name)
		b = appendInt32(b, 1)
		b = appendInt32(b, p.number)
		if version >= 9 {
			b = appendInt32(b, epoch)
		}
		b = appendInt64(b, offset)
		b = appendInt64(b, -1) // log start: followers only
		b = appendInt32(b, int32(bytes))
		if version >= 7 {
			b = appendInt32(b, 0)
		}
		if version >= 11 {
			b = appendString(b, "") // rack
		}
		return b
	})
	x.limit = limit
	return x
}

// fetchedPartition is one partition's part of an answer, undecoded.
type fetchedPartition struct {
	code     kafka.Error
	high     int64
	stable   int64 // -1 if not reported: read uncommitted
	logStart int64
	aborted  []abortedTxn
	records  []byte
}

// abortedTxn invalidates the producer's records from first to its next abort marker.
type abortedTxn struct{ producer, first int64 }

func parseFetch(a *answer, topic string, number int32) (*fetchedPartition, error) {
	r := reader{b: a.body}
	r.int32() // throttle time
	if a.version >= 7 {
		if code := kafka.Error(r.int16()); code != 0 {
			return nil, brokerError(code)
		}
		r.int32() // session
	}
	if r.count(2+4) != 1 || r.string() != topic || r.count(4+2+8+8+8+4+4) != 1 || r.int32() != number {
		return nil, fmt.Errorf("%w: fetch", errAnswer)
	}
	f := &fetchedPartition{code: kafka.Error(r.int16()), high: r.int64(), stable: r.int64(), logStart: r.int64()}
	for k := r.count(16); k > 0; k-- {
		f.aborted = append(f.aborted, abortedTxn{producer: r.int64(), first: r.int64()})
	}
	if a.version >= 11 {
		r.int32() // preferred replica: we gave no rack
	}
	if f.records = r.bytes(); r.bad {
		return nil, fmt.Errorf("%w: fetch", errAnswer)
	}
	return f, nil
}

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
}

const recordCost = int64(unsafe.Sizeof(partition.Record{}))

// decode fills out. An unreadable record fails only if it is the first. Otherwise the answer ends before it.
func (d *fetchDecoder) decode(ctx context.Context, a *fetchedPartition, out *task.Fetched) error {
	if a.code != 0 {
		return brokerError(a.code)
	}
	out.High, out.LogStart = a.high, a.logStart
	if readsCommitted(d.asked.Topic) {
		d.aborted = a.aborted
		slices.SortFunc(d.aborted, func(x, y abortedTxn) int { return cmp.Compare(x.first, y.first) })
	}
	d.room = int64(max(d.asked.MaxBytes, 1)) * decodeFactor
	out.Records = make([]partition.Record, 0, min(estimateRecords(a.records), d.room/recordCost+1))
	rest := a.records
	for len(rest) > 0 && !d.full(out) {
		b, next, err := ReadBatch(rest)
		switch {
		case errors.Is(err, errPartial):
			err = fmt.Errorf("%w: a batch cut off at offset %d", errAnswer, d.asked.Offset)
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
	out.LastRead = out.Next >= out.High && (a.stable < 0 || a.stable == a.high)
	return nil
}

// full reports whether the answer ends here. It holds at least one record.
func (d *fetchDecoder) full(out *task.Fetched) bool { return d.room <= 0 && len(out.Records) > 0 }

// batch appends a batch's records, up to the budget. After an error, the records before it have been appended.
func (d *fetchDecoder) batch(ctx context.Context, b *Batch, out *task.Fetched) error {
	for len(d.aborted) > 0 && d.aborted[0].first <= b.LastOffset() {
		d.open = append(d.open, d.aborted[0].producer)
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
