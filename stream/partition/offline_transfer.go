package partition

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// ErrTransfer says that what one machine holds cannot be carried over to another.
var ErrTransfer = errors.New("partition: the state cannot be carried over")

// Transfer carries what one machine holds over to another, which was made by the same configuration: when the number of
// partitions changes, or what is known comes from an export. Item numbers and learners' numbers are each machine's own,
// and are translated by name. The receiver's changes come with its next Seal.
type Transfer struct {
	from, to *Offline
	share    delay.Share
	numbers  [][]policy.Item // by number of from's learner and item; -1: not met yet
}

// carriedOffset is added to a running number to make the offset of an impression that was carried over: it tells
// impressions of one partition apart, as offsets do, and is none of the log.
const carriedOffset = 1 << 61

// NewTransfer makes one between two machines that are loaded. It fails with ErrTransfer where from has a learner that is
// not configured any more: what it knows would be lost.
func NewTransfer(from, to *Offline, s delay.Share) (*Transfer, error) {
	t := &Transfer{from: from, to: to, share: s, numbers: make([][]policy.Item, len(from.learners))}
	for _, l := range from.learners {
		if _, past := wasReset(l.name); l.gone && !past {
			return nil, fmt.Errorf("%w: learner %q is stored, but not configured any more: put it back into the configuration, "+
				"or reset it", ErrTransfer, l.name)
		}
		if to.byName[l.name] == nil {
			to.register(&learner{name: l.name, fingerprint: l.fingerprint, gone: true})
		}
		t.numbers[l.number] = make([]policy.Item, l.items.next)
		for i := range t.numbers[l.number] {
			t.numbers[l.number][i] = -1
		}
	}
	return t, nil
}

// PooledState carries over what learners know, as Share says.
func (t *Transfer) Knowledge() error {
	for _, l := range t.from.learners {
		if l.gone {
			continue
		}
		if err := t.Learner(l.name); err != nil {
			return err
		}
	}
	return nil
}

// Learner carries over what one learner knows.
func (t *Transfer) Learner(name string) error {
	from, to := t.from.byName[name], t.to.byName[name]
	if from == nil || to == nil || from.gone || to.gone {
		return fmt.Errorf("%w: there is no learner %q on both sides", ErrTransfer, name)
	}
	merges, ok := to.delay.(delay.Mergeable)
	if !ok {
		return fmt.Errorf("%w: learner %q", delay.ErrMerge, name)
	}
	if t.share.Additive || merges.NamesItems() {
		for i := range from.items.all() {
			t.item(from, i)
		}
		to.grow()
	}
	if err := delay.Merge(merges, from.delay, t.numbers[from.number], t.share, to.items.taught); err != nil {
		return fmt.Errorf("learner %q: %w", name, err)
	}
	return nil
}

// item is the receiver's number of an item, which it keeps as long as the giver would at least. One that has ended has a number there, too,
// that is nobody's.
func (t *Transfer) item(from *learner, i policy.Item) policy.Item {
	known, to := t.numbers[from.number], t.to.byName[from.name]
	switch {
	case known[i] >= 0:
	case !from.items.has(i):
		known[i] = to.items.skip()
		to.changed = true
	default:
		known[i] = t.to.intern(to, nil, [][]byte{[]byte(from.items.name(i))})[0]
		process := []int32{to.items.inProcess(known[i])}
		to.carried(process, t.to.time.watermark, from.items.untilOf(i))
	}
	return known[i]
}

// Account carries over what became of all records, those apart that Entry carries: pending impressions and what is
// parked.
func (t *Transfer) Account() {
	pass := func(to, from *ledger) {
		n := from.now
		n[impressionsRead] -= n[impressionsPending]
		n[selectionsRead] -= n[selectionsParked]
		n[payoffsRead] -= n[payoffsParked]
		n[impressionsPending], n[selectionsParked], n[payoffsParked], n[parkedBytes] = 0, 0, 0, 0
		for c := range n {
			to.add(count(c), n[c])
		}
	}
	pass(&t.to.ledger, &t.from.ledger)
	for _, l := range t.from.learners {
		to := t.to.byName[l.name]
		pass(&to.ledger, &l.ledger)
		to.changed = true
	}
}

// Watermark makes the receiver's watermark the least of those of all machines that something was carried over from:
// nothing expires before its time.
func (t *Transfer) Watermark() {
	if m := t.to; m.time.watermark == 0 || t.from.time.watermark < m.time.watermark {
		m.time.watermark = t.from.time.watermark
	}
}

// Entry carries over what is stored under an id, in a bucket of the giver: a pending impression with all that is known of it, a tombstone, or
// parked records. Found is what the receiver has stored under the id, nil for nothing; it may be so for an id that was
// stored in two partitions, because producers did not agree where it belongs. Then what is parked in one partition
// and waits for what is in the other becomes an orphan, as it would have. Of two impressions one is a duplicate.
func (t *Transfer) Entry(id state.ID, bucket int64, value []byte, found Found) error {
	m := t.to
	if err := m.open(id, nil, found); err != nil {
		return err
	}
	var e entry
	// What is parked aliases the value, which is the caller's.
	keyHash, value := cutKeyHash(append([]byte(nil), value...))
	err := decodeEntry(value, bucket, &e)
	if err == nil {
		err = t.from.checkEntry(&e)
	}
	if err != nil {
		return fmt.Errorf("what is stored under impression id %s: %w", id, err)
	}
	if !t.makeRoom(&e) {
		return nil
	}
	m.cur.entry, m.cur.keyHash = e, keyHash
	if e.kind != waiting {
		from := t.from.learners[e.learner]
		m.cur.learner = m.byName[from.name].number
		if e.kind == pending {
			t.pending(from, &m.cur.entry)
		}
	}
	for i := range e.parked {
		p := &e.parked[i]
		m.ledger.add(ofTopic(p.topic, 0, selectionsRead, payoffsRead), 1)
		m.account(p.topic, parked, 1)
		m.ledger.add(parkedBytes, int64(len(p.value)))
	}
	m.cur.changed = true
	m.save(false)
	return nil
}

// makeRoom makes room for an entry where the receiver has one of the same id; it tells whether the new one is to be stored.
func (t *Transfer) makeRoom(e *entry) bool {
	m := t.to
	have := &m.cur.entry
	switch {
	case have.kind == nothing:
		return true
	case e.kind == waiting && have.kind == waiting: // both wait for the impression, which may come
		for i := range have.parked {
			m.unpark(&have.parked[i])
			m.ledger.add(ofTopic(have.parked[i].topic, 0, selectionsRead, payoffsRead), -1)
		}
		t.orphanParked(e, maxParkedPerID-min(len(have.parked), maxParkedPerID))
		e.parked = append(have.parked, e.parked...)
		return true
	case e.kind == waiting:
		t.orphanParked(e, 0)
		return false
	case have.kind == waiting || have.kind == closed && e.kind == pending:
		for i := range have.parked {
			m.unpark(&have.parked[i])
			m.account(have.parked[i].topic, orphan, 1)
		}
		return true
	case e.kind == pending:
		t.orphanParked(e, 0)
		m.ledger.add(impressionsRead, 1)
		m.ledger.add(impressionsDuplicate, 1)
		if from := t.from.learners[e.learner]; m.byName[from.name] != nil {
			l := m.byName[from.name]
			l.ledger.add(impressionsRead, 1)
			l.ledger.add(impressionsDuplicate, 1)
			l.changed = true
		}
	}
	return false
}

// orphanParked makes orphans of what is parked in an entry beyond the first few.
func (t *Transfer) orphanParked(e *entry, kept int) {
	m := t.to
	for i := kept; i < len(e.parked); i++ {
		m.ledger.add(ofTopic(e.parked[i].topic, 0, selectionsRead, payoffsRead), 1)
		m.ledger.add(ofTopic(e.parked[i].topic, 0, selectionsOrphan, payoffsOrphan), 1)
	}
	e.parked = e.parked[:min(kept, len(e.parked))]
}

func (t *Transfer) pending(from *learner, e *entry) {
	m := t.to
	l := m.learners[e.learner]
	t.unit(e)
	m.carried++
	if e.offset != unknownOffset {
		e.offset = carriedOffset + m.carried
	}
	m.count(impressionsPending, 1)
	m.ledger.add(impressionsRead, 1)
	l.ledger.add(impressionsRead, 1)
	if from.gone {
		return
	}
	for k, i := range e.items {
		e.items[k] = t.item(from, i)
	}
	l.grow()
	if e.selected >= 0 {
		l.items.tell(e.items[e.selected])
	}
	for _, i := range e.items { // or it would be past its deadline
		l.carried([]int32{l.items.inProcess(i)}, e.began, e.payoffDeadline)
	}
	if e.instance >= 0 {
		e.instance = t.share.Instance(e.instance)
	}
	if f, ok := l.delay.(delay.Mergeable); ok && m.tells(l) {
		f.Carry(m.feedback(l), e.selected >= 0)
		m.segments.loose += eventWeight
	}
}
