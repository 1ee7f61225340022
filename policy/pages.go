package policy

import "iter"

// Pages holds a value for each of some things numbered densely from 0. All are zero until they are set, and things of which none in
// a row has been set take next to no memory: of a large catalogue little is known of most items. The zero value holds nothing but
// zeros, for things of any number. Pages must not be copied once they are used, and are not safe for concurrent use.
type Pages[T any] struct {
	pages []*[pageSize]T // nil: all zero; those beyond, too
}

// pageSize is how many things share a page: few, so that one that is known does not bring memory for many that are not.
const (
	pageBits = 5
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// Get is the value of a thing, whose number is not negative.
func (p *Pages[T]) Get(n int32) (v T) {
	if at := int(n >> pageBits); at < len(p.pages) {
		if page := p.pages[at]; page != nil {
			return page[n&pageMask]
		}
	}
	return v
}

// At is where the value of a thing is kept, to be changed. It stays there.
func (p *Pages[T]) At(n int32) *T {
	at := int(n >> pageBits)
	if at >= len(p.pages) {
		p.pages = extend(p.pages, at+1-len(p.pages))
	}
	if p.pages[at] == nil {
		p.pages[at] = new([pageSize]T)
	}
	return &p.pages[at][n&pageMask]
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
