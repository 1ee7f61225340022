package partition

import (
	"hash/maphash"

	"github.com/ranker-worker/ranker-worker/policy"
)

// itemIndex finds the numbers of items by their names. It is open addressing over a hash whose seed is the process's own,
// so that nobody can send items that all collide; no answer depends on the seed.
//
// It stands in place of a map because the candidates of one impression are looked for together. A catalogue of thousands
// of items, times the partitions, is in no cache, and a map waits for memory several times for each item, one item after
// the other. Here the slots of all candidates are fetched at the same time, and then all their names.
type itemIndex struct {
	seed  maphash.Seed
	slots []itemSlot // the length is a power of two; at most three quarters are in use
	sums  []uint64   // scratch: hashes of what is looked for
}

// itemSlot is one item; the zero value is free.
type itemSlot struct {
	tag    uint32 // the half of the hash that does not say where the slot is
	number uint32 // plus 1
}

// leastItemSlots is how many slots an index begins with.
const leastItemSlots = 64

// unknownItem stands for the number of an item that has none.
const unknownItem policy.Item = -1

func newItemIndex() itemIndex {
	return itemIndex{seed: maphash.MakeSeed(), slots: make([]itemSlot, leastItemSlots)}
}

// findAll appends the numbers of the wanted items, unknownItem for those that have none. names holds all items' names.
func (x *itemIndex) findAll(numbers []policy.Item, wanted [][]byte, names []string) []policy.Item {
	x.sums = x.sums[:0]
	for _, name := range wanted {
		x.sums = append(x.sums, maphash.Bytes(x.seed, name))
	}
	return x.searchAll(numbers, wanted, x.sums, names)
}

// searchAll is findAll for names with these hashes.
func (x *itemIndex) searchAll(numbers []policy.Item, wanted [][]byte, sums []uint64, names []string) []policy.Item {
	from := len(numbers)
	for _, sum := range sums { // no round needs what another has fetched
		s, _ := x.next(sum, sum)
		numbers = append(numbers, policy.Item(s.number)-1)
	}
	for k, i := range numbers[from:] {
		if i != unknownItem && names[i] != string(wanted[k]) { // another item of the same tag
			numbers[from+k] = x.search(wanted[k], sums[k], names)
		}
	}
	return numbers
}

// find is the number of one item, unknownItem where it has none.
func (x *itemIndex) find(name []byte, names []string) policy.Item {
	return x.search(name, maphash.Bytes(x.seed, name), names)
}

func (x *itemIndex) search(name []byte, sum uint64, names []string) policy.Item {
	for at := sum; ; at++ {
		var s itemSlot
		if s, at = x.next(sum, at); s.number == 0 || names[s.number-1] == string(name) {
			return policy.Item(s.number) - 1
		}
	}
}

// next is the first slot from at on that has the hash's tag, or else is free, and where it is.
func (x *itemIndex) next(sum, at uint64) (itemSlot, uint64) {
	tag, mask := uint32(sum>>32), uint64(len(x.slots)-1)
	for ; ; at++ {
		if s := x.slots[at&mask]; s.tag == tag || s.number == 0 {
			return s, at
		}
	}
}

// add puts in the last of names, which must be new.
func (x *itemIndex) add(names []string) {
	from := len(names) - 1
	if len(names) > len(x.slots)*3/4 {
		x.slots, from = make([]itemSlot, 2*len(x.slots)), 0
	}
	for i := from; i < len(names); i++ {
		x.put(maphash.String(x.seed, names[i]), policy.Item(i))
	}
}

// put takes a free slot for an item whose name has this hash.
func (x *itemIndex) put(sum uint64, i policy.Item) {
	mask := uint64(len(x.slots) - 1)
	at := sum & mask
	for x.slots[at].number != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = itemSlot{tag: uint32(sum >> 32), number: uint32(i) + 1}
}
