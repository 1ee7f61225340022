package broker

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
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

	// maxBatchSize bounds a compressed batch. A broker sends the first one whole, whatever max_bytes says; producers
	// cannot send more than socket.request.max.bytes, 100 MiB by default.
	maxBatchSize = 128 << 20
	// decodeFactor times the bytes asked for, unpacked, an answer ends before its next record.
	decodeFactor = 8
	// waitMargin is what a long poll leaves of its deadline for the way back.
	waitMargin = 200 * time.Millisecond
)

// Fetch reads from topics of this partition number: input topics committed records only, rankings as it stands. It
// waits up to MaxWait for the first byte, and gives one answer for each part, in order; what fails fails for its part.
// Records that were not compressed keep the memory of the whole answer alive.
func (p *Partition) Fetch(ctx context.Context, f task.Fetch) []task.Fetched {
	out := make([]task.Fetched, len(f.Parts))
	groups := p.route(ctx, f.Parts, out)
	var wg sync.WaitGroup
	for i := range groups {
		if i == len(groups)-1 {
			p.fetchFrom(ctx, &groups[i], f, out)
			break
		}
		wg.Go(func() { p.fetchFrom(ctx, &groups[i], f, out) })
	}
	wg.Wait()
	return out
}

// fetchGroup are the parts that go into one request.
type fetchGroup struct {
	layout    *layout
	broker    int32
	isolation int8
	parts     []int
	epochs    []int32 // of their leaders, as far as we know
}

// route sorts the parts by leader and isolation level.
func (p *Partition) route(ctx context.Context, parts []task.FetchPart, out []task.Fetched) []fetchGroup {
	var groups []fetchGroup
	for i := range parts {
		part := &parts[i]
		out[i] = task.Fetched{Topic: part.Topic, Next: part.Offset, High: -1, LogStart: -1}
		l, lead, err := p.leader(ctx, p.c.topic(part.Topic))
		if err != nil {
			out[i].Err = err
			continue
		}
		isolation := readCommitted
		if part.Topic == event.Rankings {
			isolation = readUncommitted
		}
		g := slices.IndexFunc(groups, func(g fetchGroup) bool { return g.broker == lead.broker && g.isolation == isolation })
		if g < 0 {
			g = len(groups)
			groups = append(groups, fetchGroup{layout: l, broker: lead.broker, isolation: isolation})
		}
		groups[g].parts = append(groups[g].parts, i)
		groups[g].epochs = append(groups[g].epochs, p.trusted(part.Topic, lead.epoch))
	}
	return groups
}

// leader finds out who leads a topic's partition.
func (p *Partition) leader(ctx context.Context, topic string) (*layout, leader, error) {
	none := leader{-1, -1}
	if topic == "" {
		return nil, none, fmt.Errorf("%w: the topic is not configured", task.ErrUnsupported)
	}
	l, err := p.c.layout(ctx)
	if err != nil {
		return nil, none, err
	}
	lead, err := l.leader(topic, p.number)
	if err != nil {
		p.c.layouts.outdated(l)
		return nil, none, err
	}
	return l, lead, nil
}

// trusted is the epoch that a topic is read in: that in which the log was last made sure of, whatever is known since of
// other leaders. So a change of leader fails the next fetch (KIP-320), also where its metadata have come with somebody
// else's request: the log may have lost records, and the task checks it before it reads on.
func (p *Partition) trusted(t event.Topic, present int32) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epochs[t] < 0 {
		p.epochs[t] = present
	}
	return p.epochs[t]
}

// distrust is called when the task is told of an error: it checks the log, and reads it as it then is.
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

// fetchFrom carries out one request. A part that got nothing, or only a piece of a batch, because others came before it
// is asked for again alone: a broker sends at least one whole batch to each request.
func (p *Partition) fetchFrom(ctx context.Context, g *fetchGroup, f task.Fetch, out []task.Fetched) {
	for _, i := range p.fetchOnce(ctx, g, f, out) {
		alone := *g
		alone.parts, alone.epochs = []int{i}, []int32{g.epochs[slices.Index(g.parts, i)]}
		p.fetchOnce(ctx, &alone, f, out)
	}
}

func (p *Partition) fetchOnce(ctx context.Context, g *fetchGroup, f task.Fetch, out []task.Fetched) (starved []int) {
	fail := func(err error) {
		p.c.layouts.outdated(g.layout)
		for _, i := range g.parts {
			out[i].Err = fmt.Errorf("fetching %s: %w", where(p.c.topic(f.Parts[i].Topic), p.number), err)
			p.distrust(f.Parts[i].Topic)
		}
	}
	wait := f.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(0, min(wait, time.Until(deadline)-waitMargin))
	}
	req := p.c.fetchRequest(g, f.Parts, p.number, wait)
	a, err := p.c.do(ctx, brokerExchange{req, g.broker})
	if err != nil {
		fail(err)
		return nil
	}
	parts, err := parseFetch(a)
	if err != nil {
		fail(err)
		return nil
	}
	for _, i := range g.parts {
		part := &f.Parts[i]
		name := p.c.topic(part.Topic)
		d := fetchDecoder{part: part, committed: g.isolation == readCommitted, alone: len(g.parts) == 1, maxValue: int64(p.c.o.MaxValue)}
		again := !d.alone
		err := fmt.Errorf("%w: nothing about it", errAnswer)
		at := slices.IndexFunc(parts, func(a fetchedPart) bool { return a.topic == name && a.partition == p.number })
		if at >= 0 {
			again, err = d.decode(ctx, &parts[at], &out[i])
		}
		switch {
		case again:
			starved = append(starved, i)
		case err != nil:
			out[i].Err = fmt.Errorf("fetching %s: %w", where(name, p.number), err)
			p.distrust(part.Topic)
			if moved(err) {
				p.c.layouts.outdated(g.layout)
			}
		}
	}
	return starved
}

func (c *Client) fetchRequest(g *fetchGroup, parts []task.FetchPart, number int32, wait time.Duration) *exchange {
	epochs := g.epochs
	asked := make([]task.FetchPart, len(g.parts))
	names := make([]string, len(g.parts))
	total := 0
	for i, at := range g.parts {
		asked[i], names[i] = parts[at], c.topic(parts[at].Topic)
		total += max(1, asked[i].MaxBytes)
	}
	isolation, limit := g.isolation, min(total, 1<<30)+maxBatchSize
	x := c.exchange(apiFetch, func(version int16, b []byte) []byte {
		b = appendInt32(b, -1) // no replica
		b = appendInt32(b, int32(wait.Milliseconds()))
		b = appendInt32(b, 1)            // min bytes
		b = appendInt32(b, int32(limit)) // the parts' limits decide, not their sum
		b = append(b, byte(isolation))
		if version >= 7 { // no fetch session
			b = appendInt32(b, 0)
			b = appendInt32(b, -1)
		}
		b = appendInt32(b, int32(len(asked)))
		for i := range asked {
			b = appendString(b, names[i])
			b = appendInt32(b, 1)
			b = appendInt32(b, number)
			if version >= 9 {
				b = appendInt32(b, epochs[i])
			}
			b = appendInt64(b, asked[i].Offset)
			b = appendInt64(b, -1) // log start: followers only
			b = appendInt32(b, int32(min(max(1, asked[i].MaxBytes), 1<<30)))
		}
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

// fetchedPart is a topic's part of the answer as it came.
type fetchedPart struct {
	topic     string
	partition int32
	code      kafka.Error
	high      int64
	stable    int64 // -1 where the broker does not say: read uncommitted
	logStart  int64
	aborted   []abortedTxn
	records   []byte
}

// abortedTxn says that the producer's records from first to its next abort marker do not count.
type abortedTxn struct{ producer, first int64 }

func parseFetch(a *answer) ([]fetchedPart, error) {
	r := reader{b: a.body}
	r.int32() // throttle time
	if a.version >= 7 {
		if code := kafka.Error(r.int16()); code != 0 {
			return nil, brokerError(code)
		}
		r.int32() // session
	}
	var parts []fetchedPart
	for n := r.count(2 + 4); n > 0 && !r.bad; n-- {
		name := r.string()
		for m := r.count(4 + 2 + 8 + 8 + 8 + 4 + 4); m > 0 && !r.bad; m-- {
			f := fetchedPart{topic: name, partition: r.int32(), code: kafka.Error(r.int16()), high: r.int64(),
				stable: r.int64(), logStart: r.int64()}
			for k := r.count(16); k > 0; k-- {
				f.aborted = append(f.aborted, abortedTxn{producer: r.int64(), first: r.int64()})
			}
			if a.version >= 11 {
				r.int32() // preferred replica: we gave no rack
			}
			f.records = r.bytes()
			parts = append(parts, f)
		}
	}
	if r.bad {
		return nil, fmt.Errorf("%w: fetch", errAnswer)
	}
	return parts, nil
}

// fetchDecoder turns what came for one part into what the task asked for.
//
// An answer ends before its next record once what it holds has come to the budget, in the middle of a batch too: the next
// fetch, from behind its last record, gets the same batch again and goes past what was given. So a batch of n bytes,
// unpacked, is unpacked up to its middle n/budget times on average. That is for batches far beyond the usual, which an
// answer holds whole; and what is passed costs a fraction of what it costs to work on what is given.
type fetchDecoder struct {
	part      *task.FetchPart
	committed bool
	alone     bool // the only part of the request
	maxValue  int64
	aborted   []abortedTxn // not begun yet, by first offset
	open      []int64      // producers in an aborted transaction
	room      int64        // what is left of the budget
}

// recordCost is what a record takes beside its key and value.
const recordCost = int64(unsafe.Sizeof(partition.Record{}))

// decode fills in out; again asks for another try, alone. What cannot be read fails only where nothing stands before it:
// else the answer ends there, and the next one begins with it.
func (d *fetchDecoder) decode(ctx context.Context, a *fetchedPart, out *task.Fetched) (again bool, err error) {
	if a.code != 0 {
		return false, brokerError(a.code)
	}
	out.High, out.LogStart = a.high, a.logStart
	readable := a.high
	if d.committed {
		readable = a.stable
		d.aborted = a.aborted
		slices.SortFunc(d.aborted, func(x, y abortedTxn) int { return cmp.Compare(x.first, y.first) })
	}
	if len(a.records) == 0 && d.part.Offset < readable && !d.alone {
		return true, nil
	}
	d.room = int64(max(d.part.MaxBytes, 1)) * decodeFactor
	out.Records = make([]partition.Record, 0, min(expected(a.records), d.room/recordCost+1))
	rest := a.records
	for len(rest) > 0 && !d.full(out) {
		b, next, err := ReadBatch(rest)
		if errors.Is(err, errPartial) {
			if out.Next > d.part.Offset {
				break
			}
			if d.alone {
				return false, fmt.Errorf("%w: a batch cut off at offset %d", errAnswer, d.part.Offset)
			}
			return true, nil
		}
		if err == nil {
			err = d.batch(ctx, &b, out)
		}
		if err != nil {
			if out.Next > d.part.Offset {
				break
			}
			return false, err
		}
		rest = next
	}
	out.LastRead = out.Next >= out.High && (a.stable < 0 || a.stable == a.high)
	return false, nil
}

// full tells whether the answer ends here. One record is always given.
func (d *fetchDecoder) full(out *task.Fetched) bool { return d.room <= 0 && len(out.Records) > 0 }

// batch takes in what there is room for of one batch. On an error, what stands before it has been taken in.
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
		if ok && m.Offset >= d.part.Offset {
			out.Markers = append(out.Markers, m)
		}
	case b.LastOffset() < d.part.Offset || b.Transactional() && slices.Contains(d.open, b.Producer.ID):
	default:
		if all, err := d.records(ctx, b, out); err != nil || !all {
			return err
		}
	}
	out.Next = max(out.Next, b.LastOffset()+1)
	return nil
}

// records takes a batch's records in; all is false where the answer was full before.
func (d *fetchDecoder) records(ctx context.Context, b *Batch, out *task.Fetched) (all bool, err error) {
	r := recordReader{topic: d.part.Topic, from: d.part.Offset, most: d.maxValue}
	if d.part.Topic == event.Rankings {
		r.most = maxBatchSize // what a worker wrote is read whole
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
		if d.part.Topic == event.Rankings {
			out.Origins = append(out.Origins, task.Origin{Producer: b.Producer, Transactional: b.Transactional(), Steps: steps})
			d.room -= originCost + int64(len(steps))
		}
	}
	return true, nil
}

// originCost is what an origin takes beside its steps.
const originCost = int64(unsafe.Sizeof(task.Origin{}))

// expected is about how many records the batches hold. It allows for a record of 7 bytes to be compressed to one.
func expected(data []byte) (total int64) {
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
