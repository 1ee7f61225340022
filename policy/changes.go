package policy

import "iter"

// Changes remembers which things, numbered densely from 0, have changed since that was last told, and what of each.
type Changes struct {
	numbers []int32      // in the order in which they first did
	what    Pages[uint8] // by number: bits
}

// Note notes that something has changed, and what: bits, at least one of them set.
func (c *Changes) Note(n int32, what uint8) {
	at := c.what.At(n)
	if *at == 0 {
		c.numbers = append(c.numbers, n)
	}
	*at |= what
}

// What is what is noted of a thing; 0 where nothing is.
func (c *Changes) What(n int32) uint8 { return c.what.Get(n) }

// Len is how many have changed.
func (c *Changes) Len() int { return len(c.numbers) }

// All gives what has changed, in the order in which it first did.
func (c *Changes) All() iter.Seq2[int32, uint8] {
	return func(yield func(int32, uint8) bool) {
		for _, n := range c.numbers {
			if !yield(n, c.what.Get(n)) {
				return
			}
		}
	}
}

// Clear says that all has been told.
func (c *Changes) Clear() {
	for _, n := range c.numbers {
		*c.what.At(n) = 0
	}
	c.numbers = c.numbers[:0]
}

// Release gives back the memory of a thing of which nothing is noted.
func (c *Changes) Release(n int32) {
	if c.what.Get(n) == 0 {
		c.what.Remove(n)
	}
}
