package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// queue holds what was fetched of one input topic and not yet stepped.
type queue struct {
	topic event.Topic
	off   bool // the topic is not configured
	items []queued
	head  int
	bytes int
	next  int64
	pos   state.Position // stepped so far; its witness is that of the last seal
	last  partition.Record
	some  bool // last is set

	high, logStart int64
	fetching       bool
	atEnd          bool          // the last answer showed us at the high watermark
	askedAt        time.Duration // when that was asked for
	answeredAt     time.Duration // and when it came

	waits      *partition.Wait // why the first record could not be stepped
	held       bool            // it is not tried again before the next tick
	waitsSince time.Duration
}

// shownAfter is how long a record may have to wait before that is worth telling.
const shownAfter = 5 * time.Second

// queued is a record with what the store holds under its id.
type queued struct {
	partition.Record
	batch uint64 // the look-up that found it; 0: not looked up
	found []byte
	came  time.Duration // when it was fetched
	known uint64        // number of the Forget since which the machine is known to need no look-up; see runner.known
}

// size is what a record counts in its queue; one without key and value takes memory too.
func (it *queued) size() int { return len(it.Key) + len(it.Value) + 64 }

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) pop() {
	it := &q.items[q.head]
	q.bytes -= it.size()
	q.waits, q.held, q.waitsSince = nil, false, 0
	if it.Skipped == "" { // else it could not be compared with what the log shows
		q.last, q.some = it.Record, true
	}
	q.pos.Offset = it.Offset + 1
	*it = queued{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		q.pos.Offset = max(q.pos.Offset, q.next) // beyond trailing markers
	}
}

// position is what a cut says of this topic.
func (q *queue) position() state.Position {
	if q.some {
		q.pos.Witness = witnessOfRecord(&q.last)
		q.some = false
		q.last = partition.Record{}
	}
	return q.pos
}

// fetch keeps one request under way for each topic that has room. Topics are asked for one by one, so that a quiet
// one never keeps a busy one waiting.
func (t *Task) fetch() {
	r := t.run
	if r.checking || t.full() {
		return
	}
	for i := range r.queues {
		q := &r.queues[i]
		if q.off || q.fetching || q.bytes >= t.cfg.FetchBytes {
			continue
		}
		q.fetching = true
		asked := t.now.Mono
		part := FetchPart{Topic: q.topic, Offset: q.next, MaxBytes: t.cfg.FetchBytes}
		send(t, callTimeout+t.cfg.FetchWait, Fetch{Parts: []FetchPart{part}, MaxWait: t.cfg.FetchWait},
			func(all []Fetched, err error) {
				if err == nil {
					err = all[0].Err
				}
				q.fetching = false
				if err != nil {
					t.fetchFailed(q, err)
					return
				}
				t.fetched(q, &all[0], asked)
			})
	}
}

func (t *Task) fetched(q *queue, f *Fetched, asked time.Duration) {
	if q.head > 0 && q.head >= len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	t.fine(q.reading(t))
	for _, rec := range f.Records {
		if rec.Offset < q.next {
			continue
		}
		q.items = append(q.items, queued{Record: rec, came: t.now.Mono})
		q.bytes += q.items[len(q.items)-1].size()
	}
	if f.Next > q.next {
		q.next = f.Next
		if q.len() == 0 && q.pos.Offset < q.next {
			q.pos.Offset = q.next
			t.run.moved = true
		}
	}
	q.high, q.logStart = f.High, f.LogStart
	q.atEnd, q.askedAt, q.answeredAt = f.LastRead, asked, t.now.Mono
	t.obs.Fetched += int64(len(f.Records))
}

// fetchFailed makes sure, before it goes on, that the log is still the one we have been reading: an error can mean
// that the leader has changed, or the topic.
func (t *Task) fetchFailed(q *queue, err error) {
	q.atEnd = false
	t.readFailed(q.reading(t), fmt.Errorf("from offset %d: %w", q.next, err))
}

// reading names what fetching this topic is.
func (q *queue) reading(t *Task) string { return t.reading[q.topic] }

// readFailed starts the checks after a failed fetch, of which there may be several at once.
func (t *Task) readFailed(doing string, err error) {
	r := t.run
	t.failed(doing, err, func() {})
	if t.run != r || r.checking {
		return
	}
	r.checking = true
	t.after(t.troubles[doing].backoff.d, func() {
		t.check(t.cutNow(), func() { r.checking = false })
	})
}

// cutNow is where we stand: what is fetched, and the witnesses of the last record stepped and of the last fetched. An unclean
// change of leader can have replaced what waits in a queue.
func (t *Task) cutNow() cutPositions {
	r := t.run
	cut := cutPositions{rankings: r.rankings.position, witnesses: []witness{{event.Rankings, r.rankings.witness}}}
	for i := range r.queues {
		q := &r.queues[i]
		cut.inputs = append(cut.inputs, q.next)
		cut.witnesses = append(cut.witnesses, witness{q.topic, q.position().Witness})
		if n := len(q.items); q.len() > 0 && !t.cfg.sabotage.unseenQueue {
			last := &q.items[n-1].Record
			cut.witnesses = append(cut.witnesses, witness{q.topic, witnessOfRecord(last)})
		}
	}
	return cut
}

// readFor tells of which topics all was read that a record which was fetched at a moment may wait for.
func (r *runner) readFor(came time.Duration) (all [event.Inputs]bool) {
	for i := range r.queues {
		q := &r.queues[i]
		all[i] = q.off || q.atEnd && q.len() == 0 && q.askedAt >= came
	}
	return all
}

// lookups are the batches of ids that the store was asked for, with records that are not all stepped. What the
// overlay holds of a batch must stay there until then: the store may have answered before it was saved.
type lookups struct {
	flying  bool
	last    uint64
	batches []lookupBatch // oldest first
	ids     [][]byte
	index   map[string]int32 // of ids
	refs    []lookupRef
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
	id     int32
}

// held is how many bytes of values wait with their records.
func (l *lookups) held() (bytes int64) {
	for i := range l.batches {
		bytes += l.batches[i].bytes
	}
	return bytes
}

// known tells whether a record can be stepped without a look-up. The answer is asked for at each choice between the
// queues, and a yes holds until the machine next forgets something: so it is kept with the record. A no is not kept: a
// step of the same id may turn it into a yes.
func (r *runner) known(it *queued) bool {
	if it.known != r.forgets && r.machine.Resolve(it.Key) == partition.Known {
		it.known = r.forgets
	}
	return it.known == r.forgets
}

// Bounds of one look-up, and of what was found and waits with its records.
const (
	maxLookUp      = 2000    // records of one topic
	maxLookUpBytes = 4 << 20 // of values; it ends with the one that exceeds it
	maxFoundBytes  = 16 << 20
)

// lookUp asks the store for the ids at the front of each queue that need it.
func (t *Task) lookUp() {
	r := t.run
	l := &r.lookups
	if l.flying || t.full() || l.held() >= maxFoundBytes {
		return
	}
	if l.index == nil {
		l.index = make(map[string]int32)
	}
	clear(l.index)
	l.ids, l.refs = nil, l.refs[:0]
	for i := range r.queues {
		q := &r.queues[i]
		for k := q.head; k < len(q.items) && k-q.head < maxLookUp; k++ {
			it := &q.items[k]
			if it.batch != 0 || r.known(it) {
				continue
			}
			at, asked := l.index[string(it.Key)]
			if !asked { // one id is asked for once, however many records wait for it
				at = int32(len(l.ids))
				l.ids = append(l.ids, it.Key)
				l.index[string(it.Key)] = at
			}
			l.refs = append(l.refs, lookupRef{q.topic, it.Offset, at})
		}
	}
	if len(l.ids) == 0 {
		return
	}
	l.flying = true
	l.last++
	number := l.last
	l.batches = append(l.batches, lookupBatch{number: number, left: len(l.refs)})
	low, refs := r.fence.Seq, l.refs
	send(t, callTimeout, LookUp{IDs: l.ids, Room: maxLookUpBytes}, func(found LookedUp, err error) {
		l.flying = false
		if err != nil {
			t.stepped(number, len(refs))
			l.flying = true
			t.failed(lookingUp, err, func() { l.flying = false })
			return
		}
		t.fine(lookingUp)
		if !t.verify(found.Fence, low) {
			return
		}
		t.obs.LookedUp += int64(len(found.Values))
		t.looked(number, refs, found.Values)
	})
}

const lookingUp = "looking up ids"

// looked hands the values to their records, which may have moved forward in their queues meanwhile; a record that was
// stepped without its value has been resolved from the overlay. Where there was no room for all, the rest is asked for again.
func (t *Task) looked(number uint64, refs []lookupRef, values [][]byte) {
	r := t.run
	for i := range r.lookups.batches {
		if b := &r.lookups.batches[i]; b.number == number {
			b.since = t.now.Mono
			for _, v := range values {
				b.bytes += int64(len(v))
			}
		}
	}
	for _, ref := range refs {
		q := &r.queues[ref.topic]
		k := q.find(ref.offset)
		if k < 0 || int(ref.id) >= len(values) {
			t.stepped(number, 1)
			continue
		}
		q.items[k].batch, q.items[k].found = number, values[ref.id]
	}
}

// find is the index of the record at an offset, or -1 where it has been stepped. Offsets rise within a queue.
func (q *queue) find(offset int64) int {
	k, ok := slices.BinarySearchFunc(q.items[q.head:], offset, func(it queued, o int64) int { return cmp.Compare(it.Offset, o) })
	if !ok {
		return -1
	}
	return q.head + k
}

// stepped notes that n records of a look-up are through, and forgets what may be forgotten now.
func (t *Task) stepped(number uint64, n int) {
	r := t.run
	for i := range r.lookups.batches {
		if b := &r.lookups.batches[i]; b.number == number {
			b.left -= n
			break
		}
	}
	done := 0
	for done < len(r.lookups.batches) && r.lookups.batches[done].left <= 0 {
		done++
	}
	if done > 0 {
		r.lookups.batches = append(r.lookups.batches[:0], r.lookups.batches[done:]...)
		t.forgetSaved()
	}
}

// staleAfter is how long what was looked up may wait for its turn while the overlay waits for it.
const staleAfter = time.Second

// letGo drops what was looked up for records whose turn does not come, to be looked up again when it does. A payoff
// of today waits for as long as a backlog of yesterday's impressions lasts: the overlay, which may forget nothing
// meanwhile, would outgrow all bounds.
func (t *Task) letGo() {
	r := t.run
	if len(r.forget) == 0 || len(r.lookups.batches) == 0 {
		return
	}
	b := r.lookups.batches[0]
	if b.since == 0 || t.now.Mono-b.since < staleAfter {
		return
	}
	for i := range r.queues {
		q := &r.queues[i]
		for k := q.head; k < len(q.items); k++ {
			if it := &q.items[k]; it.batch == b.number {
				it.batch, it.found = 0, nil
			}
		}
	}
	t.stepped(b.number, b.left)
}

// forgetting is an acked checkpoint whose changes stay in the overlay until the look-ups up to a number are through.
type forgetting struct {
	segment uint64
	lookup  uint64
}

func (t *Task) forgetSaved() {
	r := t.run
	done := 0
	for done < len(r.forget) {
		f := r.forget[done]
		if len(r.lookups.batches) > 0 && r.lookups.batches[0].number <= f.lookup && !t.cfg.sabotage.forgetEarly {
			break
		}
		r.machine.Forget(f.segment)
		r.forgets++
		done++
	}
	if done > 0 {
		r.forget = append(r.forget[:0], r.forget[done:]...)
	}
}
