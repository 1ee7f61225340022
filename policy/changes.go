package policy

import (
	"iter"
	"math/bits"
)

// Changes notes which entries, numbered densely from 0, have changed since Clear, and how.
type Changes struct {
	numbers []int32 // in the order of their first change
	of      []Set   // by bit: the entries that have it
}

// Note adds bits, at least one of them set, to an entry's changes.
func (c *Changes) Note(n int32, what uint8) {
	if !c.Has(n) {
		c.numbers = append(c.numbers, n)
	}
	if more := bits.Len8(what) - len(c.of); more > 0 {
		c.of = Extend(c.of, more)
	}
	for ; what != 0; what &= what - 1 {
		c.of[bits.TrailingZeros8(what)].Add(n)
	}
}

// Has returns whether an entry has changed.
func (c *Changes) Has(n int32) bool { return c.bits(n) != 0 }

func (c *Changes) bits(n int32) (what uint8) {
	for bit := range c.of {
		if c.of[bit].Has(n) {
			what |= 1 << bit
		}
	}
	return what
}

// Len returns the number of changed entries.
func (c *Changes) Len() int { return len(c.numbers) }

// All iterates over changed entries and their bits, in the order of their first change.
func (c *Changes) All() iter.Seq2[int32, uint8] {
	return func(yield func(int32, uint8) bool) {
		for _, n := range c.numbers {
			if !yield(n, c.bits(n)) {
				return
			}
		}
	}
}

// Clear forgets all changes.
func (c *Changes) Clear() {
	for _, n := range c.numbers {
		for bit := range c.of {
			c.of[bit].Remove(n)
		}
	}
	if c.numbers = c.numbers[:0]; cap(c.numbers) > mostNumbers {
		c.numbers = nil
	}
}

// mostNumbers bounds the memory that stays for the next changes: a loaded partition has all items in them once.
const mostNumbers = 4096
