package task

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// stepsAtOnce bounds how many records are stepped before replies are listened to again.
const stepsAtOnce = 512

// step takes records from the queues, the oldest first as far as they are ready, and steps them. An impression is
// never kept waiting for a payoff's look-up: the topics only loosely keep step, so that a backlog of one is not
// read hours ahead of the others.
//
// Nor is one kept waiting by a storm of older payoffs: at the latest every other step is an impression's, as long as one
// is ready. To read impressions ahead of older payoffs is harmless: the watermark is the least over the topics, and
// deadlines are fixed at the decision. The other way round it is not: a payoff ahead of its impression is parked, and
// parking is bounded. So this share is the impressions' alone, and where they are the older ones order is by time.
func (t *Task) step() (busy bool) {
	r := t.run
	for range stepsAtOnce {
		q, again, err := t.choose()
		if err != nil {
			t.stop(stopFor(err), err)
			return false
		}
		if q == nil {
			return r.replaying && r.cursor.through && !r.cursor.decoded && !r.proving // all is adopted
		}
		if err := t.stepOne(q, again); err != nil {
			t.stop(StopState, err)
			return false
		}
		if t.run != r {
			return false
		}
		t.sealLarge()
	}
	return true
}

// sealLarge closes the open segment where it has grown large.
func (t *Task) sealLarge() {
	if _, open := t.run.machine.Dirty(); open >= t.cfg.SegmentBytes {
		t.seal()
	}
}

// stopFor is the reason for which a step that failed stops the partition.
func stopFor(err error) StopReason {
	if errors.Is(err, errLacks) {
		return StopTopic
	}
	return StopState
}

// choose is the queue whose record is to be stepped next, with the step that it had before, where one is known; nil where none
// is ready. In a replay the log says which it is, unless an owner of before there were steps has decided: then what comes
// before its decision is chosen freely.
func (t *Task) choose() (*queue, *partition.Step, error) {
	r := t.run
	if t.full() {
		return nil, nil, nil
	}
	if r.replaying {
		if err := r.cursor.settle(); err != nil {
			return nil, nil, err
		}
		if !r.cursor.decoded && !t.cfg.sabotage.noAdoption { // what comes next is not known yet
			return nil, nil, nil
		}
		if r.cursor.decoded && !r.leading {
			r.leading = true
			if err := r.follower.lead(r.cursor.steps(), r.offsets()); err != nil {
				return nil, nil, fmt.Errorf("the ranking at offset %d: %w", r.cursor.records[0].Offset, err)
			}
		}
		if r.follower.on && !t.cfg.sabotage.unordered {
			return t.follow()
		}
	}
	q, err := t.chooseFreely()
	return q, nil, err
}

// chooseFreely is the ready queue whose head has the smallest timestamp, or that of impressions when it is their turn; nil where
// none is ready.
func (t *Task) chooseFreely() (*queue, error) {
	r := t.run
	if q := &r.queues[event.Impressions]; r.answeredLast && q.len() > 0 {
		ready, err := t.ready(q, &q.items[q.head])
		if ready || err != nil {
			return q, err
		}
	}
	var best *queue
	var oldest event.Millis
	for i := range r.queues {
		q := &r.queues[i]
		if q.len() == 0 {
			continue
		}
		// A record dated 2099 has its turn like one of now.
		it := &q.items[q.head]
		at := min(it.Timestamp, t.now.Wall)
		if best != nil && at >= oldest {
			continue
		}
		ready, err := t.ready(q, it)
		if err != nil {
			return nil, err
		}
		if ready {
			best, oldest = q, at
		}
	}
	return best, nil
}

func (t *Task) ready(q *queue, it *queued) (bool, error) {
	r := t.run
	if !r.deadLetters[q.topic].room() || q.held {
		return false, nil
	}
	if q.topic == event.Impressions {
		if !r.rankings.room() {
			return false, nil
		}
		if r.replaying {
			v, _, err := r.cursor.verdict(it.Offset)
			if err != nil || v == undecided {
				return false, err
			}
		}
	} else if r.answers.open+r.answers.sealed >= t.answersRoom() {
		return false, nil
	}
	return it.batch != 0 || r.known(it), nil
}

// answersRoom is how many bytes of what selections and payoffs change may wait to be saved: half of all, the other half being
// for impressions. While the walk over deadlines is behind it is far less. The walk takes one step for each checkpoint; were
// checkpoints as large as can be, a store that is always busy would be given more than the walk takes out, and would fill.
// To hold answers back also holds the watermark back, and with it the deadlines that pass.
func (t *Task) answersRoom() int64 {
	if t.run.behind {
		return t.cfg.MaxUnsavedBytes / 16
	}
	return t.cfg.MaxUnsavedBytes / 2
}

func (t *Task) stepOne(q *queue, again *partition.Step) error {
	r := t.run
	it := &q.items[q.head]
	in := partition.Input{Record: &it.Record, Found: it.found, Again: again, Read: r.readFor(it.came)}
	in.Now, in.Latest, _ = t.times()
	t.sabotageInput(&in)
	adopted := false
	if q.topic == event.Impressions && r.replaying {
		v, d, err := r.cursor.verdict(it.Offset)
		if err != nil {
			return err
		}
		switch v {
		case decided:
			in.Decided, adopted = d, true
			if f := t.cfg.sabotage.rulesFirst; f != nil && f(&it.Record) {
				in.Decided = nil
			}
		case refused:
			in.RefusedEarlier = true
		case anew:
			t.replayed()
		}
	}
	out := &r.letters
	if q.topic == event.Impressions {
		out = r.rankings.open()
	}
	rankings, letters := len(out.Rankings), len(out.DeadLetters)
	_, before := r.machine.Dirty()
	err := r.machine.Step(&in, out)
	var wait *partition.Wait
	if errors.As(err, &wait) {
		t.waitWith(q, wait)
		return nil
	}
	if err != nil {
		return fmt.Errorf("stepping %s[%d] at offset %d: %w", t.cfg.TopicNames[q.topic], t.cfg.Partition, it.Offset, err)
	}
	switch {
	case adopted:
		r.cursor.pop()
		r.follower.arrived()
		r.leading = false
		t.obs.Adopted++
	case again != nil:
		r.follower.take()
	}
	t.changed()
	if r.answeredLast = q.topic != event.Impressions; r.answeredLast {
		_, after := r.machine.Dirty()
		r.answers.open += after - before
	}
	for range out.Rankings[rankings:] {
		r.rankings.note(it.Timestamp)
	}
	if len(out.DeadLetters) > letters {
		r.rankings.weigh(out, letters)
		t.bury(out, letters)
	}
	r.letters.Reset()
	if it.batch != 0 {
		number := it.batch
		q.pop()
		t.stepped(number, 1)
	} else {
		q.pop()
	}
	if adopted && r.follower.adrift {
		r.machine.Begin(r.offsets())
	}
	t.obs.Stepped[q.topic]++
	return nil
}

// waitWith keeps a queue where it is for a while: its first record cannot be stepped yet.
func (t *Task) waitWith(q *queue, w *partition.Wait) {
	if q.waits, q.held = w, true; q.waitsSince == 0 {
		q.waitsSince = t.now.Mono
	}
	t.changed() // what was due for the record's id is done
}

// sabotageInput takes rules out of a step.
func (t *Task) sabotageInput(in *partition.Input) {
	s := &t.cfg.sabotage
	if s.ownClock {
		in.Now, in.Latest = t.now.Wall, t.now.Wall
	}
	if s.crowdsOut {
		in.Read = [event.Inputs]bool{true, true, true}
	}
}

// changed notes that there is something to save.
func (t *Task) changed() {
	if t.run.openSince < 0 {
		t.run.openSince = t.now.Mono
	}
}

// A step of the expiry walk takes walkAtLeast ids. There is one step per checkpoint, however long that takes, and an
// impression is walked over up to three times; so a step that has not come to the end is followed by one of twice its size, up to
// walkAtMost, which bounds what one reply holds. Else a busy store would be left with more and more ids whose time has come.
const (
	walkAtLeast = 4000
	walkAtMost  = 32_000
	walkTimeout = 2 * callTimeout // of a step, which is several calls

	maxWalkBytes = 16 << 20 // of a step's ids and records
)

// walkDue walks over ids whose bucket has come. Each step waits until the one before is saved, so that the store
// shows what is left; the buckets are closed when it shows nothing and nothing unsaved can add to them.
func (t *Task) walkDue() {
	r := t.run
	if r.walking || t.full() {
		return
	}
	bucket, ok := r.machine.DueUpTo()
	if !ok || r.machine.DueSegment() > r.ackedSegment {
		return
	}
	r.walking = true
	l := &r.lookups
	l.last++
	number, low := l.last, r.fence.Seq
	l.batches = append(l.batches, lookupBatch{number: number, left: 1})
	limit := max(r.walkLimit, walkAtLeast)
	send(t, walkTimeout, Due{UpTo: bucket, Limit: limit, Room: maxWalkBytes}, func(due DueIDs, err error) {
		if err != nil {
			r.walkLimit = walkAtLeast // so many may have been too many for the time there is
			t.stepped(number, 1)
			t.failed(walking, err, func() { r.walking = false })
			return
		}
		t.fine(walking)
		r.walking = false
		if !t.verify(due.Fence, low) {
			return
		}
		r.walkLimit = walkAtLeast
		if r.behind = due.More; r.behind {
			r.walkLimit = min(2*limit, walkAtMost)
		}
		t.expire(bucket, due)
		if t.run == r {
			t.stepped(number, 1)
		}
	})
}

const walking = "walking the expiry index"

func (t *Task) expire(bucket int64, due DueIDs) {
	r := t.run
	if t.phase == Draining {
		return
	}
	if len(due.Entries) == 0 {
		t.changed()
		r.machine.Walked(bucket)
		return
	}
	for i := range due.Entries {
		if err := r.machine.Expire(due.Entries[i], t.now.Wall, &r.letters); err != nil {
			t.stop(StopState, fmt.Errorf("expiring %q: %w", due.Entries[i].ID, err))
			return
		}
		t.changed()
		t.bury(&r.letters, 0)
		r.letters.Reset()
		t.sealLarge()
	}
	t.obs.Walked += int64(len(due.Entries))
}
