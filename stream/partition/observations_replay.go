package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
)

// The methods below are for a replay, which repeats the calls of the owner.

// Act acts upon event time, as the owner did between two records.
func (m *Machine) Act() { m.prepare() }

// Visit ends the impression of an id whose deadline is past, as the walk did. Found is the look-up's result.
func (m *Machine) Visit(id state.ID, found Found) error {
	if m.epoch == 0 || m.eachEpoch() { // as Expire does
		m.follow()
	}
	m.stepping = stepping{}
	if err := m.join.open(id, nil, found); err != nil {
		return err
	}
	if m.join.expireDue(); !m.stepping.due {
		return fmt.Errorf("partition: nothing is due for impression %s", id)
	}
	m.cur.changed = true
	m.save(false)
	return nil
}

// WalkOn closes this many more buckets, as the walk did.
func (m *Machine) WalkOn(buckets int64) {
	if len(m.trials.all) > 0 {
		m.follow()
	}
	m.expiry.from(m.expiry.floor + buckets)
	m.trials.walked(m.expiry.floor)
}

// SeenLoaded returns the loaded observations; ok is false if there are none that fit the state.
func (g *Log) SeenLoaded() (x StoredObservations, ok bool) {
	return g.seen.StoredObservations, g.seen.known
}

// PendingAt returns the offset of a stored pending impression; ok is false for any other value.
func PendingAt(value []byte) (offset int64, ok bool) {
	var e entry
	_, rest := cutKeyHash(value)
	if decodeEntry(rest, 0, &e) != nil || e.kind != pending || e.offset == unknownOffset {
		return 0, false
	}
	return e.offset, true
}
