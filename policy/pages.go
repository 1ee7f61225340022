package policy

import "iter"

// Pages holds a value for each of some things numbered densely from 0. All are zero until they are set, and things of which none in
// a row has been set take next to no memory: of a large catalogue little is known of most items. The zero value holds nothing but
// zeros, for things of any number. Pages must not be copied once they are used, and are not safe for concurrent use.
type Pages[T any] struct {
	pages []*[pageSize]T // nil: all zero; those beyond, too
	used  []uint32       // by page: which of its things At has been asked for, and not been removed since
}

// pageSize is how many things share a page: few, so that one that is known does not bring memory for many that are not.
const (
	pageBits = 5
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// Get is the value of a thing; zero where the number is negative.
func (p *Pages[T]) Get(n int32) (v T) {
	if at := int(uint32(n) >> pageBits); at < len(p.pages) {
		if page := p.pages[at]; page != nil {
			return page[n&pageMask]
		}
	}
	return v
}

// At is where the value of a thing is kept, to be changed, whose number is not negative. It stays there until Remove.
func (p *Pages[T]) At(n int32) *T {
	at := int(n >> pageBits)
	if at >= len(p.pages) {
		p.pages = extend(p.pages, at+1-len(p.pages))
		p.used = extend(p.used, len(p.pages)-len(p.used))
	}
	if p.pages[at] == nil {
		p.pages[at] = new([pageSize]T)
	}
	p.used[at] |= 1 << (n & pageMask)
	return &p.pages[at][n&pageMask]
}

// Remove makes the value of a thing zero, and gives the memory of its page back when nothing is kept there any more.
func (p *Pages[T]) Remove(n int32) {
	at := int(uint32(n) >> pageBits)
	if at >= len(p.pages) || p.pages[at] == nil {
		return
	}
	p.pages[at][n&pageMask] = *new(T)
	if p.used[at] &^= 1 << (n & pageMask); p.used[at] == 0 {
		p.pages[at] = nil
	}
}

// All gives, in the order of their numbers, the things of which something has been set, and some beside them that are zero. What they
// hold may be changed meanwhile.
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
