package partition

import "github.com/ranker-worker/ranker-worker/state"

// overlay holds the changed entries that a look-up may not see yet, in stored form. It wins over the store. Slots are reused, so a steady
// stream of impressions does not allocate.
type overlay struct {
	slots   map[uint64]*slot // by hash; slots with one hash are chained
	dirty   []*slot          // changed since the last seal
	sealed  []sealedSlots    // oldest first
	free    *slot
	spare   [][]*slot
	entries int // slots in use
}

type slot struct {
	id      state.ID
	hash    uint64
	next    *slot // with the same hash, or in the free list
	value   []byte
	deleted bool   // nothing is stored any more
	segment uint64 // of the last change

	page       uint32 // page of the entry now; noPage if deleted
	storedPage uint32 // page with the stored entry as of the last seal; noPage: nothing is stored
	weight     int64  // the slot's share of Dirty's bytes
}

type sealedSlots struct {
	segment uint64
	slots   []*slot
}

func newOverlay() overlay { return overlay{slots: make(map[uint64]*slot)} }

func (o *overlay) find(hash uint64, id state.ID) *slot {
	s := o.slots[hash]
	for s != nil && s.id != id {
		s = s.next
	}
	return s
}

const slotsAtOnce = 64

func (o *overlay) add(hash uint64, id state.ID) *slot {
	if o.free == nil {
		block := make([]slot, slotsAtOnce)
		for i := range block {
			block[i].next = o.free
			o.free = &block[i]
		}
	}
	s := o.free
	o.free = s.next
	*s = slot{id: id, value: s.value[:0], hash: hash, next: o.slots[hash]}
	o.slots[hash] = s
	o.entries++
	return s
}

const maxKeptSlotBytes = 1024

func (o *overlay) drop(s *slot) {
	if first := o.slots[s.hash]; first != s {
		for first.next != s {
			first = first.next
		}
		first.next = s.next
	} else if s.next != nil {
		o.slots[s.hash] = s.next
	} else {
		delete(o.slots, s.hash)
	}
	if cap(s.value) > maxKeptSlotBytes {
		s.value = nil
	}
	s.next, o.free = o.free, s
	o.entries--
}

func (o *overlay) seal(segment uint64) []*slot {
	if len(o.dirty) == 0 {
		return nil
	}
	slots := o.dirty
	o.sealed = append(o.sealed, sealedSlots{segment, slots})
	o.dirty = nil
	if n := len(o.spare); n > 0 {
		o.dirty, o.spare = o.spare[n-1], o.spare[:n-1]
	}
	return slots
}

const maxSpareLists = 4

func (o *overlay) forget(segment uint64) {
	done := 0
	for done < len(o.sealed) && o.sealed[done].segment <= segment {
		number, list := o.sealed[done].segment, o.sealed[done].slots
		for _, s := range list {
			if s.segment == number { // a later list has those that changed again
				o.drop(s)
			}
		}
		clear(list)
		if len(o.spare) < maxSpareLists {
			o.spare = append(o.spare, list[:0])
		}
		done++
	}
	if done > 0 {
		n := copy(o.sealed, o.sealed[done:])
		clear(o.sealed[n:])
		o.sealed = o.sealed[:n]
	}
}
