package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// runner is the part of a task that lives from the end of an acquire to the next restart.
type runner struct {
	cfg         *Config
	machine     *partition.Machine
	owner       ownership
	replay      replay
	queues      queues
	lookups     lookups
	lanes       outbox
	checkpoints checkpoints
	walk        expiryWalk
	commits     commits

	unranked     partition.Output // of steps that rank nothing; empty between them
	feedbackLast bool             // the last step was a selection's or a payoff's
	refencing    bool
	raising      bool      // the epoch of the next fence is asked for
	raised       *Producer // and known, nil: not yet
	checking     bool      // a check runs after a fetch error: no fetches
	unchecked    bool      // a fetch has failed since the check began
	tickedAt     time.Duration
	tallied      tallied
}

// newRunner starts from the loaded state.
func newRunner(cfg *Config, a *acquisition, m *partition.Machine, now time.Duration) (*runner, error) {
	meta := &a.meta
	r := &runner{
		cfg: cfg, machine: m, lookups: newLookups(), checkpoints: newCheckpoints(now), commits: newCommits(),
		owner:   ownership{fence: meta.Fence, probedAt: now},
		replay:  replay{on: true, cursor: newCursor(cfg, a, m.Orders())},
		tallied: tallied{account: m.Account(), learners: m.Accounts()},
	}
	for topic := range event.Topic(event.Inputs) {
		pos, log := meta.Inputs[topic], &a.facts.Topics[topic]
		r.queues[topic] = queue{topic: topic, pos: pos, next: pos.Offset, high: log.End, logStart: log.LogStart, disabled: !cfg.reads(topic)}
	}
	r.lanes.rankings.position, r.lanes.rankings.witness = meta.Rankings, meta.RankingsWitness
	var err error
	if r.replay.recorded, err = newRecordedSteps(m, cfg.OrderUnknown); err != nil {
		return nil, err
	}
	m.Saved(0, meta.Fence)
	m.Seen(partition.ObservationBegin{Writer: partition.WriterOf(meta.Fence.Token), Seq: meta.Fence.Seq, Inputs: r.queues.offsets()})
	if r.replay.recorded.orderUnknown {
		m.Begin(r.queues.offsets(), false)
	}
	return r, nil
}

// tallied are the counts that Observations already have.
type tallied struct {
	account  partition.Account
	learners []partition.LearnerAccount // by number
	foreign  int64
	gaps     int64
	misspelt [event.Inputs]event.Misspelling
}

// seal closes the open segment if that is due; in a hurry, at once.
func (r *runner) seal(now time.Duration, hurry bool) {
	_, open := r.machine.Dirty()
	if !r.checkpoints.toSeal(open, r.cfg.SegmentBytes, hurry || r.checkpoints.due(now, r.cfg.CheckpointInterval)) {
		return
	}
	s := &segment{bytes: open, made: r.lanes.made(), position: r.lanes.rankings.position, witness: r.lanes.rankings.witness}
	s.number, _ = r.machine.Seal(&s.changes)
	for i := range r.queues {
		s.inputs = append(s.inputs, r.queues[i].position())
	}
	if r.replay.on { // nothing of ours has been produced yet
		s.position = r.replay.cursor.position()
	}
	r.checkpoints.seal(s, now)
}

func (r *runner) sealLarge(now time.Duration) {
	if _, open := r.machine.Dirty(); open >= r.cfg.SegmentBytes {
		r.seal(now, false)
	}
}

// recordOrder puts an order record into the open batch if steps or observations exceed their
// bound. Steps wait for it; see full. In a replay the log has the order already.
func (r *runner) recordOrder(now time.Duration) {
	o := &r.lanes.rankings
	if !r.owesOrder() || !o.room(r.cfg.BatchBytes) {
		return
	}
	r.machine.RecordOrder(o.open())
	o.note(0)
	r.checkpoints.changed(now)
}

func (r *runner) owesOrder() bool { return !r.replay.on && r.machine.OwesOrder() }

// saveable reports whether everything that the segment's steps emitted is in the log.
func (r *runner) saveable(s *segment) bool { return r.lanes.acked(s.made) }

// savedOffsets returns those of the last checkpoint; -1 for topics that are not read, and before the first one.
func (r *runner) savedOffsets() offsets {
	all := offsets{-1, -1, -1}
	for i, p := range r.checkpoints.saved {
		if !r.queues[i].disabled {
			all[i] = p.Offset
		}
	}
	return all
}

// cut returns our positions: offsets fetched, and the witnesses of the last records
// stepped and fetched. An unclean leader election may have replaced records of a queue.
func (r *runner) cut() cutPositions {
	o := &r.lanes.rankings
	cut := cutPositions{rankings: o.position, witnesses: []witness{{event.Rankings, o.witness}}}
	for i := range r.queues {
		q := &r.queues[i]
		cut.inputs = append(cut.inputs, q.next)
		cut.witnesses = append(cut.witnesses, witness{q.topic, q.position().Witness})
		if n := len(q.items); q.len() > 0 {
			last := &q.items[n-1].Record
			cut.witnesses = append(cut.witnesses, witness{q.topic, witnessOfRecord(last)})
		}
	}
	return cut
}

// known reports whether a record can be stepped without a look-up. A yes holds until the next Forget and is kept
// with the record, since each choice between queues asks. A no is not kept: a step of the same id may change it.
func (r *runner) known(it *queued) bool {
	if it.known != r.lookups.forgets && r.machine.Resolve(it.id) == partition.Known {
		it.known = r.lookups.forgets
	}
	return it.known == r.lookups.forgets
}

// lookedUp gives values to their records, which may have moved in their queues. A record stepped
// meanwhile was resolved from the overlay. Values that did not fit the reply are asked for again.
func (r *runner) lookedUp(number uint64, refs []lookupRef, asked *askedFor, values [][]byte, now time.Duration) {
	r.lookups.answered(number, values, now)
	for _, ref := range refs {
		q := &r.queues[ref.topic]
		k := q.find(ref.offset)
		found, answered := asked.found(ref.id, values)
		if k < 0 || !answered {
			r.stepped(number, 1)
			continue
		}
		q.items[k].batch, q.items[k].found = number, found
	}
}

// stepped notes that n records of a look-up are done, and forgets saved segments.
func (r *runner) stepped(number uint64, n int) {
	if r.lookups.stepped(number, n) {
		r.forgetSaved()
	}
}

// dropStale drops looked-up values of records that have waited long; they are looked up again. A payoff may wait as long
// as a backlog of impressions lasts, and the overlay, which could forget nothing meanwhile, would outgrow its bounds.
func (r *runner) dropStale(now time.Duration) {
	b := r.lookups.stale(now)
	if b == nil {
		return
	}
	for i := range r.queues {
		r.queues[i].dropFound(b.number)
	}
	r.stepped(b.number, b.left)
}

// forgetSaved lets the machine forget saved segments that no look-up needs.
func (r *runner) forgetSaved() {
	for {
		segment, ok := r.lookups.forgettable()
		if !ok {
			return
		}
		r.machine.Forget(segment)
	}
}
