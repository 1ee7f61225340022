package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
)

// segments are the machine's changes: those of the open segment, and of sealed ones, as far as a look-up may not see them yet.
type segments struct {
	over    overlay
	open    uint64 // number of the open segment
	entries int64  // what its changed entries weigh
	loose   int64  // and its other changes
	arena   []byte // memory of the segment that is being sealed
}

func newSegments() segments { return segments{over: newOverlay(), open: 1} }

// What changes weigh besides their own bytes, about: what the request that stores them takes, and their part in the
// overlay.
const (
	slotWeight  = 160
	itemWeight  = 96 // an item's row
	nameWeight  = 24 // its name in a page
	eventWeight = 64 // what one payoff or selection changes in its learner's own fields
)

// weight is about how many bytes storing the open segment takes.
func (g *segments) weight() int64 { return g.entries + g.loose }

// change makes the slot, whose id has been placed, one of the open segment; value is what is stored there now, nil for nothing.
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

// arenaBytes is how much memory a segment takes at a time. What a segment weighs is more than its bytes, by much where there are new
// items.
const arenaBytes = 64 << 10

// begin begins to seal: from now on keep has memory.
func (g *segments) begin() {
	g.arena = make([]byte, 0, min(g.weight()-slotWeight*int64(len(g.over.dirty))+1024, arenaBytes))
}

// keep copies bytes into the segment's memory.
func (g *segments) keep(b []byte) []byte {
	kept := g.room(len(b))
	copy(kept, b)
	return kept
}

// keepText copies a text into the segment's memory.
func (g *segments) keepText(s string) []byte {
	kept := g.room(len(s))
	copy(kept, s)
	return kept
}

// room is so much of the segment's memory that is in no use. When it is full more is begun: what is in the old one stays.
func (g *segments) room(n int) []byte {
	if len(g.arena)+n > cap(g.arena) {
		g.arena = make([]byte, 0, max(arenaBytes, n))
	}
	start := len(g.arena)
	g.arena = g.arena[:start+n]
	return g.arena[start : start+n : start+n]
}

// end appends the changed entries, and begins the next segment.
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
