package task

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// stepsAtOnce bounds the records stepped before replies are handled again.
const stepsAtOnce = 512

// step steps ready records, the oldest first. An impression never waits for a payoff's look-up:
// topics keep step only loosely, so that a backlog of one is not read hours ahead of the others.
//
// Nor does it wait for a storm of older payoffs: at least every other step is an impression's if one is ready. Reading impressions ahead
// of older payoffs is harmless: the watermark is the least over the topics, and deadlines are fixed at the decision. A payoff ahead of
// its impression is parked, and parking is bounded. So only impressions have this share; when they are older, order is by time.
func (t *Task) step() (busy bool) {
	r := t.run
	for range stepsAtOnce {
		q, again, err := r.choose(t.now)
		if err != nil {
			t.stop(stopFor(err), err)
			return false
		}
		if q == nil {
			return r.replay.ending() && r.machine.IsKnownComplete() // else the end of that walk wakes us
		}
		if err := t.stepOne(q, again); err != nil {
			t.stop(StopState, err)
			return false
		}
		if t.run != r {
			return false
		}
		r.sealLarge(t.now.Mono)
		r.recordOrder(t.now.Mono)
	}
	return true
}

func stopFor(err error) StopReason {
	if errors.Is(err, errRecordsMissing) {
		return StopTopic
	}
	return StopState
}

func (t *Task) stepOne(q *queue, again *partition.InputStep) error {
	r := t.run
	it := q.first()
	in := partition.Input{Record: &it.Record, ID: &it.id, Found: it.found, Again: again, Read: r.queues.readFor(it.came)}
	in.Now, in.Latest, _ = t.times()
	adopted := false
	if q.topic == event.Impressions && r.replay.on {
		v, d, err := r.replay.cursor.standing(it.Offset)
		if err != nil {
			return err
		}
		switch v {
		case decided:
			in.Decided, adopted = d, true
		case refused:
			in.RefusedEarlier = true
		case absent:
			t.endReplay()
		}
	}
	out := &r.unranked
	if q.topic == event.Impressions {
		out = r.lanes.rankings.open()
	}
	rankings, letters := len(out.Rankings), len(out.DeadLetters)
	_, before := r.machine.Dirty()
	err := r.machine.Step(&in, out)
	if err != nil {
		if wait, ok := errors.AsType[*partition.Wait](err); ok {
			q.hold(wait, t.now.Mono)
			r.checkpoints.changed(t.now.Mono) // due ends of the record's id have been processed
			return nil
		}
		return fmt.Errorf("stepping %s[%d] at offset %d: %w", t.cfg.TopicNames[q.topic], t.cfg.Partition, it.Offset, err)
	}
	switch {
	case adopted:
		r.replay.adopted()
		t.obs.Adopted++
	case again != nil:
		r.replay.recorded.take()
	}
	r.checkpoints.changed(t.now.Mono)
	if r.feedbackLast = q.topic != event.Impressions; r.feedbackLast {
		_, after := r.machine.Dirty()
		r.checkpoints.feedback.open += after - before
	}
	for range out.Rankings[rankings:] {
		r.lanes.rankings.note(it.Timestamp)
	}
	if len(out.DeadLetters) > letters {
		r.lanes.rankings.weigh(out, letters)
		t.takeDeadLetters(out, letters)
	}
	r.unranked.Reset()
	batch := it.batch
	q.pop()
	if batch != 0 {
		r.stepped(batch, 1)
	}
	if r.replay.on && (adopted || r.replay.recorded.orderUnknown && r.machine.OwesOrder()) {
		r.noteAhead()
	}
	t.obs.Stepped[q.topic]++
	return nil
}
