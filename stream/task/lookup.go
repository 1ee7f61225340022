package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// lookups are the batches of ids asked of the store whose records are not all stepped. The overlay
// keeps its entries of a batch until then: the store may have answered before they were saved.
type lookups struct {
	inFlight bool
	last     uint64
	batches  []lookupBatch // oldest first
	forget   []forgetting
	forgets  uint64 // one more than the number of Forgets

	asked askedFor
	index map[state.ID]int32 // of asked
	refs  []lookupRef
}

// askedFor are the places of a look-up. Those of one id, mostly one, are adjacent.
type askedFor struct {
	places []state.Place
	ends   []int32 // by id: end of its places
}

// placer returns the places of ids: a *partition.Machine, but for tests.
type placer interface {
	Places(dst []state.Place, id state.ID) []state.Place
}

// add appends an id, and returns its index.
func (a *askedFor) add(m placer, id state.ID) int32 {
	a.places = m.Places(a.places, id)
	a.ends = append(a.ends, int32(len(a.places)))
	return int32(len(a.ends) - 1)
}

// found returns the value of an id; ok is false if a place was not answered.
func (a *askedFor) found(id int32, values [][]byte) (f partition.Found, ok bool) {
	begin, end := int32(0), a.ends[id]
	if id > 0 {
		begin = a.ends[id-1]
	}
	if int(end) > len(values) {
		return f, false
	}
	for i := begin; i < end; i++ {
		if values[i] != nil {
			return partition.Found{Page: a.places[i].Page, Value: values[i]}, true
		}
	}
	return f, true
}

type lookupBatch struct {
	number uint64
	left   int           // records not yet stepped
	bytes  int64         // of its values
	since  time.Duration // time of the answer; 0 before
}

// lookupRef is a record that waits for a value. Several may wait for one id.
type lookupRef struct {
	topic  event.Topic
	offset int64
	id     int32 // index in askedFor
}

// forgetting is a saved segment that stays in the overlay until look-ups up to a number are done.
type forgetting struct {
	segment uint64
	lookup  uint64
}

// Bounds of a look-up, and of the values that wait with their records.
const (
	maxLookUp      = 2000    // records of one topic
	maxLookUpBytes = 4 << 20 // of values, last one included
	maxFoundBytes  = 16 << 20
)

func newLookups() lookups { return lookups{forgets: 1, index: make(map[state.ID]int32)} }

func (l *lookups) held() (bytes int64) {
	for i := range l.batches {
		bytes += l.batches[i].bytes
	}
	return bytes
}

// clear starts a new list of ids. The last list's places belong to a request.
func (l *lookups) clear() {
	clear(l.index)
	l.asked, l.refs = askedFor{}, l.refs[:0]
}

// add lists a record's id. An id is asked for once, however many records wait for it.
func (l *lookups) add(m placer, topic event.Topic, it *queued) {
	at, asked := l.index[it.id]
	if !asked {
		at = l.asked.add(m, it.id)
		l.index[it.id] = at
	}
	l.refs = append(l.refs, lookupRef{topic, it.Offset, at})
}

func (l *lookups) begin(records int) (number uint64) {
	l.last++
	l.batches = append(l.batches, lookupBatch{number: l.last, left: records})
	return l.last
}

func (l *lookups) batch(number uint64) *lookupBatch {
	for i := range l.batches {
		if b := &l.batches[i]; b.number == number {
			return b
		}
	}
	return nil
}

func (l *lookups) answered(number uint64, values [][]byte, now time.Duration) {
	b := l.batch(number)
	if b == nil {
		return
	}
	b.since = now
	for _, v := range values {
		b.bytes += int64(len(v))
	}
}

// stepped notes that n records of a batch were stepped, or no longer need it. It reports whether the oldest batches are done.
func (l *lookups) stepped(number uint64, n int) bool {
	if b := l.batch(number); b != nil {
		b.left -= n
	}
	done := 0
	for done < len(l.batches) && l.batches[done].left <= 0 {
		done++
	}
	if done > 0 {
		l.batches = append(l.batches[:0], l.batches[done:]...)
	}
	return done > 0
}

// staleAfter bounds how long a looked-up value may wait while the overlay waits for it.
const staleAfter = time.Second

// stale returns the oldest batch if the overlay has waited too long for it, else nil.
func (l *lookups) stale(now time.Duration) *lookupBatch {
	if len(l.forget) == 0 || len(l.batches) == 0 {
		return nil
	}
	b := &l.batches[0]
	if b.since == 0 || now-b.since < staleAfter {
		return nil
	}
	return b
}

// saved notes that segments up to this one are stored, and visible to later look-ups.
func (l *lookups) saved(segment uint64) {
	l.forget = append(l.forget, forgetting{segment, l.last})
}

// forgettable returns a saved segment whose overlay entries no look-up needs any more.
func (l *lookups) forgettable() (segment uint64, ok bool) {
	if len(l.forget) == 0 {
		return 0, false
	}
	f := l.forget[0]
	if len(l.batches) > 0 && l.batches[0].number <= f.lookup {
		return 0, false
	}
	l.forget = append(l.forget[:0], l.forget[1:]...)
	l.forgets++
	return f.segment, true
}

const lookingUp = "looking up ids"

// listUnknown lists records of a queue that need a look-up, from one place behind its head to another.
func (r *runner) listUnknown(q *queue, from, to int) {
	for k := q.head + from; k < min(q.head+to, len(q.items)); k++ {
		if it := &q.items[k]; it.batch == 0 && !r.known(it) {
			r.lookups.add(r.machine, q.topic, it)
		}
	}
}

// lookUp asks the store for the ids at the front of each queue that need it. Places are known once the id index is complete. Each queue's
// first comes first, and also if too many bytes are held: a replay waits for one of them, and for no other.
func (t *Task) lookUp() {
	r := t.run
	l := &r.lookups
	if l.inFlight || !r.machine.IsKnownComplete() || r.full(t.now.Mono) {
		return
	}
	l.clear()
	for i := range r.queues {
		r.listUnknown(&r.queues[i], 0, 1)
	}
	if l.held() < maxFoundBytes {
		for i := range r.queues {
			r.listUnknown(&r.queues[i], 1, maxLookUp)
		}
	}
	if len(l.refs) == 0 {
		return
	}
	l.inFlight = true
	number := l.begin(len(l.refs))
	low, refs, asked := r.owner.fence.Seq, l.refs, l.asked
	send(t, callTimeout, LookUp{Places: asked.places, Room: maxLookUpBytes}, func(found LookedUp, err error) {
		l.inFlight = false
		if err != nil {
			r.stepped(number, len(refs))
			l.inFlight = true
			t.failed(lookingUp, err, func() { l.inFlight = false })
			return
		}
		t.failures.clear(lookingUp)
		if !t.verify(found.Fence, low) {
			return
		}
		t.obs.LookedUp += int64(len(found.Values))
		r.lookedUp(number, refs, &asked, found.Values, t.now.Mono)
	})
}
