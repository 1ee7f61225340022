package policy

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// Packing is a short form of values in memory. Most values of sources say little, and a process has one for each partition and item.
type Packing[S any] struct {
	Append func(dst []byte, s S) []byte // at most 255 bytes
	Read   func(packed []byte) S

	scratch []byte
}

// others are all other sources' values of one entry.
type others[S any] struct {
	sum    S
	from   []part[S] // ascending by source; empty with a Packing
	packed []byte    // likewise: of each the source as a varint, the size of the packed value in a byte, and that value
}

// part is one source's value of one entry.
type part[S any] struct {
	source int32
	sum    S
}

func (o *others[S]) none() bool { return len(o.from)+len(o.packed) == 0 }

// each iterates over sources and their values in ascending order. They must not change meanwhile.
func (o *others[S]) each(p *Packing[S]) iter.Seq2[int32, S] {
	return func(yield func(int32, S) bool) {
		for k := range o.from {
			if !yield(o.from[k].source, o.from[k].sum) {
				return
			}
		}
		for at := 0; at < len(o.packed); {
			source, from, to := partAt(o.packed, at)
			if !yield(source, p.Read(o.packed[from:to])) {
				return
			}
			at = to
		}
	}
}

// partAt returns the source that is at a place in a packed list, and where its value begins and ends.
func partAt(packed []byte, at int) (source int32, from, to int) {
	if of := packed[at]; of < 1<<7 { // most are in one byte
		source, at = int32(of>>1)^-int32(of&1), at+1
	} else {
		of, n := binary.Varint(packed[at:])
		source, at = int32(of), at+n
	}
	return source, at + 1, at + 1 + int(packed[at])
}

// find returns the place of a source's value, and its size if there is one; else the place to insert it.
func (o *others[S]) find(p *Packing[S], source int32) (at, size int, s S, found bool) {
	if p == nil {
		at, found = slices.BinarySearchFunc(o.from, source, func(p part[S], source int32) int { return cmp.Compare(p.source, source) })
		if found {
			s, size = o.from[at].sum, 1
		}
		return at, size, s, found
	}
	for at < len(o.packed) {
		of, from, to := partAt(o.packed, at)
		if of == source {
			return at, to - at, p.Read(o.packed[from:to]), true
		}
		if of > source {
			break
		}
		at = to
	}
	return at, 0, s, false
}

// set sets a source's value, and returns the one before; zero if there was none.
func (o *others[S]) set(p *Packing[S], source int32, s S) (old S) {
	at, size, old, _ := o.find(p, source)
	if p == nil {
		o.from = replaced(o.from, at, size, part[S]{source, s})
		return old
	}
	p.scratch = append(binary.AppendVarint(p.scratch[:0], int64(source)), 0)
	from := len(p.scratch)
	p.scratch = p.Append(p.scratch, s)
	p.scratch[from-1] = byte(len(p.scratch) - from)
	o.packed = replaced(o.packed, at, size, p.scratch...)
	return old
}

func (o *others[S]) remove(p *Packing[S], source int32) (found bool) {
	at, size, _, found := o.find(p, source)
	switch {
	case !found:
	case p == nil:
		o.from = slices.Delete(o.from, at, at+size)
	default:
		o.packed = slices.Delete(o.packed, at, at+size)
	}
	return found
}

// replaced replaces list[at:at+size]. A list that grows fills its memory block and no more: a process has one for each item.
func replaced[T any](list []T, at, size int, by ...T) []T {
	if n := len(list) + len(by) - size; n > cap(list) {
		list = append(slices.Grow([]T(nil), n), list...)
	}
	return slices.Replace(list, at, at+size, by...)
}
