package partition

import "github.com/ranker-worker/ranker-worker/state"

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
	itemWeight  = 96
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
	weight := slotWeight + 2*int64(len(s.id)) + int64(len(s.value))
	g.entries += weight - s.weight
	s.weight = weight
}

// begin begins to seal: from now on keep has memory for all that the open segment holds.
func (g *segments) begin() {
	g.arena = make([]byte, 0, g.weight()-slotWeight*int64(len(g.over.dirty))+1024)
}

// keep copies bytes into the segment's memory. When that is full more is begun: what is in the old one stays.
func (g *segments) keep(b []byte) []byte {
	if len(g.arena)+len(b) > cap(g.arena) {
		g.arena = make([]byte, 0, max(64<<10, len(b)))
	}
	start := len(g.arena)
	g.arena = append(g.arena, b...)
	return g.arena[start:len(g.arena):len(g.arena)]
}

// end appends the changed entries, and begins the next segment.
func (g *segments) end(dst *state.Changes) (sealed uint64) {
	for _, s := range g.over.seal(g.open) {
		g.seal(s, dst)
	}
	g.arena = nil
	g.entries, g.loose = 0, 0
	sealed = g.open
	g.open++
	return sealed
}

func (g *segments) seal(s *slot, dst *state.Changes) {
	id := g.keep(s.id)
	switch {
	case !s.deleted:
		dst.Entries = append(dst.Entries, state.Entry{ID: id, Value: g.keep(s.value)})
	case s.stored:
		dst.Entries = append(dst.Entries, state.Entry{ID: id})
	}
	s.stored = !s.deleted
	if s.bucket != s.storedBucket {
		if s.storedBucket != noBucket {
			dst.Due = append(dst.Due, state.Due{Bucket: s.storedBucket, ID: id, Remove: true})
		}
		if s.bucket != noBucket {
			dst.Due = append(dst.Due, state.Due{Bucket: s.bucket, ID: id})
		}
		s.storedBucket = s.bucket
	}
	s.weight = 0
}
