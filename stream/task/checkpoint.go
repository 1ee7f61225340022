package task

import (
	"slices"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// checkpoints holds the changes on their way to the store: an open segment, and sealed ones. One checkpoint is in flight at a time.
type checkpoints struct {
	segments []*segment    // sealed, oldest first, those in flight included
	inFlight int           // number of segments in the checkpoint in flight
	at       time.Duration // when the last checkpoint was sent
	bytes    int64         // of segments
	// feedback counts unsaved bytes of selections' and payoffs' changes.
	feedback struct{ open, sealed int64 }

	openSince time.Duration    // time of the oldest unsealed change; -1: none
	moved     bool             // positions have moved since the last seal, perhaps without state
	acked     uint64           // number of the last segment saved
	saved     []state.Position // of the last acked checkpoint
}

// segment is a run of steps with the cut at its end. It may be saved once
// all rankings and dead letters up to its end are acked (invariant 3).
type segment struct {
	number   uint64
	changes  state.Changes
	bytes    int64
	feedback int64         // of bytes, those of selections' and payoffs' changes
	since    time.Duration // time of its first change
	inputs   []state.Position
	made     emitted
	position int64 // of the rankings; set when they are acked
	witness  state.Witness
}

// newCheckpoints starts with unsaved positions: the producer's identity and, after a replay, the rankings position.
func newCheckpoints(now time.Duration) checkpoints {
	return checkpoints{at: now, openSince: -1, moved: true}
}

func (c *checkpoints) changed(now time.Duration) {
	if c.openSince < 0 {
		c.openSince = now
	}
}

func (c *checkpoints) due(now, interval time.Duration) bool { return now-c.at >= interval }

// toSeal reports whether the open segment, of this many bytes, must be sealed: it is large, or a checkpoint could take it.
func (c *checkpoints) toSeal(open, large int64, due bool) bool {
	if c.openSince < 0 && !c.moved {
		return false
	}
	return open >= large || due && len(c.segments) == 0
}

// seal appends the segment that was just closed.
func (c *checkpoints) seal(s *segment, now time.Duration) {
	s.feedback, s.since = c.feedback.open, c.openSince
	if s.since < 0 {
		s.since = now
	}
	c.segments = append(c.segments, s)
	c.bytes += s.bytes
	c.feedback.sealed += s.feedback
	c.feedback.open = 0
	c.openSince, c.moved = -1, false
}

// maxCheckpointBytes bounds a checkpoint, and so the time that a script keeps the store busy.
const maxCheckpointBytes = 8 << 20

// next returns the oldest saveable segments, which are in flight from now on; none if a checkpoint is in flight.
func (c *checkpoints) next(now time.Duration, saveable func(*segment) bool) []*segment {
	if c.inFlight > 0 {
		return nil
	}
	var bytes int64
	n := 0
	for n < len(c.segments) && saveable(c.segments[n]) && (n == 0 || bytes+c.segments[n].bytes <= maxCheckpointBytes) {
		bytes += c.segments[n].bytes
		n++
	}
	if n > 0 {
		c.inFlight, c.at = n, now
	}
	return c.segments[:n]
}

// done ends the checkpoint in flight, saved up to these positions.
func (c *checkpoints) done(inputs []state.Position) {
	c.acked = c.segments[c.inFlight-1].number
	for _, s := range c.segments[:c.inFlight] {
		c.bytes -= s.bytes
		c.feedback.sealed -= s.feedback
	}
	c.segments = append(c.segments[:0], c.segments[c.inFlight:]...)
	c.inFlight = 0
	c.saved = inputs
}

// delivered sets the rankings position of segments whose last ranking is among those just acked.
func (c *checkpoints) delivered(o *rankingsOut, base int64, messages []OutMessage) {
	before := o.acked - int64(len(messages))
	for _, s := range c.segments {
		if s.made.rankings <= before || s.made.rankings > o.acked {
			continue
		}
		s.position, s.witness = o.position, o.witness
		if base >= 0 && s.made.rankings < o.acked {
			last := &messages[s.made.rankings-before-1]
			s.position = base + s.made.rankings - before
			s.witness = witnessOf(s.position-1, 0, last.Key, last.Value)
		}
	}
}

// since returns the time of the oldest unsaved change; -1: none.
func (c *checkpoints) since() time.Duration {
	if len(c.segments) > 0 {
		return c.segments[0].since
	}
	return c.openSince
}

func (c *checkpoints) unsaved() bool { return c.since() >= 0 }

// wake returns the time until the next checkpoint is due. A reply wakes the task otherwise.
func (c *checkpoints) wake(now, interval time.Duration, saveable func(*segment) bool) time.Duration {
	switch {
	case c.inFlight > 0, !c.unsaved() && !c.moved, len(c.segments) > 0 && !saveable(c.segments[0]):
		return idleWake
	}
	return max(c.at+interval-now, time.Millisecond)
}

// merge joins segments into one checkpoint with the common meta. Values are absolute: later ones win.
func merge(segments []*segment, fence state.Fence, meta state.Meta) *state.Checkpoint {
	last := segments[len(segments)-1]
	c := &state.Checkpoint{Fence: fence, ID: checkpointID(fence), Meta: meta}
	c.Meta.Layout = StateLayout
	c.Meta.Inputs, c.Meta.Rankings, c.Meta.RankingsWitness = last.inputs, last.position, last.witness
	if len(segments) == 1 {
		c.Changes = last.changes
		return c
	}
	var writes, entries, pages int
	for _, s := range segments {
		writes, entries, pages = writes+len(s.changes.Writes), entries+len(s.changes.Entries), pages+len(s.changes.Pages)
	}
	c.Changes.Writes = slices.Grow(c.Changes.Writes, writes)
	c.Changes.Entries = slices.Grow(c.Changes.Entries, entries)
	c.Changes.Pages = slices.Grow(c.Changes.Pages, pages)
	for _, s := range segments {
		c.Changes.Writes = append(c.Changes.Writes, s.changes.Writes...)
		c.Changes.Entries = append(c.Changes.Entries, s.changes.Entries...)
		c.Changes.Pages = append(c.Changes.Pages, s.changes.Pages...)
	}
	return c
}

// checkpointID returns the id of the checkpoint that follows a state.
func checkpointID(f state.Fence) string { return f.Token + "-" + strconv.FormatInt(f.Seq+1, 10) }
