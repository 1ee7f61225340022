package policy

import (
	"iter"
	"math/bits"
)

// Set holds numbers from 0, in a bit for each up to the largest. The zero value is empty. It is not safe for concurrent use.
type Set struct{ words []uint64 }

// Has returns whether a number is in the set; false for a negative one.
func (s *Set) Has(n int32) bool {
	at := int(uint32(n) / 64)
	return at < len(s.words) && s.words[at]>>(n&63)&1 != 0
}

// Add adds a number, which must not be negative.
func (s *Set) Add(n int32) {
	at := int(n / 64)
	if at >= len(s.words) {
		s.words = Extend(s.words, at+1-len(s.words))
	}
	s.words[at] |= 1 << (n & 63)
}

// Remove removes a number that may be in the set.
func (s *Set) Remove(n int32) {
	if s.Has(n) {
		s.words[n/64] &^= 1 << (n & 63)
	}
}

// All iterates over the numbers in ascending order. The current one may be removed meanwhile.
func (s *Set) All() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for at, word := range s.words {
			for ; word != 0; word &= word - 1 {
				if !yield(int32(at*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
