package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
)

// What follows is for a replay, which does with a machine what its owner did.

// Act acts upon event time, as the owner did between two records.
func (m *Machine) Act() { m.prepare() }

// Visit ends the impression of an id whose deadline is past, as the walk did. Found is what a look-up showed.
func (m *Machine) Visit(id state.ID, found Found) error {
	if m.epoch == 0 { // as Expire does
		m.follow()
	}
	m.stepping = stepping{}
	if err := m.open(id, nil, found); err != nil {
		return err
	}
	if m.settle(); !m.stepping.due {
		return fmt.Errorf("partition: nothing is due for impression %s", id)
	}
	m.cur.changed = true
	m.save(false)
	return nil
}

// WalkOn closes so many buckets more, as the walk did.
func (m *Machine) WalkOn(buckets int64) {
	if len(m.trials.all) > 0 {
		m.follow()
	}
	m.expiry.from(m.expiry.floor + buckets)
	m.compare()
}

// SeenLoaded is what was stored of what was seen, with the state that was loaded; ok is false where that does not tell.
func (m *Machine) SeenLoaded() (x StoredObservations, ok bool) {
	s := &m.seen
	return StoredObservations{Writer: s.loadedWriter, MadeBy: s.madeBy, Sealed: s.sealed, Unsent: s.unsent, Visited: s.visited, Tokens: s.tokens}, s.known
}

// PendingAt is the offset of a pending impression, of which the value is stored; ok is false for anything else.
func PendingAt(value []byte) (offset int64, ok bool) {
	var e entry
	_, rest := cutKeyHash(value)
	if decodeEntry(rest, 0, &e) != nil || e.kind != pending || e.offset == unknownOffset {
		return 0, false
	}
	return e.offset, true
}
