package policy

import (
	"iter"
	"math/bits"
)

// Sparse is an array of values by number from 0, most of them absent. Absent ones take next to no memory, and removal frees pages.
// The zero value is empty. Sparse must not be copied after use, and is not safe for concurrent use.
type Sparse[T any] struct {
	pages []*sparsePage[T] // nil: none
	n     int
}

type sparsePage[T any] struct {
	held uint32 // bits of present entries
	at   [pageSize]T
}

func (s *Sparse[T]) Len() int { return s.n }

// Get returns the value of an entry, whose number must not be negative, and whether it is present.
func (s *Sparse[T]) Get(n int32) (v T, held bool) {
	if at := int(n >> pageBits); at < len(s.pages) {
		if page := s.pages[at]; page != nil && page.held>>(n&pageMask)&1 != 0 {
			return page.at[n&pageMask], true
		}
	}
	return v, false
}

func (s *Sparse[T]) Set(n int32, v T) {
	at := int(n >> pageBits)
	if at >= len(s.pages) {
		s.pages = extend(s.pages, at+1-len(s.pages))
	}
	page := s.pages[at]
	if page == nil {
		page = new(sparsePage[T])
		s.pages[at] = page
	}
	if bit := uint32(1) << (n & pageMask); page.held&bit == 0 {
		page.held |= bit
		s.n++
	}
	page.at[n&pageMask] = v
}

func (s *Sparse[T]) Remove(n int32) {
	if _, held := s.Get(n); !held {
		return
	}
	at := n >> pageBits
	page := s.pages[at]
	page.held &^= 1 << (n & pageMask)
	page.at[n&pageMask] = *new(T)
	if s.n--; page.held == 0 {
		s.pages[at] = nil
	}
}

// All iterates over present entries in order of numbers. The current one may be set or removed meanwhile.
func (s *Sparse[T]) All() iter.Seq2[int32, T] {
	return func(yield func(int32, T) bool) {
		left := s.n
		for at := 0; at < len(s.pages) && left > 0; at++ {
			page := s.pages[at]
			if page == nil {
				continue
			}
			for held := page.held; held != 0; held &= held - 1 {
				k := bits.TrailingZeros32(held)
				left--
				if !yield(int32(at<<pageBits+k), page.at[k]) {
					return
				}
			}
		}
	}
}
