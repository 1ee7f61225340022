package task

import (
	"slices"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// checkpoints are the changes on their way to the store: an open segment that steps add to, and sealed ones. One checkpoint is
// in flight at a time.
type checkpoints struct {
	segments []*segment    // sealed, oldest first; those of the checkpoint in flight are still among them
	inFlight int           // how many of them the checkpoint in flight covers
	at       time.Duration // when the last checkpoint was sent
	bytes    int64         // of segments
	// feedback are the bytes not yet checkpointed that are selections' and payoffs' doing.
	feedback struct{ open, sealed int64 }

	openSince time.Duration    // when the oldest change not yet sealed was made; -1: none
	moved     bool             // positions have moved since the last seal, though perhaps no state
	acked     uint64           // number of the last segment saved
	saved     []state.Position // of the last checkpoint acked
}

// segment is a run of steps with the cut at its end. It may be saved once the rankings and dead letters of its steps,
// and of all before, are acked.
type segment struct {
	number   uint64
	changes  state.Changes
	bytes    int64
	feedback int64         // of bytes, what selections and payoffs have changed
	since    time.Duration // when its first change was made
	inputs   []state.Position
	made     emitted
	position int64 // of the rankings, known once they are acked
	witness  state.Witness
}

// newCheckpoints begins with something to save, though it is not state: the producer's identity and, once a replay is through,
// the rankings position.
func newCheckpoints(now time.Duration) checkpoints {
	return checkpoints{at: now, openSince: -1, moved: true}
}

// changed notes that there is something to save.
func (c *checkpoints) changed(now time.Duration) {
	if c.openSince < 0 {
		c.openSince = now
	}
}

// due tells whether it is time for a checkpoint.
func (c *checkpoints) due(now, interval time.Duration) bool { return now-c.at >= interval }

// toSeal tells whether the open segment, of so many bytes, is to be closed: it has grown large, or a checkpoint could take it.
func (c *checkpoints) toSeal(open, large int64, due bool) bool {
	if c.openSince < 0 && !c.moved {
		return false
	}
	return open >= large || due && len(c.segments) == 0
}

// seal takes the segment that was just closed.
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

// maxCheckpointBytes bounds one checkpoint, so that no script keeps the store busy for long.
const maxCheckpointBytes = 8 << 20

// next are the oldest segments that may be saved, and are in flight from now on; none where others are.
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

// done ends the checkpoint in flight: it is saved, up to these positions.
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

// delivered moves the positions of segments whose last ranking is among those just acked, which end where the lane is now.
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

// since is when the oldest change not yet saved was made; -1: there is none.
func (c *checkpoints) since() time.Duration {
	if len(c.segments) > 0 {
		return c.segments[0].since
	}
	return c.openSince
}

// unsaved tells whether there are changes that no checkpoint has saved.
func (c *checkpoints) unsaved() bool { return c.since() >= 0 }

// wake is how soon the next checkpoint is due. What waits for a reply is woken by that.
func (c *checkpoints) wake(now, interval time.Duration, saveable func(*segment) bool) time.Duration {
	switch {
	case c.inFlight > 0, !c.unsaved() && !c.moved, len(c.segments) > 0 && !saveable(c.segments[0]):
		return idleWake
	}
	return max(c.at+interval-now, time.Millisecond)
}

// merge makes one checkpoint of segments: absolute values, so that a later one's win. Meta is what they have in common.
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

// checkpointID is that of the checkpoint which follows a state.
func checkpointID(f state.Fence) string { return f.Token + "-" + strconv.FormatInt(f.Seq+1, 10) }
