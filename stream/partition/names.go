package partition

import "hash/maphash"

// Names numbers item names: from 0, without gaps, in the order of first use. One Names may serve all machines of a process, which then keep
// each name once. Its numbers are not stored; itemIndex maps them to a learner's own.
type Names interface {
	// Numbers appends the numbers of names to dst. New names get new numbers.
	Numbers(dst []int32, names [][]byte) []int32
	// Number returns a name's number, if it has one.
	Number(name []byte) (n int32, known bool)
	// Name returns the name of a number that Numbers returned.
	Name(n int32) string
	// Texts appends the names of such numbers to dst.
	Texts(dst []string, numbers []int32) []string
}

// NameTable is a Names for one goroutine. An impression looks up many names at once, among perhaps millions, and cache misses dominate. A
// slot is found with one miss, and the misses of a list overlap, unlike with Go's maps (BenchmarkNameTable).
type NameTable struct {
	seed   maphash.Seed
	shards [nameShards]nameShard
	names  []string
}

// nameShard is an open hash table with linear probing. Shards keep the time to grow short.
type nameShard struct {
	slots []nameSlot // a power of two, or none
	used  int
}

type nameSlot struct {
	hash   uint32
	number int32 // number plus 1; 0: empty
}

const (
	nameShards = 64
	leastSlots = 16
	namesAhead = 32 // names whose cache misses overlap
)

var _ Names = (*NameTable)(nil)

func NewNameTable() *NameTable { return &NameTable{seed: maphash.MakeSeed()} }

func (t *NameTable) Numbers(dst []int32, names [][]byte) []int32 {
	for len(names) > 0 {
		start := len(dst)
		dst = t.Known(dst, names)
		if names = names[len(dst)-start:]; len(names) > 0 {
			dst = append(dst, t.add(string(names[0])))
			names = names[1:]
		}
	}
	return dst
}

// Known appends the numbers of names up to the first that has none.
func (t *NameTable) Known(dst []int32, names [][]byte) []int32 {
	var hashes [namesAhead]uint64
	var likely [namesAhead]int32
	var texts [namesAhead]string
	var same [namesAhead]bool // as far as the first byte shows
	for len(names) > 0 {
		some := names[:min(len(names), namesAhead)]
		names = names[len(some):]
		for k, name := range some {
			hashes[k] = maphash.Bytes(t.seed, name)
		}
		for k := range some {
			likely[k] = t.shard(hashes[k]).likely(hashes[k])
		}
		for k := range some {
			if texts[k] = ""; likely[k] >= 0 {
				texts[k] = t.names[likely[k]]
			}
		}
		for k, name := range some {
			same[k] = len(texts[k]) == len(name) && len(name) > 0 && texts[k][0] == name[0]
		}
		for k, name := range some {
			n := likely[k]
			if n >= 0 && (!same[k] || texts[k] != string(name)) { // another name with the same hash
				n = t.find(name, hashes[k])
			}
			if n < 0 {
				return dst
			}
			dst = append(dst, n)
		}
	}
	return dst
}

func (t *NameTable) Number(name []byte) (n int32, known bool) {
	n = t.find(name, maphash.Bytes(t.seed, name))
	return max(n, 0), n >= 0
}

func (t *NameTable) Name(n int32) string { return t.names[n] }

func (t *NameTable) Texts(dst []string, numbers []int32) []string {
	for _, n := range numbers { // cache misses overlap
		dst = append(dst, t.names[n])
	}
	return dst
}

// shard returns the shard of a hash: its highest bits choose the shard, the lowest the slot.
func (t *NameTable) shard(hash uint64) *nameShard { return &t.shards[hash>>(64-6)] }

// likely returns the number of the first name with these hash bits, -1 if there is none.
func (s *nameShard) likely(hash uint64) int32 {
	if len(s.slots) == 0 {
		return -1
	}
	mask := uint32(len(s.slots) - 1)
	for at := uint32(hash) & mask; ; at = (at + 1) & mask {
		if slot := s.slots[at]; slot.number == 0 || slot.hash == uint32(hash) {
			return slot.number - 1
		}
	}
}

// find returns the number of a name, -1 if it has none.
func (t *NameTable) find(name []byte, hash uint64) int32 {
	s := t.shard(hash)
	if len(s.slots) == 0 {
		return -1
	}
	mask := uint32(len(s.slots) - 1)
	for at := uint32(hash) & mask; ; at = (at + 1) & mask {
		slot := s.slots[at]
		if slot.number == 0 || slot.hash == uint32(hash) && t.names[slot.number-1] == string(name) {
			return slot.number - 1
		}
	}
}

// add gives a new name the next number.
func (t *NameTable) add(name string) int32 {
	t.names = append(t.names, name)
	n := int32(len(t.names))
	hash := maphash.String(t.seed, name)
	s := t.shard(hash)
	if 3*s.used >= 2*len(s.slots) {
		s.grow()
	}
	s.used++
	s.put(nameSlot{uint32(hash), n})
	return n - 1
}

func (s *nameShard) grow() {
	old := s.slots
	s.slots = make([]nameSlot, max(2*len(old), leastSlots))
	for _, slot := range old {
		if slot.number > 0 {
			s.put(slot)
		}
	}
}

func (s *nameShard) put(slot nameSlot) {
	mask := uint32(len(s.slots) - 1)
	at := slot.hash & mask
	for s.slots[at].number > 0 {
		at = (at + 1) & mask
	}
	s.slots[at] = slot
}
