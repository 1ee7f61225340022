package task

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// queue holds fetched records of one input topic that are not stepped yet.
type queue struct {
	topic    event.Topic
	disabled bool
	items    []queued
	head     int
	bytes    int
	next     int64
	pos      state.Position // stepped so far; its witness is that of the last seal
	last     partition.Record
	hasLast  bool

	high, logStart int64
	fetching       bool
	atEnd          bool          // the last answer reached the high watermark
	askedAt        time.Duration // when that was asked
	answeredAt     time.Duration // when it came

	waits      *partition.Wait // why the first record cannot be stepped
	held       bool            // no new try before the next tick
	waitsSince time.Duration
}

// queued is a record with the result of its look-up.
type queued struct {
	partition.Record
	id    state.ID
	batch uint64 // its look-up's number; 0: not looked up
	found partition.Found
	came  time.Duration // when it was fetched
	known uint64        // number of the Forget since which no look-up is needed; see runner.known
}

// size returns a record's bytes in its queue.
func (it *queued) size() int {
	return len(it.Key) + len(it.Value) + len(it.Plain) + int(unsafe.Sizeof(*it))
}

func (q *queue) len() int { return len(q.items) - q.head }

// first returns the next record; the queue must not be empty.
func (q *queue) first() *queued { return &q.items[q.head] }

func (q *queue) pop() {
	it := q.first()
	q.bytes -= it.size()
	q.waits, q.held, q.waitsSince = nil, false, 0
	if it.Skipped == "" { // a skipped record cannot be compared with the log
		q.last, q.hasLast = it.Record, true
	}
	q.pos.Offset = it.Offset + 1
	*it = queued{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		q.pos.Offset = max(q.pos.Offset, q.next) // beyond trailing markers
	}
}

// take appends fetched records. It reports whether the position moved, over records that no reader sees.
func (q *queue) take(f *Fetched, asked, now time.Duration) (moved bool) {
	if q.head > 0 && q.head >= len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	for _, rec := range f.Records {
		if rec.Offset < q.next {
			continue
		}
		q.items = append(q.items, queued{Record: rec, id: state.IDOf(rec.Key), came: now})
		q.bytes += q.items[len(q.items)-1].size()
	}
	if f.Next > q.next {
		q.next = f.Next
		if q.len() == 0 && q.pos.Offset < q.next {
			q.pos.Offset = q.next
			moved = true
		}
	}
	q.high, q.logStart = f.High, f.LogStart
	q.atEnd, q.askedAt, q.answeredAt = f.LastRead, asked, now
	return moved
}

// hold keeps the first record from being tried before the next tick.
func (q *queue) hold(w *partition.Wait, now time.Duration) {
	if q.waits, q.held = w, true; q.waitsSince == 0 {
		q.waitsSince = now
	}
}

// longWait is the wait above which a record is reported.
const longWait = 5 * time.Second

func (q *queue) waitsLong(now time.Duration) bool {
	return q.waitsSince != 0 && now-q.waitsSince >= longWait
}

// exhausted reports whether the topic was stepped to its end, as of a request made at asked or later.
func (q *queue) exhausted(asked time.Duration) bool {
	return q.disabled || q.atEnd && q.len() == 0 && q.askedAt >= asked
}

// atEndFor is how long an answer at the end of a topic counts.
const atEndFor = 5 * time.Second

func (q *queue) atEndNow(now time.Duration) bool {
	return q.disabled || q.atEnd && q.len() == 0 && now-q.answeredAt < atEndFor
}

// position returns the topic's part of a cut.
func (q *queue) position() state.Position {
	if q.hasLast {
		q.pos.Witness = witnessOfRecord(&q.last)
		q.hasLast = false
		q.last = partition.Record{}
	}
	return q.pos
}

// lag returns the number of offsets not stepped.
func (q *queue) lag() int64 {
	if q.disabled {
		return 0
	}
	return max(0, q.high-max(q.pos.Offset, q.logStart))
}

// find returns the index of the record at an offset, -1 if it was stepped.
func (q *queue) find(offset int64) int {
	k, ok := slices.BinarySearchFunc(q.items[q.head:], offset, func(it queued, o int64) int { return cmp.Compare(it.Offset, o) })
	if !ok {
		return -1
	}
	return q.head + k
}

// dropFound drops a look-up's values of waiting records.
func (q *queue) dropFound(batch uint64) {
	for k := q.head; k < len(q.items); k++ {
		if it := &q.items[k]; it.batch == batch {
			it.batch, it.found = 0, partition.Found{}
		}
	}
}

type queues [event.Inputs]queue

func (qs *queues) offsets() (at offsets) {
	for i := range qs {
		at[i] = qs[i].pos.Offset
	}
	return at
}

// readFor reports which topics were read as far as a record fetched at came may have to wait for them.
func (qs *queues) readFor(came time.Duration) (all [event.Inputs]bool) {
	for i := range qs {
		all[i] = qs[i].exhausted(came)
	}
	return all
}

// waitingLong returns a queue whose first record has waited for long; nil: none.
func (qs *queues) waitingLong(now time.Duration) *queue {
	for i := range qs {
		if qs[i].waitsLong(now) {
			return &qs[i]
		}
	}
	return nil
}

func (qs *queues) held() bool {
	for i := range qs {
		if qs[i].held {
			return true
		}
	}
	return false
}

// release lets all first records be tried again.
func (qs *queues) release() {
	for i := range qs {
		qs[i].held = false
	}
}

func (qs *queues) atEnd(now time.Duration) (all [event.Inputs]bool) {
	for i := range qs {
		all[i] = qs[i].atEndNow(now)
	}
	return all
}

// oldest returns the ready queue whose first record has the smallest
// timestamp; nil if none is ready. A record from the future counts as of now, and so does one without a timestamp.
func (qs *queues) oldest(now event.Millis, ready func(*queue) (bool, error)) (best *queue, err error) {
	var oldest event.Millis
	for i := range qs {
		q := &qs[i]
		if q.len() == 0 {
			continue
		}
		at := min(q.first().Timestamp, now)
		if at < 0 {
			at = now
		}
		if best != nil && at >= oldest {
			continue
		}
		ok, err := ready(q)
		if err != nil {
			return nil, err
		}
		if ok {
			best, oldest = q, at
		}
	}
	return best, nil
}

// behind returns the queue, with the oldest record, that has not reached its offset; nil if all have.
func (qs *queues) behind(at *[event.Inputs]int64) (oldest *queue) {
	for i := range qs {
		q := &qs[i]
		if q.disabled || q.pos.Offset >= at[i] || q.len() > 0 && q.first().Offset >= at[i] {
			continue
		}
		if q.len() == 0 {
			return q
		}
		if oldest == nil || q.first().Timestamp < oldest.first().Timestamp {
			oldest = q
		}
	}
	return oldest
}

type offsets [event.Inputs]int64
