package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
)

// Found is the result of a look-up: the stored value and its page. The zero value means that nothing is stored.
type Found struct {
	Page  uint32
	Value []byte
}

type current struct {
	id      state.ID
	key     []byte // the id's text; nil during the expiry walk, which has ids only
	keyHash uint32 // of a stored Hashed id; see state.KeyHash
	hash    uint64
	slot    *slot  // nil: not in the overlay
	page    uint32 // page of an entry that is not in the overlay; noPage: nothing is stored
	entry
	changed bool
	encoded []byte // scratch
}

func (m *Machine) openKey(in *Input) error {
	return m.open(in.id(), in.Record.Key, in.Found)
}

func (in *Input) id() state.ID {
	if in.ID != nil {
		return *in.ID
	}
	return state.IDOf(in.Record.Key)
}

// open makes the entry of id the current one. The overlay wins over the look-up.
func (m *Machine) open(id state.ID, key []byte, found Found) error {
	c := &m.cur
	c.id, c.key, c.hash, c.changed, c.page = id, key, m.hash(id), false, noPage
	c.slot = m.segments.over.find(c.hash, id)
	value, page := found.Value, found.Page
	if c.slot != nil {
		value, page = c.slot.value, c.slot.page
		if c.slot.deleted {
			value = nil
		}
	} else if value != nil {
		c.page = found.Page
	}
	hash, rest := cutKeyHash(value)
	if c.keyHash = hash; len(rest) == len(value) && id.Hashed() { // it is new, or has ended and may be forgotten now
		c.keyHash = state.KeyHash(key)
	}
	if value == nil {
		c.reset()
		return nil
	}
	err := decodeEntry(rest, m.expiry.pages.bucket(page), &c.entry)
	if err == nil {
		err = m.checkEntry(&c.entry)
	}
	if err != nil {
		return fmt.Errorf("the stored entry of impression id %s: %w", c.name(), err)
	}
	return nil
}

func (c *current) name() string {
	if c.key != nil {
		return fmt.Sprintf("%.64q", c.key)
	}
	return c.id.String()
}

// keyHashMark is the first byte stored under a Hashed id whose impression has not ended. Four bytes of the partitioner's hash of the id's
// text follow, then the entry. With the hash, reshard finds the entry's new partition. Tombstones have none: reshard drops them.
const (
	keyHashMark  = 0xff
	keyHashBytes = 5
)

func appendKeyHash(dst []byte, hash uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, keyHashMark), hash)
}

// cutKeyHash splits a stored value into key hash and entry.
func cutKeyHash(value []byte) (hash uint32, entry []byte) {
	if len(value) < keyHashBytes || value[0] != keyHashMark {
		return 0, value
	}
	return binary.LittleEndian.Uint32(value[1:]), value[keyHashBytes:]
}

// checkEntry fails if a number in an entry has no meaning in this state.
func (m *Machine) checkEntry(e *entry) error {
	if e.kind == waiting {
		return nil
	}
	if int(e.learner) >= len(m.learners) {
		return fmt.Errorf("%w: learner number %d, but there are only %d", errEntry, e.learner, len(m.learners))
	}
	if e.arm != noArm && int(e.arm) >= len(m.trials.arms.all) {
		return fmt.Errorf("%w: arm number %d, but there are only %d", errEntry, e.arm, len(m.trials.arms.all))
	}
	l := m.learners[e.learner]
	if l.gone {
		return nil
	}
	if e.kind == pending && e.selected >= 0 { // another configuration may have needed more
		e.shrink(l.delay.Needs())
	}
	for _, i := range e.items {
		if i >= l.items.next {
			return fmt.Errorf("%w: item number %d, but learner %q has only given %d", errEntry, i, l.name, l.items.next)
		}
	}
	return nil
}

// save writes the current entry to the overlay, if it changed, and puts it into a page of the right bucket.
func (m *Machine) save(walking bool) {
	c := &m.cur
	if !c.changed {
		return
	}
	s := c.slot
	if s == nil {
		if c.kind == nothing && c.page == noPage {
			return
		}
		s = m.segments.over.add(c.hash, c.id)
		c.slot = s
		s.page, s.storedPage = c.page, c.page
	}
	before := s.page
	m.expiry.place(s, &c.entry, m.time.watermark, walking, m.segments.open)
	m.known.moved(c.hash, before, s.page)
	if c.kind == nothing {
		m.segments.change(s, nil)
	} else {
		// Parked values may alias s.value: encode into scratch first.
		c.encoded = c.encoded[:0]
		if c.kind != closed && c.id.Hashed() {
			c.encoded = appendKeyHash(c.encoded, c.keyHash)
		}
		c.encoded = appendEntry(c.encoded, &c.entry)
		m.segments.change(s, c.encoded)
		if cap(c.encoded) > maxKeptOutput {
			c.encoded = nil
		}
	}
	c.changed = false
}
