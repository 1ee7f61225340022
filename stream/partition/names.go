package partition

import "hash/maphash"

// Names gives items' names numbers: dense, from 0, in the order in which they are first asked for. One Names may serve all machines
// of a process, which then keep a name once and not each for itself; its numbers are the process's own and are not stored. A
// machine's numbers, which are, it translates (catalogue).
type Names interface {
	// Numbers appends the numbers of names to dst, new ones where they have none yet.
	Numbers(dst []int32, names [][]byte) []int32
	// Number is that of a name, if it has one.
	Number(name []byte) (n int32, known bool)
	// Name is the name with a number that Numbers gave.
	Name(n int32) string
}

// NameTable is a Names for one goroutine. An impression asks for many names at once, at random among perhaps millions: what that costs are
// cache misses. A place in the table is therefore found with one of them, and those of a list are waited for together and not one after the
// other, which the maps of the language cannot do (BenchmarkNameTable).
type NameTable struct {
	seed   maphash.Seed
	shards [nameShards]nameShard
	names  []string
}

// nameShard is an open hash table with linear probing. There are several, so that none takes long to grow.
type nameShard struct {
	slots []nameSlot // a power of two, or none
	used  int
}

// nameSlot is where a name with a hash stands.
type nameSlot struct {
	hash   uint32
	number int32 // and 1; 0: nothing stands here
}

const (
	nameShards = 64
	leastSlots = 16
	namesAhead = 32 // names that are waited for together
)

var _ Names = (*NameTable)(nil)

// NewNameTable makes one without names.
func NewNameTable() *NameTable { return &NameTable{seed: maphash.MakeSeed()} }

// Numbers implements Names.
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

// Known appends the numbers of names to dst as long as they have one, and so tells by its length which is the first that has none.
func (t *NameTable) Known(dst []int32, names [][]byte) []int32 {
	var hashes [namesAhead]uint64
	var likely [namesAhead]int32
	var texts [namesAhead]string
	var same [namesAhead]bool // as far as the first byte goes
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
			if n >= 0 && (!same[k] || texts[k] != string(name)) { // another of the same hash
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

// Number implements Names.
func (t *NameTable) Number(name []byte) (n int32, known bool) {
	n = t.find(name, maphash.Bytes(t.seed, name))
	return max(n, 0), n >= 0
}

// Name implements Names.
func (t *NameTable) Name(n int32) string { return t.names[n] }

// shard is where names of a hash stand: its highest bits say that, and the lowest where in it.
func (t *NameTable) shard(hash uint64) *nameShard { return &t.shards[hash>>(64-6)] }

// likely is the number of the first name that has so much of the hash; -1 where none has.
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

// find is the number of a name; -1 where it has none.
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

// add gives a name that has none the next number.
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
