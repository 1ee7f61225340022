package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
)

// segments are the changes of the open segment, and of sealed ones that a look-up may not see yet.
type segments struct {
	over    overlay
	open    uint64 // number of the open segment
	entries int64  // weight of its changed entries
	loose   int64  // weight of its other changes
	arena   []byte // memory of the segment being sealed
}

func newSegments() segments { return segments{over: newOverlay(), open: 1} }

// Approximate weights of changes besides their own bytes: their part of a request, and their memory in the overlay.
const (
	slotWeight  = 160
	itemWeight  = 96 // an item's row
	nameWeight  = 24 // its name in a page
	eventWeight = 64 // changes of a learner's own fields by one payoff or selection
)

// weight returns the approximate bytes that storing the open segment takes.
func (g *segments) weight() int64 { return g.entries + g.loose }

// change adds a slot to the open segment; value is its stored form, nil for nothing.
func (g *segments) change(s *slot, value []byte) {
	if s.segment != g.open {
		s.segment = g.open
		s.weight = 0
		g.over.dirty = append(g.over.dirty, s)
	}
	s.deleted = value == nil
	s.value = append(s.value[:0], value...)
	weight := slotWeight + int64(len(s.id)) + int64(len(s.value))
	g.entries += weight - s.weight
	s.weight = weight
}

// arenaBytes is the size of a segment's memory blocks. A segment's weight exceeds its bytes, by much with new items.
const arenaBytes = 64 << 10

func (g *segments) begin() {
	g.arena = make([]byte, 0, min(g.weight()-slotWeight*int64(len(g.over.dirty))+1024, arenaBytes))
}

func (g *segments) keep(b []byte) []byte {
	kept := g.room(len(b))
	copy(kept, b)
	return kept
}

func (g *segments) keepText(s string) []byte {
	kept := g.room(len(s))
	copy(kept, s)
	return kept
}

func (g *segments) room(n int) []byte {
	if len(g.arena)+n > cap(g.arena) {
		g.arena = make([]byte, 0, max(arenaBytes, n))
	}
	start := len(g.arena)
	g.arena = g.arena[:start+n]
	return g.arena[start : start+n : start+n]
}

func (g *segments) end(dst *state.Changes) (sealed uint64) {
	changed := g.over.seal(g.open)
	dst.Entries = slices.Grow(dst.Entries, len(changed))
	for _, s := range changed {
		g.seal(s, dst)
	}
	g.arena = nil
	g.entries, g.loose = 0, 0
	sealed = g.open
	g.open++
	return sealed
}

func (g *segments) seal(s *slot, dst *state.Changes) {
	if s.storedPage != noPage && s.storedPage != s.page {
		dst.Entries = append(dst.Entries, state.Entry{Place: state.Place{Page: s.storedPage, ID: s.id}})
	}
	if s.page != noPage {
		dst.Entries = append(dst.Entries, state.Entry{Place: state.Place{Page: s.page, ID: s.id}, Value: g.keep(s.value)})
	}
	s.storedPage = s.page
	s.weight = 0
}
