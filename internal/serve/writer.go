package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	// writePatience is for how long a record is tried to be written.
	writePatience = 10 * time.Second
	writeAttempt  = 5 * time.Second
	writePause    = 50 * time.Millisecond
	// A batch ends before it has more than so much; a record that is larger has one for itself.
	batchRecords = 1000
	batchBytes   = 512 << 10
	// mostQueued bounds the bytes that wait to be written, over all partitions.
	mostQueued = 256 << 20
)

var (
	errQueueFull = errors.New("as much as is allowed is waiting to be written")
	errNoTopics  = errors.New("the number of partitions is not known yet")
)

// record is one that is written.
type record struct {
	topic      event.Topic
	key, value []byte
	headers    []task.Header
	time       event.Millis
	deadline   time.Time
	done       chan<- error // has room
	ended      bool         // done has been sent to
}

// end says what became of a record, once.
func (r *record) end(err error) {
	if !r.ended {
		r.ended = true
		r.done <- err
	}
}

func (r *record) size() int {
	n := len(r.key) + len(r.value) + 100
	for _, h := range r.headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// appender appends to the log, with the acknowledgement of all in-sync replicas.
type appender interface {
	// producer gives a new idempotent producer.
	producer(ctx context.Context) (task.Producer, error)
	// produce appends a batch to a partition. A batch that was appended with this producer and sequence before is not appended again.
	produce(ctx context.Context, l laneKey, p task.Producer, sequence int32, batch []*record) error
}

// writer writes records, those of a partition in batches one after the other: what comes while one is under way is the next. So a
// record waits for nothing where there are few, and many cost few requests. A batch that may or may not have been appended is sent
// again as it was, and the broker drops the copy. A record that was written is in the log once; one that ended with an error may be.
//
// Each partition that was ever written to has a goroutine, which ends with the writer.
type writer struct {
	log        appender
	partitions func() int
	balancer   kafka.Balancer

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

// lane is what waits for one partition.
type lane struct {
	laneKey
	waiting []*record
	wake    chan struct{} // has room for one

	// Of the lane's goroutine:
	by       *task.Producer // nil: the next batch needs a new one
	sequence int32          // of the next record
}

func newWriter(log appender, partitions func() int) *writer {
	w := &writer{log: log, partitions: partitions, balancer: kafka.Murmur2Balancer{}, lanes: map[laneKey]*lane{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// partitionOf is where a key's records are, as murmur2 places them; ok is false while it is not known how many partitions there are.
func (w *writer) partitionOf(key []byte) (partition int, ok bool) {
	n := w.partitions()
	if n == 0 {
		return 0, false
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return w.balancer.Balance(kafka.Message{Key: key}, all...), true
}

// write writes records of a topic, and returns when all are there, or with the first error when all have ended. Where ctx is done
// first, what is not written yet is still tried.
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
		batch := w.take(l)
		if len(batch) == 0 {
			select {
			case <-l.wake:
				continue
			case <-w.ctx.Done():
				return
			}
		}
		w.send(l, batch)
	}
}

// take takes the next batch out of a lane.
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

// send writes a batch, again and again until it is there, cannot be, or the time of all its records is over. Only a batch that is
// there leaves the lane its producer: the sequence of any other may have been used.
func (w *writer) send(l *lane, batch []*record) {
	open := false // whether an attempt may have appended the batch
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

// attempt sends a batch once.
func (w *writer) attempt(l *lane, batch []*record) error {
	ctx, cancel := context.WithTimeout(w.ctx, writeAttempt)
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

// expired ends the records whose time is over, with an error, and tells whether these are all. They stay in the batch: it is sent
// again as it was.
func expired(batch []*record, err error) bool {
	now, all := time.Now(), true
	for _, r := range batch {
		if r.deadline.After(now) {
			all = false
			continue
		}
		r.end(fmt.Errorf("not written within %v: %w", writePatience, err))
	}
	return all
}

// passes tells whether a batch may be taken when it is tried again. What is no answer of a broker is a connection's trouble.
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

// close ends the writer; what was not written is not.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}
