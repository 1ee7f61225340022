package event

import "hash/maphash"

// distinct finds a repeated item in time linear in the number of items. Its hash has a random seed, so that nobody can choose items that
// collide. The answer does not depend on the seed.
type distinct struct {
	seed  maphash.Seed
	slots []slot // open addressing; the length is a power of two
	round uint32 // slots of other rounds count as empty, so that the table is not cleared for each record
}

type slot struct {
	round uint32
	index int32
}

func newDistinct() distinct { return distinct{seed: maphash.MakeSeed()} }

// start empties the set and makes room for n items.
func (d *distinct) start(n int) {
	size := max(len(d.slots), 32)
	for size < 2*n {
		size *= 2
	}
	d.round++
	if size > len(d.slots) || d.round == 0 {
		d.slots = make([]slot, size)
		d.round = 1
	}
}

// repeated returns the index of the first of n items that occurred before, or -1.
func (d *distinct) repeated(n int, item func(int) []byte) int {
	d.start(n)
	mask := len(d.slots) - 1
	for i := range n {
		b := item(i)
		for at := int(maphash.Bytes(d.seed, b)) & mask; ; at = (at + 1) & mask {
			s := &d.slots[at]
			if s.round != d.round {
				*s = slot{round: d.round, index: int32(i)}
				break
			}
			if string(item(int(s.index))) == string(b) {
				return i
			}
		}
	}
	return -1
}
