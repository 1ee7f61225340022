package task

import (
	"cmp"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// queue holds what was fetched of one input topic and not yet stepped.
type queue struct {
	topic    event.Topic
	disabled bool // the topic is not configured
	items    []queued
	head     int
	bytes    int
	next     int64
	pos      state.Position // stepped so far; its witness is that of the last seal
	last     partition.Record
	hasLast  bool // last is set

	high, logStart int64
	fetching       bool
	atEnd          bool          // the last answer showed us at the high watermark
	askedAt        time.Duration // when that was asked for
	answeredAt     time.Duration // and when it came

	waits      *partition.Wait // why the first record could not be stepped
	held       bool            // it is not tried again before the next tick
	waitsSince time.Duration
}

// queued is a record with what the store holds under its id.
type queued struct {
	partition.Record
	id    state.ID
	batch uint64 // the look-up that found it; 0: not looked up
	found partition.Found
	came  time.Duration // when it was fetched
	known uint64        // number of the Forget since which the machine is known to need no look-up; see runner.known
}

// size is what a record counts in its queue; one without key and value takes memory too.
func (it *queued) size() int { return len(it.Key) + len(it.Value) + len(it.Plain) + 64 }

func (q *queue) len() int { return len(q.items) - q.head }

// first is the record whose turn is next; the queue must not be empty.
func (q *queue) first() *queued { return &q.items[q.head] }

func (q *queue) pop() {
	it := q.first()
	q.bytes -= it.size()
	q.waits, q.held, q.waitsSince = nil, false, 0
	if it.Skipped == "" { // else it could not be compared with what the log shows
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

// take keeps what was fetched. It tells whether our position has moved by that: over what no reader sees.
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

// hold keeps the first record from being tried for a while: it cannot be stepped yet.
func (q *queue) hold(w *partition.Wait, now time.Duration) {
	if q.waits, q.held = w, true; q.waitsSince == 0 {
		q.waitsSince = now
	}
}

// longWait is how long a record may have to wait before that is worth telling.
const longWait = 5 * time.Second

// waitsLong tells whether the first record has had to wait for so long that somebody should know.
func (q *queue) waitsLong(now time.Duration) bool {
	return q.waitsSince != 0 && now-q.waitsSince >= longWait
}

// exhausted tells whether all that the topic holds has been stepped, by an answer to what was asked at that moment or later.
func (q *queue) exhausted(asked time.Duration) bool {
	return q.disabled || q.atEnd && q.len() == 0 && q.askedAt >= asked
}

// atEndFor is how long a fetch answer that showed us at the end of a topic counts.
const atEndFor = 5 * time.Second

// atEndNow tells whether the topic may be taken for read to its end.
func (q *queue) atEndNow(now time.Duration) bool {
	return q.disabled || q.atEnd && q.len() == 0 && now-q.answeredAt < atEndFor
}

// position is what a cut says of this topic.
func (q *queue) position() state.Position {
	if q.hasLast {
		q.pos.Witness = witnessOfRecord(&q.last)
		q.hasLast = false
		q.last = partition.Record{}
	}
	return q.pos
}

// lag is how many offsets of the log have not been stepped.
func (q *queue) lag() int64 {
	if q.disabled {
		return 0
	}
	return max(0, q.high-max(q.pos.Offset, q.logStart))
}

// find is the index of the record at an offset, or -1 where it has been stepped. Offsets rise within a queue.
func (q *queue) find(offset int64) int {
	k, ok := slices.BinarySearchFunc(q.items[q.head:], offset, func(it queued, o int64) int { return cmp.Compare(it.Offset, o) })
	if !ok {
		return -1
	}
	return q.head + k
}

// dropFound drops what a look-up has found for records that still wait.
func (q *queue) dropFound(batch uint64) {
	for k := q.head; k < len(q.items); k++ {
		if it := &q.items[k]; it.batch == batch {
			it.batch, it.found = 0, partition.Found{}
		}
	}
}

// queues are those of all input topics.
type queues [event.Inputs]queue

// offsets is how far the topics have been stepped.
func (qs *queues) offsets() (at offsets) {
	for i := range qs {
		at[i] = qs[i].pos.Offset
	}
	return at
}

// readFor tells of which topics all was read that a record which was fetched at a moment may wait for.
func (qs *queues) readFor(came time.Duration) (all [event.Inputs]bool) {
	for i := range qs {
		all[i] = qs[i].exhausted(came)
	}
	return all
}

// waitingLong is a queue whose first record has had to wait for long; nil where none has.
func (qs *queues) waitingLong(now time.Duration) *queue {
	for i := range qs {
		if qs[i].waitsLong(now) {
			return &qs[i]
		}
	}
	return nil
}

// held tells whether a first record is kept from being tried.
func (qs *queues) held() bool {
	for i := range qs {
		if qs[i].held {
			return true
		}
	}
	return false
}

// release lets all first records be tried again: what they wait for may have come.
func (qs *queues) release() {
	for i := range qs {
		qs[i].held = false
	}
}

// atEnd tells which topics may be taken for read to their end.
func (qs *queues) atEnd(now time.Duration) (all [event.Inputs]bool) {
	for i := range qs {
		all[i] = qs[i].atEndNow(now)
	}
	return all
}

// oldest is the ready queue whose first record has the smallest timestamp; nil where none is ready. A record dated 2099 has its
// turn like one of now.
func (qs *queues) oldest(now event.Millis, ready func(*queue) (bool, error)) (best *queue, err error) {
	var oldest event.Millis
	for i := range qs {
		q := &qs[i]
		if q.len() == 0 {
			continue
		}
		at := min(q.first().Timestamp, now)
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

// behind is a queue that has not come to its offset yet, nil where all have. Of several it is the one whose record is oldest.
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

// offsets are one for each input topic.
type offsets [event.Inputs]int64
