package policy

import (
	"iter"
	"math/bits"
	"slices"
	"unsafe"
)

// Pages maps numbers from 0 to values, in pages that hold only those in use. Most items of a large catalogue are unknown, and used numbers
// may lie far apart. Values are zero until set. The zero value is empty. Pages must not be copied after use, and are not safe for concurrent
// use.
type Pages[T any] struct {
	pages  []page[T]
	copies []bool // by page: no snapshot has it; nil without snapshots
}

// page holds the values of neighbouring numbers.
type page[T any] struct {
	used   uint64 // bits of the numbers that At has returned, until Remove
	values []T    // theirs, in order of numbers
}

// pageSize is the number of bits in a page.
const (
	pageBits = 6
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// bitOf returns the bit of a number in its page.
func bitOf(n int32) uint64 { return 1 << (uint32(n) & pageMask) }

// rank returns the place of a bit's value.
func (p *page[T]) rank(bit uint64) int { return bits.OnesCount64(p.used & (bit - 1)) }

// page returns a page to be read; an empty one beyond the last, or for a negative number.
func (p *Pages[T]) page(at int32) (of page[T]) {
	if uint(at) < uint(len(p.pages)) {
		of = p.pages[at]
	}
	return of
}

// Get returns an entry's value; zero for a negative number.
func (p *Pages[T]) Get(n int32) (v T) {
	if at := int(uint32(n) >> pageBits); at < len(p.pages) {
		page := &p.pages[at]
		if upTo := page.used << (^uint32(n) & pageMask); int64(upTo) < 0 { // the number's bit has become the sign
			v = page.values[bits.OnesCount64(upTo)-1]
		}
	}
	return v
}

// find returns an entry's value to be read, if At has returned it since its last Remove; else nil, as for a negative number.
func (p *Pages[T]) find(n int32) *T {
	if !p.has(n) {
		return nil
	}
	page := &p.pages[n>>pageBits]
	return &page.values[page.rank(bitOf(n))]
}

func (p *Pages[T]) has(n int32) bool {
	at := int(uint32(n) >> pageBits)
	return at < len(p.pages) && p.pages[at].used&bitOf(n) != 0
}

// At returns an entry's value to be changed, valid until the next At of another entry, or Remove. The number must not be negative.
func (p *Pages[T]) At(n int32) *T {
	at, bit := int(n>>pageBits), bitOf(n)
	if at >= len(p.pages) {
		p.pages = Extend(p.pages, at+1-len(p.pages))
	}
	p.leaveSnapshot(at)
	page := &p.pages[at]
	k := page.rank(bit)
	if page.used&bit == 0 {
		page.used |= bit
		page.insert(k)
	}
	return &page.values[k]
}

// insert makes room for a value. Small ones take a quarter of the room at once, which costs less time than growing from one.
func (p *page[T]) insert(k int) {
	if p.values == nil && unsafe.Sizeof(*new(T)) <= 8 {
		p.values = make([]T, 0, pageSize/4)
	}
	p.values = slices.Insert(p.values, k, *new(T))
}

// Remove zeroes an entry's value, and frees its page if nothing is left in it.
func (p *Pages[T]) Remove(n int32) {
	if !p.has(n) {
		return
	}
	at, bit := int(n>>pageBits), bitOf(n)
	p.leaveSnapshot(at)
	page := &p.pages[at]
	k := page.rank(bit)
	page.values = slices.Delete(page.values, k, k+1)
	if page.used &^= bit; page.used == 0 {
		page.values = nil
	}
}

// Snapshot returns the present values, which later changes of p leave alone: they copy a page before its first change. Values must be
// changed by At only, not by All.
func (p *Pages[T]) Snapshot() Pages[T] {
	all := p.pages
	p.pages, p.copies = slices.Clone(all), make([]bool, 0, len(all))
	return Pages[T]{pages: all}
}

// leaveSnapshot makes a page p's own, if it is in a snapshot.
func (p *Pages[T]) leaveSnapshot(at int) {
	if p.copies == nil {
		return
	}
	if more := at + 1 - len(p.copies); more > 0 {
		p.copies = Extend(p.copies, more)
	}
	if !p.copies[at] {
		p.copies[at] = true
		p.pages[at].values = slices.Clone(p.pages[at].values)
	}
}

// All iterates, in order of numbers, over all entries in use, some of them zero. Values may be changed meanwhile, and entries removed.
func (p *Pages[T]) All() iter.Seq2[int32, *T] {
	return func(yield func(int32, *T) bool) {
		for at := range p.pages {
			for left := p.pages[at].used; left != 0; left &= left - 1 {
				page, bit := &p.pages[at], left&-left
				if page.used&bit != 0 && !yield(int32(at<<pageBits+bits.TrailingZeros64(bit)), &page.values[page.rank(bit)]) {
					return
				}
			}
		}
	}
}

// Extend appends so many zeros.
func Extend[T any](s []T, more int) []T {
	n := len(s)
	s = slices.Grow(s, more)[:n+more]
	clear(s[n:])
	return s
}
