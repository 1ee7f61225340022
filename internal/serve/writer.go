package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	// writePatience is the time for which a record's write is retried.
	writePatience = 10 * time.Second
	writeAttempt  = 5 * time.Second
	writePause    = 50 * time.Millisecond
	// Bounds of a batch; a larger record is a batch of its own.
	batchRecords = 1000
	batchBytes   = 512 << 10
	// mostQueued bounds the bytes that wait, over all partitions.
	mostQueued = 256 << 20
)

var (
	errQueueFull = errors.New("as much as is allowed is waiting to be written")
	errQueueSlow = errors.New("earlier records were waiting to be written")
	errNoTopics  = errors.New("the number of partitions is not known yet")
)

type record struct {
	topic      event.Topic
	key, value []byte
	headers    []task.Header
	time       event.Millis
	deadline   time.Time
	done       chan<- error // has room
	ended      bool         // done has been sent to
}

// end reports a record's result, once.
func (r *record) end(err error) {
	if !r.ended {
		r.ended = true
		r.done <- err
	}
}

// expired ends a record whose time is over, with an error, and reports whether it is.
func (r *record) expired(now time.Time, err error) bool {
	if r.deadline.After(now) {
		return false
	}
	r.end(fmt.Errorf("not written within %v: %w", writePatience, err))
	return true
}

func (r *record) size() int {
	n := len(r.key) + len(r.value) + 100
	for _, h := range r.headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// appender appends to the log, acknowledged by all in-sync replicas.
type appender interface {
	// producer returns a new idempotent producer.
	producer(ctx context.Context) (task.Producer, error)
	// produce appends a batch to a partition. It does not append a batch twice with the same producer and sequence.
	produce(ctx context.Context, l laneKey, p task.Producer, sequence int32, batch []*record) error
}

// writer writes a partition's records in consecutive batches: records that come while one is in flight form the
// next. So few records do not wait, and many need few requests. A batch with an unknown result is sent again
// unchanged, and the broker drops duplicates. A written record is in the log once; one that failed may be.
//
// Each partition ever written to has a goroutine, which ends with the writer.
type writer struct {
	log        appender
	partitions func() int

	mu     sync.Mutex
	lanes  map[laneKey]*lane
	queued int
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type laneKey struct {
	topic     event.Topic
	partition int
}

// lane holds the records of one partition.
type lane struct {
	laneKey
	waiting []*record
	wake    chan struct{} // has room for one

	// Of the lane's goroutine:
	by       *task.Producer // nil: the next batch needs a new one
	sequence int32          // of the next record
}

func newWriter(log appender, partitions func() int) *writer {
	w := &writer{log: log, partitions: partitions, lanes: map[laneKey]*lane{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// partitionOf returns a key's partition by murmur2; ok is false while the number of partitions is unknown.
func (w *writer) partitionOf(key []byte) (partition int, ok bool) {
	n := w.partitions()
	if n == 0 {
		return 0, false
	}
	return int(state.PartitionOf(key, n)), true
}

// write writes records of a topic. It returns when all are written, or with the
// first error once all have ended. If ctx is done first, the rest is still tried.
func (w *writer) write(ctx context.Context, topic event.Topic, at event.Millis, records []*record) error {
	done := make(chan error, len(records))
	for _, r := range records {
		r.topic, r.time, r.done, r.deadline = topic, at, done, time.Now().Add(writePatience)
	}
	if err := w.enqueue(records); err != nil {
		return err
	}
	var first error
	for range records {
		select {
		case err := <-done:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}

// enqueue takes all records, or none.
func (w *writer) enqueue(records []*record) error {
	size := 0
	lanes := make([]laneKey, len(records))
	for i, r := range records {
		p, ok := w.partitionOf(r.key)
		if !ok {
			return errNoTopics
		}
		lanes[i] = laneKey{r.topic, p}
		size += r.size()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.queued+size > mostQueued {
		return errQueueFull
	}
	w.queued += size
	for i, r := range records {
		l := w.lane(lanes[i])
		l.waiting = append(l.waiting, r)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (w *writer) lane(key laneKey) *lane {
	l := w.lanes[key]
	if l == nil {
		l = &lane{laneKey: key, wake: make(chan struct{}, 1)}
		w.lanes[key] = l
		w.wg.Go(func() { w.run(l) })
	}
	return l
}

func (w *writer) run(l *lane) {
	for {
		ended := w.ctx.Err() != nil // nothing comes any more
		batch := w.take(l)
		switch {
		case len(batch) > 0:
			w.send(l, batch)
		case ended:
			return
		default:
			select {
			case <-l.wake:
			case <-w.ctx.Done():
			}
		}
	}
}

func (w *writer) take(l *lane) []*record {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && n < batchRecords && (n == 0 || size+l.waiting[n].size() <= batchBytes) {
		size += l.waiting[n].size()
		n++
	}
	batch := l.waiting[:n:n]
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	w.queued -= size
	return batch
}

// send retries a batch until it is written, refused, or all its records' time is over. Only
// a written batch keeps the lane's producer: the sequence of any other may be used up.
func (w *writer) send(l *lane, batch []*record) {
	// Nothing of the batch is in the log, so it may change: records that have waited too long are not written.
	now := time.Now()
	batch = slices.DeleteFunc(batch, func(r *record) bool { return r.expired(now, errQueueSlow) })
	if len(batch) == 0 {
		return
	}
	open := false // an attempt may have appended the batch
	for {
		err := w.attempt(l, batch)
		switch {
		case err == nil:
			end(batch, nil)
			return
		case tooLargeForTopic(err) && len(batch) > 1: // one of them may be, or all together
			for i := range batch {
				w.send(l, batch[i:i+1])
			}
			return
		case (errors.Is(err, task.ErrSequence) || errors.Is(err, task.ErrFenced)) && !open: // the broker has forgotten the producer
			l.by = nil
		case !passes(err):
			l.by = nil
			end(batch, err)
			return
		default:
			open = open || l.by != nil
		}
		if expired(batch, err) {
			l.by = nil
			return
		}
		select {
		case <-time.After(writePause):
		case <-w.ctx.Done():
			end(batch, err)
			return
		}
	}
}

func (w *writer) attempt(l *lane, batch []*record) error {
	ctx, cancel := context.WithTimeout(w.ctx, min(writeAttempt, time.Until(batch[len(batch)-1].deadline))) // about the latest
	defer cancel()
	if l.by == nil {
		p, err := w.log.producer(ctx)
		if err != nil {
			return err
		}
		l.by, l.sequence = &p, 0
	}
	err := w.log.produce(ctx, l.laneKey, *l.by, l.sequence, batch)
	if err == nil {
		l.sequence = int32((int64(l.sequence) + int64(len(batch))) % (math.MaxInt32 + 1))
	}
	return err
}

func end(batch []*record, err error) {
	for _, r := range batch {
		r.end(err)
	}
}

// expired ends the records whose time is over, with an error, and reports
// whether all are. They stay in the batch, which is sent again unchanged.
func expired(batch []*record, err error) bool {
	now, all := time.Now(), true
	for _, r := range batch {
		all = r.expired(now, err) && all
	}
	return all
}

// passes reports whether a retry may succeed. An error that is no broker's answer is a connection's.
func passes(err error) bool {
	if errors.Is(err, task.ErrSequence) || errors.Is(err, task.ErrFenced) {
		return false
	}
	var code kafka.Error
	return !errors.As(err, &code) || code.Temporary()
}

func tooLargeForTopic(err error) bool {
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}

// end ends all records that are not written yet, with errors. Later ones are refused.
func (w *writer) end() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
}

// close ends the writer.
func (w *writer) close() {
	w.end()
	w.wg.Wait()
}
