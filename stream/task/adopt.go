package task

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// tryEndReplay ends the replay if no decision is left to adopt. It returns false if that stops the task.
func (t *Task) tryEndReplay() bool {
	r := t.run
	exhausted, err := r.replay.cursor.exhausted()
	if err != nil {
		t.stop(StopState, err)
		return false
	}
	if exhausted && t.earlierVerified() {
		t.endReplay()
	}
	return true
}

// earlierVerified reports whether the state is known to hold the logged decisions that its checkpoint covers. A state
// that lacks one was saved by a worker that had lost the partition, before the store had the new owner's token.
func (t *Task) earlierVerified() bool {
	r := t.run
	if len(r.replay.cursor.earlier) == 0 {
		return true
	}
	if !r.replay.verifyingEarlier && r.machine.IsKnownComplete() {
		r.replay.verifyingEarlier = true
		t.verifyEarlier()
	}
	return false
}

// verifyEarlier looks up the earlier decisions, as many at a time as a reply holds.
func (t *Task) verifyEarlier() {
	r := t.run
	earlier := r.replay.cursor.earlier
	var asked askedFor
	ids := make([]state.ID, len(earlier))
	for i := range earlier {
		ids[i] = state.IDOf([]byte(earlier[i].id))
		asked.add(r.machine, ids[i])
	}
	low := r.owner.fence.Seq
	ask(t, "looking up decisions before the checkpoint", loadTimeout, LookUp{Places: asked.places, Room: maxLookUpBytes}, func(answer LookedUp) {
		if !t.verify(answer.Fence, low) {
			return
		}
		through := 0
		for ; through < len(earlier); through++ {
			found, answered := asked.found(int32(through), answer.Values)
			if !answered {
				break
			}
			e := &earlier[through]
			if !r.machine.Holds(ids[through], found, e.offset, e.began) {
				t.stop(StopState, fmt.Errorf("%w: %q was ranked for the impression at offset %d, which the state has read, and is not in it: "+
					"it was saved by a worker that no longer owned the partition: stop the workers and run `ranker-worker state "+
					"rebuild --replace`, or restore a backup", errContradiction, e.id, e.offset))
				return
			}
		}
		if r.replay.cursor.earlier = earlier[through:]; len(r.replay.cursor.earlier) > 0 {
			t.verifyEarlier()
			return
		}
		r.replay.verifyingEarlier = false
	})
}

// endReplay ends the replay: from here on impressions are decided, not adopted.
func (t *Task) endReplay() {
	r := t.run
	o := &r.lanes.rankings
	r.replay.on = false
	r.machine.Begin(r.queues.offsets(), !r.replay.recorded.orderUnknown)
	o.position = max(o.position, r.replay.cursor.position())
	r.checkpoints.moved = true
	if t.phase == Replaying {
		t.phase = Running
	}
}

var errUnretired = errors.New("an earlier owner had a producer id that is neither ours nor retired")

// unretired starts over if the log has a marker of a producer id that our marker did not fence and that was not retired. Then the
// coordinator has forgotten the id, or the state is older. Its owner may live, so the id is retired first.
func (t *Task) unretired() bool {
	n := len(t.logProducers)
	for _, p := range t.run.replay.cursor.unretired {
		if p.ID != t.acq.mark.ID && p.ID != t.acq.producer.ID && !t.retired[p.ID] {
			t.logProducers = append(t.logProducers, p)
		}
	}
	if len(t.logProducers) == n {
		return false
	}
	t.restart(fmt.Errorf("%w: %d", errUnretired, t.logProducers[n].ID))
	return true
}

func (t *Task) readCursor() {
	r := t.run
	c := &r.replay.cursor
	if !r.replay.on || c.ended || c.fetching || r.checking || len(c.records) > 0 {
		return
	}
	c.fetching = true
	doing := t.reading[event.Rankings]
	t.read(doing, callTimeout+t.cfg.FetchWait, t.fetchFrom(event.Rankings, c.next), func(f *Fetched, err error) {
		c.fetching = false
		if err != nil {
			t.readFailed(doing, &c.fetching, fmt.Errorf("decisions of earlier owners, from offset %d: %w", c.next, err))
			return
		}
		t.clock.learn(c.take(f, t.acq.mark), t.acq.fencedAt, t.now.Mono)
		if c.ended && t.unretired() {
			return
		}
		if !c.ended && f.Next >= f.High && t.now.Mono-t.acq.fencedAt > markerTimeout {
			// An unclean leader election lost it, and the fence with it.
			t.restart(errNoMarker)
		}
	})
}
