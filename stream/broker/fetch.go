package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	// decodeFactor times the bytes asked for, uncompressed, an answer ends before its next batch.
	decodeFactor = 8
	// waitMargin is what a long poll leaves of its deadline for the way back.
	waitMargin = 200 * time.Millisecond
)

// Fetch reads from topics of this partition number: input topics committed records only, rankings as it stands. It
// waits up to MaxWait for the first byte, and gives one answer for each part, in order; what fails fails for its part.
// The records of an answer keep the memory of the whole answer alive.
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
}

// route sorts the parts by leader and isolation level.
func (p *Partition) route(ctx context.Context, parts []task.FetchPart, out []task.Fetched) []fetchGroup {
	var groups []fetchGroup
	for i := range parts {
		part := &parts[i]
		out[i] = task.Fetched{Topic: part.Topic, Next: part.Offset, High: -1, LogStart: -1}
		l, broker, err := p.leader(ctx, p.c.topic(part.Topic))
		if err != nil {
			out[i].Err = err
			continue
		}
		isolation := readCommitted
		if part.Topic == event.Rankings {
			isolation = readUncommitted
		}
		g := slices.IndexFunc(groups, func(g fetchGroup) bool { return g.broker == broker && g.isolation == isolation })
		if g < 0 {
			g = len(groups)
			groups = append(groups, fetchGroup{layout: l, broker: broker, isolation: isolation})
		}
		groups[g].parts = append(groups[g].parts, i)
	}
	return groups
}

// leader finds out who leads a topic's partition.
func (p *Partition) leader(ctx context.Context, topic string) (*layout, int32, error) {
	if topic == "" {
		return nil, -1, fmt.Errorf("%w: the topic is not configured", task.ErrUnsupported)
	}
	l, err := p.c.layout(ctx)
	if err != nil {
		return nil, -1, err
	}
	broker, err := l.leader(topic, p.number)
	if err != nil {
		p.c.layouts.outdated(l)
		return nil, -1, err
	}
	return l, broker, nil
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
		alone.parts = []int{i}
		p.fetchOnce(ctx, &alone, f, out)
	}
}

func (p *Partition) fetchOnce(ctx context.Context, g *fetchGroup, f task.Fetch, out []task.Fetched) (starved []int) {
	fail := func(err error) {
		p.c.layouts.outdated(g.layout)
		for _, i := range g.parts {
			out[i].Err = fmt.Errorf("fetching %s: %w", where(p.c.topic(f.Parts[i].Topic), p.number), err)
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
		d := fetchDecoder{part: part, committed: g.isolation == readCommitted, alone: len(g.parts) == 1, maxDecoded: p.c.o.MaxDecoded}
		again := !d.alone
		err := fmt.Errorf("%w: nothing about it", errAnswer)
		at := slices.IndexFunc(parts, func(a fetchedPart) bool { return a.topic == name && a.partition == p.number })
		if at >= 0 {
			again, err = d.decode(&parts[at], &out[i])
		}
		switch {
		case again:
			starved = append(starved, i)
		case err != nil:
			out[i].Err = fmt.Errorf("fetching %s: %w", where(name, p.number), err)
			if moved(err) {
				p.c.layouts.outdated(g.layout)
			}
		}
	}
	return starved
}

func (c *Client) fetchRequest(g *fetchGroup, parts []task.FetchPart, number int32, wait time.Duration) *exchange {
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
				b = appendInt32(b, -1) // leader epoch: whatever it is
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
type fetchDecoder struct {
	part       *task.FetchPart
	committed  bool
	alone      bool // the only part of the request
	maxDecoded int
	aborted    []abortedTxn // not begun yet, by first offset
	open       []int64      // producers in an aborted transaction
}

// decode fills in out; again asks for another try, alone. A batch that cannot be read fails only if it is the first:
// else the answer ends before it, and the next one begins with it.
func (d *fetchDecoder) decode(a *fetchedPart, out *task.Fetched) (again bool, err error) {
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
	out.Records = make([]partition.Record, 0, expected(a.records))
	budget := max(d.part.MaxBytes, 1) * decodeFactor
	rest := a.records
	for first := true; len(rest) > 0; first = false {
		var b Batch
		next, err := rest, error(nil)
		if b, next, err = ReadBatch(rest); errors.Is(err, errPartial) {
			if first && d.alone {
				return false, fmt.Errorf("%w: a batch cut off at offset %d", errAnswer, d.part.Offset)
			}
			if first {
				return true, nil
			}
			break
		}
		if err == nil && !first && budget <= 0 {
			break
		}
		size := 0
		if err == nil {
			size, err = d.batch(&b, out)
		}
		if err != nil {
			if first {
				return false, err
			}
			break
		}
		budget -= size
		out.Next = max(out.Next, b.LastOffset()+1)
		rest = next
	}
	out.LastRead = out.Next >= out.High && (a.stable < 0 || a.stable == a.high)
	return false, nil
}

// batch takes one batch in, whole or, on an error, not at all.
func (d *fetchDecoder) batch(b *Batch, out *task.Fetched) (size int, err error) {
	for len(d.aborted) > 0 && d.aborted[0].first <= b.LastOffset() {
		d.open = append(d.open, d.aborted[0].producer)
		d.aborted = d.aborted[1:]
	}
	if b.Control() {
		m, ok, err := b.marker()
		if err != nil {
			return 0, err
		}
		if ok && m.Abort {
			d.open = slices.DeleteFunc(d.open, func(id int64) bool { return id == m.Producer.ID })
		}
		if ok && m.Offset >= d.part.Offset {
			out.Markers = append(out.Markers, m)
		}
		return 0, nil
	}
	if b.LastOffset() < d.part.Offset || b.Transactional() && slices.Contains(d.open, b.Producer.ID) {
		return 0, nil
	}
	had := len(out.Records)
	out.Records, size, err = b.appendRecords(out.Records, d.part.Topic, d.part.Offset, d.maxDecoded)
	if err != nil {
		out.Records = out.Records[:had]
	}
	return size, err
}

// expected is about how many records the batches hold, never more than their bytes bear out.
func expected(data []byte) int {
	total := 0
	for len(data) > 0 {
		count, size := peek(data)
		if size <= 0 || size > len(data) {
			break
		}
		total += min(count, (size-BatchHeaderSize)/minRecordSize)
		data = data[size:]
	}
	return total
}
