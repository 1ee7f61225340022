package policy

import (
	"iter"
	"slices"
)

// Pages is an array of values by number from 0, in pages. Values are zero until set, and pages of unset ones take next to no memory: most
// items of a large catalogue are unknown. The zero value is empty. Pages must not be copied after use, and are not safe for concurrent use.
type Pages[T any] struct {
	pages  []*[pageSize]T // nil: all zero; those beyond, too
	used   []uint32       // by page: bits of entries that At has returned, until Remove
	copies []bool         // by page: no snapshot has it; nil without snapshots
}

// pageSize is the number of entries in a page: few, since used numbers may lie far apart.
const (
	pageBits = 5
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// Get returns an entry's value; zero for a negative number.
func (p *Pages[T]) Get(n int32) (v T) {
	if at := int(uint32(n) >> pageBits); at < len(p.pages) {
		if page := p.pages[at]; page != nil {
			return page[n&pageMask]
		}
	}
	return v
}

// has returns whether At has returned the entry since its last Remove.
func (p *Pages[T]) has(n int32) bool {
	at := int(uint32(n) >> pageBits)
	return at < len(p.used) && p.used[at]>>(n&pageMask)&1 != 0
}

// At returns an entry's value to be changed, valid until Remove. The number must not be negative.
func (p *Pages[T]) At(n int32) *T {
	at := int(n >> pageBits)
	if at >= len(p.pages) {
		p.pages = Extend(p.pages, at+1-len(p.pages))
		p.used = Extend(p.used, len(p.pages)-len(p.used))
	}
	p.leaveSnapshot(at)
	if p.pages[at] == nil {
		p.pages[at] = new([pageSize]T)
	}
	p.used[at] |= 1 << (n & pageMask)
	return &p.pages[at][n&pageMask]
}

// Remove zeroes an entry's value, and frees its page if nothing is left in it.
func (p *Pages[T]) Remove(n int32) {
	at := int(uint32(n) >> pageBits)
	if at >= len(p.pages) || p.pages[at] == nil {
		return
	}
	p.leaveSnapshot(at)
	p.pages[at][n&pageMask] = *new(T)
	if p.used[at] &^= 1 << (n & pageMask); p.used[at] == 0 {
		p.pages[at] = nil
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
		if p.copies[at] = true; p.pages[at] != nil {
			page := *p.pages[at]
			p.pages[at] = &page
		}
	}
}

// All iterates, in order of numbers, over all entries in pages in use, some of them zero. Values may be changed meanwhile.
func (p *Pages[T]) All() iter.Seq2[int32, *T] {
	return func(yield func(int32, *T) bool) {
		for at, page := range p.pages {
			if page == nil {
				continue
			}
			for k := range page {
				if !yield(int32(at<<pageBits+k), &page[k]) {
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
