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
			return r.replay.ending()
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
	if r.replay.on {
		if err := r.replay.cursor.settle(); err != nil {
			return nil, nil, err
		}
		if !r.replay.cursor.decoded && !t.cfg.sabotage.noAdoption { // what comes next is not known yet
			return nil, nil, nil
		}
		if err := r.replay.lead(r.queues.offsets()); err != nil {
			return nil, nil, err
		}
		if r.replay.follower.on && !t.cfg.sabotage.unordered {
			return t.follow()
		}
	}
	q, err := t.chooseFreely()
	return q, nil, err
}

// chooseFreely is the oldest ready queue, or that of impressions when it is their turn; nil where none is ready.
func (t *Task) chooseFreely() (*queue, error) {
	r := t.run
	if q := &r.queues[event.Impressions]; r.answeredLast && q.len() > 0 {
		ready, err := t.ready(q)
		if ready || err != nil {
			return q, err
		}
	}
	return r.queues.oldest(t.now.Wall, t.ready)
}

// ready tells whether the first record of a queue can be stepped now.
func (t *Task) ready(q *queue) (bool, error) {
	r := t.run
	it := q.first()
	if !r.lanes.letters[q.topic].room() || q.held {
		return false, nil
	}
	if q.topic == event.Impressions {
		if !r.lanes.rankings.room() {
			return false, nil
		}
		if r.replay.on {
			v, _, err := r.replay.cursor.verdict(it.Offset)
			if err != nil || v == undecided {
				return false, err
			}
		}
	} else if a := &r.checkpoints.answers; a.open+a.sealed >= t.answersRoom() {
		return false, nil
	}
	return it.batch != 0 || r.known(it), nil
}

// answersRoom is how many bytes of what selections and payoffs change may wait to be saved: half of all, the other half being
// for impressions. While the walk over deadlines is behind it is far less. The walk takes one step for each checkpoint; were
// checkpoints as large as can be, a store that is always busy would be given more than the walk takes out, and would fill.
// To hold answers back also holds the watermark back, and with it the deadlines that pass.
func (t *Task) answersRoom() int64 {
	if t.run.walk.behind {
		return t.cfg.MaxUnsavedBytes / 16
	}
	return t.cfg.MaxUnsavedBytes / 2
}

func (t *Task) stepOne(q *queue, again *partition.Step) error {
	r := t.run
	it := q.first()
	in := partition.Input{Record: &it.Record, Found: it.found, Again: again, Read: r.queues.readFor(it.came)}
	in.Now, in.Latest, _ = t.times()
	t.sabotageInput(&in)
	adopted := false
	if q.topic == event.Impressions && r.replay.on {
		v, d, err := r.replay.cursor.verdict(it.Offset)
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
	out := &r.unranked
	if q.topic == event.Impressions {
		out = r.lanes.rankings.open()
	}
	rankings, letters := len(out.Rankings), len(out.DeadLetters)
	_, before := r.machine.Dirty()
	err := r.machine.Step(&in, out)
	var wait *partition.Wait
	if errors.As(err, &wait) {
		q.hold(wait, t.now.Mono)
		r.checkpoints.changed(t.now.Mono) // what was due for the record's id is done
		return nil
	}
	if err != nil {
		return fmt.Errorf("stepping %s[%d] at offset %d: %w", t.cfg.TopicNames[q.topic], t.cfg.Partition, it.Offset, err)
	}
	switch {
	case adopted:
		r.replay.adopted()
		t.obs.Adopted++
	case again != nil:
		r.replay.follower.take()
	}
	r.checkpoints.changed(t.now.Mono)
	if r.answeredLast = q.topic != event.Impressions; r.answeredLast {
		_, after := r.machine.Dirty()
		r.checkpoints.answers.open += after - before
	}
	for range out.Rankings[rankings:] {
		r.lanes.rankings.note(it.Timestamp)
	}
	if len(out.DeadLetters) > letters {
		r.lanes.rankings.weigh(out, letters)
		t.bury(out, letters)
	}
	r.unranked.Reset()
	batch := it.batch
	q.pop()
	if batch != 0 {
		t.stepped(batch, 1)
	}
	if adopted && r.replay.follower.adrift {
		r.machine.Begin(r.queues.offsets())
	}
	t.obs.Stepped[q.topic]++
	return nil
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
