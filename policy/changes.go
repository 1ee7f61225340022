package policy

import "iter"

// Changes notes which entries, numbered densely from 0, have changed since Clear, and how.
type Changes struct {
	numbers []int32      // in the order of their first change
	bits    Pages[uint8] // by number: bits
}

// Note adds bits, at least one of them set, to an entry's changes.
func (c *Changes) Note(n int32, bits uint8) {
	at := c.bits.At(n)
	if *at == 0 {
		c.numbers = append(c.numbers, n)
	}
	*at |= bits
}

// Has returns whether an entry has changed.
func (c *Changes) Has(n int32) bool { return c.bits.Get(n) != 0 }

// Len returns the number of changed entries.
func (c *Changes) Len() int { return len(c.numbers) }

// All iterates over changed entries and their bits, in the order of their first change.
func (c *Changes) All() iter.Seq2[int32, uint8] {
	return func(yield func(int32, uint8) bool) {
		for _, n := range c.numbers {
			if !yield(n, c.bits.Get(n)) {
				return
			}
		}
	}
}

// Clear forgets all changes.
func (c *Changes) Clear() {
	for _, n := range c.numbers {
		*c.bits.At(n) = 0
	}
	if c.numbers = c.numbers[:0]; cap(c.numbers) > mostNumbers {
		c.numbers = nil
	}
}

// mostNumbers bounds the memory that stays for the next changes: a loaded partition has all items in them once.
const mostNumbers = 4096

// Release frees the memory of an entry without changes.
func (c *Changes) Release(n int32) {
	if c.bits.Get(n) == 0 {
		c.bits.Remove(n)
	}
}
