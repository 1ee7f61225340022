package partition

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// ErrTransfer means that one machine's state cannot be carried over to another.
var ErrTransfer = errors.New("partition: the state cannot be carried over")

// Transfer carries state from one machine to another with the same configuration: for a new partition count, or from an export. Numbers of
// items and learners are each machine's own, and are translated by name. The receiver's next Seal returns the changes.
type Transfer struct {
	from, to *Offline
	share    delay.Portion
	numbers  [][]policy.Item // by from's numbers of learner and item; -1: not translated yet
}

// carriedOffset plus a running number is the offset of a carried impression: it is unique in its partition, and no log has it.
const carriedOffset = 1 << 61

// NewTransfer makes a Transfer between two loaded machines.
func NewTransfer(from, to *Offline, s delay.Portion) *Transfer {
	t := &Transfer{from: from, to: to, share: s, numbers: make([][]policy.Item, len(from.learners))}
	for _, l := range from.learners {
		if to.byName[l.name] == nil {
			to.registerUnconfigured(l.name, l.fingerprint)
		}
		t.numbers[l.number] = make([]policy.Item, l.items.next)
		for i := range t.numbers[l.number] {
			t.numbers[l.number][i] = -1
		}
	}
	return t
}

// Statistics carries over the statistics of all learners, as Share says. It fails with ErrTransfer if one is not configured any more, or an
// experiment is configured with a lower run than the stored one: these would be lost.
func (t *Transfer) Statistics() error {
	for _, x := range t.from.trials.all {
		if x.sums.idle {
			return fmt.Errorf("%w: a later run of experiment %q is stored than run %d, which is configured: raise experiments.%[2]s.run",
				ErrTransfer, x.Name, x.Run)
		}
	}
	for _, l := range t.from.learners {
		if _, past := wasReset(l.name); past {
			continue
		}
		if l.gone {
			return fmt.Errorf("%w: learner %q is stored, but not configured any more: put it back into the configuration, or reset it",
				ErrTransfer, l.name)
		}
		if err := t.Learner(l.name); err != nil {
			return err
		}
	}
	return nil
}

func (t *Transfer) Learner(name string) error {
	from, to := t.from.byName[name], t.to.byName[name]
	if from == nil || to == nil || from.gone || to.gone {
		return fmt.Errorf("%w: there is no learner %q on both sides", ErrTransfer, name)
	}
	merges := to.delay.(delay.Mergeable)
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

// item returns the receiver's number of an item, which it keeps at least as long as the giver. An ended item gets an unused number.
func (t *Transfer) item(from *learner, i policy.Item) policy.Item {
	known, to := t.numbers[from.number], t.to.byName[from.name]
	switch {
	case known[i] >= 0:
	case !from.items.has(i):
		known[i] = to.items.skip()
		to.changed = true
	default:
		known[i] = t.to.decider.intern(to, nil, [][]byte{[]byte(from.items.name(i))})[0]
		to.carried([]policy.Item{known[i]}, t.to.time.watermark, from.items.untilOf(i), &t.to.segments)
	}
	return known[i]
}

// Account carries over the counts of all records, except pending impressions and parked records, which come with Entry.
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

// Watermark sets the receiver's watermark to the least of all givers: nothing expires too early.
func (t *Transfer) Watermark() {
	if m := t.to; m.time.watermark == 0 || t.from.time.watermark < m.time.watermark {
		m.time.watermark = t.from.time.watermark
	}
}

// Entry carries over the value stored under an id in a bucket of the giver. found is the receiver's value, if any: producers that disagree
// about an id's partition may have put it into two. Then a record parked in one partition for an entry of the other becomes an orphan. Of
// two impressions one is a duplicate.
func (t *Transfer) Entry(id state.ID, bucket int64, value []byte, found Found) error {
	m := t.to
	if err := m.join.open(id, nil, found); err != nil {
		return err
	}
	var e entry
	// Parked values alias value, which is the caller's.
	keyHash, value := cutKeyHash(append([]byte(nil), value...))
	err := decodeEntry(value, bucket, &e)
	if err == nil {
		err = t.from.join.checkEntry(&e)
	}
	if err != nil {
		return fmt.Errorf("the stored entry of impression id %s: %w", id, err)
	}
	if !t.makeRoom(&e) {
		return nil
	}
	m.cur.entry, m.cur.keyHash = e, keyHash
	if e.kind != parkedOnly {
		from := t.from.learners[e.learner]
		m.cur.learner = m.byName[from.name].number
		if e.kind == pending {
			t.pending(from, &m.cur.entry)
		}
	}
	for i := range e.parked {
		p := &e.parked[i]
		m.ledger.add(ofTopic(p.topic, 0, selectionsRead, payoffsRead), 1)
		m.outcome(p.topic, parked, 1)
		m.ledger.add(parkedBytes, int64(len(p.value)))
	}
	m.cur.changed = true
	m.save(false)
	return nil
}

// makeRoom resolves two entries with one id, and reports whether the new one is to be stored.
func (t *Transfer) makeRoom(e *entry) bool {
	m := t.to
	have := &m.cur.entry
	switch {
	case have.kind == nothing:
		return true
	case e.kind == parkedOnly && have.kind == parkedOnly: // both wait for the impression, which may come
		for i := range have.parked {
			m.join.unpark(&have.parked[i])
			m.ledger.add(ofTopic(have.parked[i].topic, 0, selectionsRead, payoffsRead), -1)
		}
		t.orphanParked(e, MaxParkedPerID-min(len(have.parked), MaxParkedPerID))
		e.parked = append(have.parked, e.parked...)
		return true
	case e.kind == parkedOnly:
		t.orphanParked(e, 0)
		return false
	case have.kind == parkedOnly || have.kind == tombstone && e.kind == pending:
		for i := range have.parked {
			m.join.unpark(&have.parked[i])
			m.outcome(have.parked[i].topic, orphan, 1)
		}
		return true
	case e.kind == pending:
		t.orphanParked(e, 0)
		m.ledger.add(impressionsRead, 1)
		m.ledger.add(impressionsDuplicate, 1)
		l := m.byName[t.from.learners[e.learner].name]
		l.ledger.add(impressionsRead, 1)
		l.ledger.add(impressionsDuplicate, 1)
		l.changed = true
	}
	return false
}

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
		l.items.addRow(e.items[e.selected])
	}
	l.carried(e.items, e.began, e.payoffDeadline, &m.segments) // else they would be past their deadline
	if e.instance >= 0 {
		e.instance = t.share.Instance(e.instance)
	}
	if l.keepsSelected(e) {
		l.delay.(delay.Mergeable).Carry(m.join.feedback(l), e.selected >= 0)
		m.segments.loose += eventWeight
	}
}

// unit carries an entry's arm over, under a name that no arm has if the unit is withdrawn.
func (t *Transfer) unit(e *entry) {
	if e.arm == noArm {
		return
	}
	id := t.from.trials.arms.all[e.arm]
	if x, _ := t.from.trials.unitOf(e); x != nil {
		id.arm += resetMark
	}
	e.arm = t.to.trials.arms.number(id)
}
