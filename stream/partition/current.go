package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// current is the one entry that a step works on.
type current struct {
	id           []byte
	hash         uint64
	slot         *slot // nil: not in the overlay
	stored       bool  // a look-up showed it
	openedBucket int64 // bucket in which the id stood when the entry was opened
	entry
	changed bool
	encoded []byte // scratch
}

// open makes the entry of id the current one: as it stands in the overlay, else as a look-up found it.
func (m *Machine) open(id, found []byte) error {
	c := &m.cur
	c.id, c.hash, c.changed, c.stored = id, m.hash(id), false, false
	c.slot = m.segments.over.find(c.hash, id)
	value := found
	if c.slot != nil {
		value = c.slot.value
		if c.slot.deleted {
			value = nil
		}
	}
	if value == nil {
		c.reset()
		c.openedBucket = noBucket
		return nil
	}
	c.stored = c.slot == nil
	err := decodeEntry(value, &c.entry)
	if err == nil {
		err = m.checkEntry(&c.entry)
	}
	if err != nil {
		return fmt.Errorf("what is stored under impression id %.64q: %w", id, err)
	}
	c.openedBucket = c.bucket
	return nil
}

// checkEntry makes sure that the numbers in an entry mean something.
func (m *Machine) checkEntry(e *entry) error {
	if e.kind == waiting {
		return nil
	}
	if int(e.learner) >= len(m.learners) {
		return fmt.Errorf("%w: learner number %d, but there are only %d", errEntry, e.learner, len(m.learners))
	}
	if e.began == unknownBegin {
		e.began = m.beganBefore(e)
	}
	l := m.learners[e.learner]
	if l.gone {
		return nil
	}
	for _, i := range e.items {
		if int(i) >= l.items.len() {
			return fmt.Errorf("%w: item number %d, but learner %q has only %d", errEntry, i, l.name, l.items.len())
		}
	}
	return nil
}

// beganBefore is when an impression began of which only the deadline is known: the present horizon before it, which is right
// unless the horizon was changed. Where the learner is gone it is the deadline itself.
func (m *Machine) beganBefore(e *entry) event.Millis {
	if l := m.learners[e.learner]; !l.gone {
		return e.payoffDeadline - l.cfg.PayoffHorizon
	}
	return e.payoffDeadline
}

// save puts the current entry into the overlay, if it has changed, and makes sure that its id stands in the right
// bucket of the expiry index.
func (m *Machine) save(walking bool) {
	c := &m.cur
	if !c.changed {
		return
	}
	s := c.slot
	if s == nil {
		if c.kind == nothing && !c.stored {
			return
		}
		s = m.segments.over.add(c.hash, c.id)
		c.slot = s
		if s.stored = c.stored; c.stored {
			s.bucket, s.storedBucket = c.openedBucket, c.openedBucket
		} else {
			m.known.add(c.hash)
		}
	}
	m.expiry.place(s, &c.entry, walking, m.segments.open)
	if c.kind == nothing {
		m.segments.change(s, nil)
	} else {
		// What is parked may alias s.value, hence the detour.
		c.encoded = appendEntry(c.encoded[:0], &c.entry)
		m.segments.change(s, c.encoded)
		if cap(c.encoded) > maxKeptOutput {
			c.encoded = nil
		}
	}
	c.changed = false
}
