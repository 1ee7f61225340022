package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// lookups are the batches of ids that the store was asked for, with records that are not all stepped. What the
// overlay holds of a batch must stay there until then: the store may have answered before it was saved.
type lookups struct {
	inFlight bool
	last     uint64
	batches  []lookupBatch // oldest first
	forget   []forgetting
	forgets  uint64 // one more than how often the machine was told to forget

	asked askedFor
	index map[state.ID]int32 // of asked
	refs  []lookupRef
}

// askedFor are the places that a look-up asks for: those of one id, one as a rule, stand together.
type askedFor struct {
	places []state.Place
	ends   []int32 // by id: where its places end, and those of the next begin
}

// partitionerCheck knows where the ids lie under which something is stored: a *partition.Machine.
type partitionerCheck interface {
	Places(dst []state.Place, id state.ID) []state.Place
}

// add appends an id, and returns its number.
func (a *askedFor) add(m partitionerCheck, id state.ID) int32 {
	a.places = m.Places(a.places, id)
	a.ends = append(a.ends, int32(len(a.places)))
	return int32(len(a.ends) - 1)
}

// found is what lies under the id of a number; ok tells whether all its places were answered.
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
	since  time.Duration // when the values came; 0 before that
}

// lookupRef is a record that waits for the value of one of the ids; several may wait for the same.
type lookupRef struct {
	topic  event.Topic
	offset int64
	id     int32 // its number in askedFor
}

// forgetting is an acked checkpoint whose changes stay in the overlay until the look-ups up to a number are through.
type forgetting struct {
	segment uint64
	lookup  uint64
}

// Bounds of one look-up, and of what was found and waits with its records.
const (
	maxLookUp      = 2000    // records of one topic
	maxLookUpBytes = 4 << 20 // of values; it ends with the one that exceeds it
	maxFoundBytes  = 16 << 20
)

func newLookups() lookups { return lookups{forgets: 1, index: make(map[state.ID]int32)} }

// held is how many bytes of values wait with their records.
func (l *lookups) held() (bytes int64) {
	for i := range l.batches {
		bytes += l.batches[i].bytes
	}
	return bytes
}

// clear begins a list of ids. The places of the one before are a request's by now.
func (l *lookups) clear() {
	clear(l.index)
	l.asked, l.refs = askedFor{}, l.refs[:0]
}

// add puts a record's id on the list. One id is asked for once, however many records wait for it.
func (l *lookups) add(m partitionerCheck, topic event.Topic, it *queued) {
	at, asked := l.index[it.id]
	if !asked {
		at = l.asked.add(m, it.id)
		l.index[it.id] = at
	}
	l.refs = append(l.refs, lookupRef{topic, it.Offset, at})
}

// begin begins a batch that so many records wait for.
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

// answered takes the values of a batch.
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

// stepped notes that n records of a batch have been stepped, or need it no more. It tells whether the oldest batches are all
// through.
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

// staleAfter is how long what was looked up may wait for its turn while the overlay waits for it.
const staleAfter = time.Second

// stale is the oldest batch, where the overlay waits for it and its values have waited for too long; nil otherwise.
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

// saved notes that segments up to this one are in the store. Later look-ups show them.
func (l *lookups) saved(segment uint64) {
	l.forget = append(l.forget, forgetting{segment, l.last})
}

// forgettable is a saved segment that no look-up needs the overlay for any more; early does not wait for look-ups.
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

// lookUp asks the store for the ids at the front of each queue that need it. Where they lie is known when the walk over the known
// ids is through.
func (t *Task) lookUp() {
	r := t.run
	l := &r.lookups
	if l.inFlight || !r.machine.IsKnownComplete() || r.full(t.now.Mono) || l.held() >= maxFoundBytes {
		return
	}
	l.clear()
	for i := range r.queues {
		q := &r.queues[i]
		for k := q.head; k < len(q.items) && k-q.head < maxLookUp; k++ {
			if it := &q.items[k]; it.batch == 0 && !r.known(it) {
				l.add(r.machine, q.topic, it)
			}
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
