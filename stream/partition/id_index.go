package partition

import "math/bits"

// idIndex is the set of ids with stored entries, as 64-bit keyed hashes, each with its page. It has no false negatives: impressions are
// decided without a look-up because of that. Two ids with one hash are two elements. A look-up asks in both pages for the whole id, so a
// shared hash (probability about n²·2⁻⁶⁵) costs a look-up only. A cuckoo filter that grows by chaining would not do: it loses an id when
// another with the same fingerprint is deleted from the wrong link.
//
// It has many small tables, so that no insertion waits long: with ten million ids, growing a table copies some 40,000. A table grows by a
// quarter, is at most four fifths full, and takes 15 to 19 bytes an id.
type idIndex struct {
	tables   [knownTables]idTable // by the first bits of the hash
	complete bool                 // all ids of the store were added
}

const (
	knownTableBits = 8
	knownTables    = 1 << knownTableBits
)

// idTable is a hash table with linear probing and backward-shift deletion, so it has no deletion marks. A slot is taken if its page is not
// 0.
type idTable struct {
	hashes []uint64
	pages  []uint32
	used   int
}

// home returns the slot where the search for a hash begins, from the bits behind those that choose the table.
func (t *idTable) home(hash uint64) int {
	at, _ := bits.Mul64(hash<<knownTableBits, uint64(len(t.hashes)))
	return int(at)
}

func (t *idTable) next(at int) int {
	if at++; at == len(t.hashes) {
		return 0
	}
	return at
}

// Load factors in fifths: above the first a table grows, below the second it shrinks, both by a quarter.
const (
	fullAbove  = 4
	fullBelow  = 2
	smallTable = 8
)

func (k *idIndex) table(hash uint64) *idTable { return &k.tables[hash>>(64-knownTableBits)] }

func (k *idIndex) add(hash uint64, page uint32) {
	t := k.table(hash)
	if 5*(t.used+1) > fullAbove*len(t.hashes) {
		t.resize(max(smallTable, len(t.hashes)+len(t.hashes)/4))
	}
	t.put(hash, page)
}

func (t *idTable) put(hash uint64, page uint32) {
	at := t.home(hash)
	for t.pages[at] != 0 {
		at = t.next(at)
	}
	t.hashes[at], t.pages[at] = hash, page
	t.used++
}

func (t *idTable) resize(size int) {
	old := *t
	*t = idTable{hashes: make([]uint64, size), pages: make([]uint32, size)}
	for i, page := range old.pages {
		if page != 0 {
			t.put(old.hashes[i], page)
		}
	}
}

func (t *idTable) find(hash uint64, page uint32) int {
	if t.used == 0 {
		return -1
	}
	for at := t.home(hash); t.pages[at] != 0; at = t.next(at) {
		if t.hashes[at] == hash && t.pages[at] == page {
			return at
		}
	}
	return -1
}

func (k *idIndex) moved(hash uint64, from, to uint32) {
	switch {
	case from == to:
	case from == noPage:
		k.add(hash, to)
	case to == noPage:
		k.remove(hash, from)
	default:
		k.move(hash, from, to)
	}
}

func (k *idIndex) move(hash uint64, from, to uint32) {
	t := k.table(hash)
	if at := t.find(hash, from); at >= 0 {
		t.pages[at] = to
	}
}

func (k *idIndex) remove(hash uint64, page uint32) {
	t := k.table(hash)
	hole := t.find(hash, page)
	if hole < 0 {
		return
	}
	for at := t.next(hole); t.pages[at] != 0; at = t.next(at) {
		// An id that is nearer to its home than to the hole stays.
		if home := t.home(t.hashes[at]); t.behind(home, at) >= t.behind(hole, at) {
			t.hashes[hole], t.pages[hole] = t.hashes[at], t.pages[at]
			hole = at
		}
	}
	t.pages[hole] = 0
	t.used--
	if n := len(t.hashes); n > smallTable && 5*t.used < fullBelow*n {
		t.resize(max(smallTable, n-n/4))
	}
}

// behind returns how many slots to is behind from, around the end.
func (t *idTable) behind(from, to int) int {
	if to >= from {
		return to - from
	}
	return to - from + len(t.hashes)
}

// pagesOf appends the pages of all ids with this hash.
func (k *idIndex) pagesOf(dst []uint32, hash uint64) []uint32 {
	t := k.table(hash)
	if t.used == 0 {
		return dst
	}
	for at := t.home(hash); t.pages[at] != 0; at = t.next(at) {
		if t.hashes[at] == hash {
			dst = append(dst, t.pages[at])
		}
	}
	return dst
}

// certainlyNew reports that no id with this hash is stored. The overlay is not asked.
func (k *idIndex) certainlyNew(hash uint64) bool {
	if !k.complete {
		return false
	}
	t := k.table(hash)
	if t.used == 0 {
		return true
	}
	for at := t.home(hash); t.pages[at] != 0; at = t.next(at) {
		if t.hashes[at] == hash {
			return false
		}
	}
	return true
}
