package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Entries are the entries of a partition, by impression id: an index of the stored ones, and in memory those that have changed. One at a
// time is the current one, which steps change.
type Entries struct {
	time     *eventTime
	hashKey  uint64
	known    idIndex
	segments segments
	expiry   expiry
	cur      current
	hasher   xxhash.Digest
	found    []uint32 // scratch: pages
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

func newEntries(time *eventTime, hashKey uint64) Entries {
	x := Entries{time: time, hashKey: hashKey, segments: newSegments(), expiry: newExpiry()}
	x.cur.entry.reset()
	return x
}

// hash returns the keyed 64-bit hash of an id. Its key stays in the process: a sender with the key could choose ids that collide. The salt
// would not do, since rankings show decisions' keys.
func (x *Entries) hash(id state.ID) uint64 {
	x.hasher.ResetWithSeed(x.hashKey)
	_, _ = x.hasher.Write(id[:]) // never fails
	return x.hasher.Sum64()
}

// Resolve reports whether a record with this id can be stepped without a look-up. The answer holds until the next Forget.
func (x *Entries) Resolve(id state.ID) Resolution {
	h := x.hash(id)
	if x.segments.over.find(h, id) != nil || x.known.certainlyNew(h) {
		return Known
	}
	return NeedsLookUp
}

// Places appends all places where an id may be stored, mostly one. They are not known before KnownComplete.
func (x *Entries) Places(dst []state.Place, id state.ID) []state.Place {
	x.found = x.known.pagesOf(x.found[:0], x.hash(id))
	for _, page := range x.found {
		dst = append(dst, state.Place{Page: page, ID: id})
	}
	return dst
}

// AddKnown adds a page of the store and its ids to the index, before anything is stepped.
func (x *Entries) AddKnown(p *state.PageOfIDs) {
	x.expiry.pages.load(p.Page, len(p.IDs))
	for _, id := range p.IDs {
		x.known.add(x.hash(id), p.Number)
	}
}

// KnownComplete marks the index as complete: from now on an unknown id is new.
func (x *Entries) KnownComplete() { x.known.complete = true }

func (x *Entries) IsKnownComplete() bool { return x.known.complete }

// DueUpTo returns the last bucket whose deadlines are all past, if the walk has not closed it. From now on nothing is put into buckets up
// to it. There is none before KnownComplete.
func (x *Entries) DueUpTo() (bucket int64, ok bool) {
	if !x.known.complete {
		return 0, false
	}
	return x.expiry.due(x.time.watermark)
}

// DueSegment returns the last segment that changed buckets up to DueUpTo's in a way that the walk has to see. Until that segment is stored,
// the store shows moved entries at their old place, or not all entries.
func (x *Entries) DueSegment() uint64 { return x.expiry.dueSegment }

// WalkLag returns the event time past its deadlines that the walk has not covered, in milliseconds: up to two ticks if it keeps up. It is 0
// before the first walk ended.
func (x *Entries) WalkLag() event.Millis { return x.expiry.lag(x.time.watermark) }

// Dirty returns the number of entries changed since the last seal, and the approximate bytes to store all changes.
func (x *Entries) Dirty() (entries int, bytes int64) {
	return len(x.segments.over.dirty), x.segments.weight()
}

// openUnchecked makes the entry of id the current one. The overlay wins over the look-up. Numbers of learners, items and arms in it may not
// exist.
func (x *Entries) openUnchecked(id state.ID, key []byte, found Found) error {
	c := &x.cur
	c.id, c.key, c.hash, c.changed, c.page = id, key, x.hash(id), false, noPage
	c.slot = x.segments.over.find(c.hash, id)
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
	return c.named(decodeEntry(rest, x.expiry.pages.bucket(page), &c.entry))
}

// named says which entry an error is about.
func (c *current) named(err error) error {
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

// save writes the current entry to the overlay, if it changed, and puts it into a page of the right bucket.
func (x *Entries) save(walking bool) {
	c := &x.cur
	if !c.changed {
		return
	}
	s := c.slot
	if s == nil {
		if c.kind == nothing && c.page == noPage {
			return
		}
		s = x.segments.over.add(c.hash, c.id)
		c.slot = s
		s.page, s.storedPage = c.page, c.page
	}
	before := s.page
	x.expiry.place(s, &c.entry, x.time.watermark, walking, x.segments.open)
	x.known.moved(c.hash, before, s.page)
	if c.kind == nothing {
		x.segments.change(s, nil)
	} else {
		// Parked values may alias s.value: encode into scratch first.
		c.encoded = c.encoded[:0]
		if c.kind != tombstone && c.id.Hashed() {
			c.encoded = appendKeyHash(c.encoded, c.keyHash)
		}
		c.encoded = appendEntry(c.encoded, &c.entry)
		x.segments.change(s, c.encoded)
		if cap(c.encoded) > maxKeptOutput {
			c.encoded = nil
		}
	}
	c.changed = false
}

// Forget says that the store has all segments up to this one, and that each record whose look-up was answered earlier has been stepped.
// Entries unchanged since are dropped from memory.
func (x *Entries) Forget(segment uint64) {
	x.segments.over.forget(segment)
	x.expiry.forget(segment)
}
