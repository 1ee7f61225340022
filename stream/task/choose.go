package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// choose returns the queue whose record is stepped next and, in a replay, its logged step; nil if none is
// ready. A replay follows the logged order. If a ranking's headers are lost, the order before it is free.
func (r *runner) choose(now Now) (*queue, *partition.InputStep, error) {
	if r.full(now.Mono) {
		return nil, nil, nil
	}
	for r.replay.on {
		if err := r.replay.cursor.settle(); err != nil {
			return nil, nil, err
		}
		if !r.replay.cursor.decoded { // the next record is not known yet
			return nil, nil, nil
		}
		if err := r.replay.beginSteps(r.queues.offsets()); err != nil {
			return nil, nil, err
		}
		order := r.replay.cursor.order
		if r.replay.recorded.on {
			if q, s, over, err := r.chooseRecorded(now.Mono); !over {
				return q, s, err
			}
		} else if order == 0 {
			break
		}
		r.takeOrder(order, now.Mono)
	}
	q, err := r.chooseFreely(now.Wall)
	return q, nil, err
}

// chooseFreely returns the queue with the oldest ready record, or impressions if it is their turn; nil if none is ready.
func (r *runner) chooseFreely(now event.Millis) (*queue, error) {
	if q := &r.queues[event.Impressions]; r.feedbackLast && q.len() > 0 {
		ready, err := r.ready(q)
		if ready || err != nil {
			return q, err
		}
	}
	return r.queues.oldest(now, r.ready)
}

// ready reports whether the first record of a queue can be stepped now.
func (r *runner) ready(q *queue) (bool, error) {
	it := q.first()
	if !r.lanes.letters[q.topic].room() || q.held {
		return false, nil
	}
	if q.topic == event.Impressions {
		if !r.lanes.rankings.room(r.cfg.BatchBytes) {
			return false, nil
		}
		if r.replay.on {
			v, _, err := r.replay.cursor.standing(it.Offset)
			if err != nil || v == undecided {
				return false, err
			}
		}
	} else if a := &r.checkpoints.feedback; a.open+a.sealed >= r.feedbackRoom() {
		return false, nil
	}
	return it.batch != 0 || r.known(it), nil
}

// feedbackRoom bounds the unsaved bytes of selections' and payoffs' changes: half of all, the other half being for impressions.
// While the expiry walk is behind it is far less. The walk takes one step per checkpoint, so large checkpoints would fill a busy
// store faster than the walk empties it. Holding answers back also holds the watermark back, and so the deadlines that pass.
func (r *runner) feedbackRoom() int64 {
	if r.walk.behind {
		return r.cfg.MaxUnsavedBytes / 16
	}
	return r.cfg.MaxUnsavedBytes / 2
}

// takeOrder moves behind the order record at hand.
func (r *runner) takeOrder(number int64, now time.Duration) {
	r.machine.TakeOrder(number)
	r.replay.adopted()
	r.noteAhead()
	r.checkpoints.changed(now)
}

// noteAhead notes the topics' positions behind an adopted record, if the log does not say them.
func (r *runner) noteAhead() {
	if r.replay.recorded.orderUnknown {
		r.machine.Begin(r.queues.offsets(), false)
		return
	}
	r.machine.Ahead(r.replay.recorded.done, r.replay.recorded.watermark)
}

// chooseRecorded follows the logged steps to the next record, and returns its queue; nil if the record has not come
// or is not ready. Behind the last step comes the ranked impression. over reports the end of an order record's steps.
func (r *runner) chooseRecorded(now time.Duration) (q *queue, s *partition.InputStep, over bool, err error) {
	f := &r.replay.recorded
	if q, s = f.next(&r.queues, r.machine.Raise); q == nil {
		if r.replay.cursor.order > 0 {
			return nil, nil, true, nil
		}
		q, s = &r.queues[event.Impressions], &partition.InputStep{}
	}
	if f.missingLong(q, now) {
		return nil, nil, false, fmt.Errorf("%w: %s[%d] ends at offset %d: %w", errContradiction, r.cfg.TopicNames[q.topic], r.cfg.Partition, q.high,
			errRecordsMissing)
	}
	if q.len() == 0 {
		return nil, nil, false, nil
	}
	ready, err := r.ready(q)
	if !ready {
		return nil, nil, false, err
	}
	return q, s, false, nil
}

// full reports whether steps must wait until the store has caught up, or is fit again, or until the broker takes rankings.
func (r *runner) full(now time.Duration) bool {
	if r.owner.unfit || r.owesOrder() {
		return true
	}
	_, open := r.machine.Dirty()
	since := r.checkpoints.since()
	return r.checkpoints.bytes+open >= r.cfg.MaxUnsavedBytes || since >= 0 && now-since >= r.cfg.MaxUnsavedAge
}

// behindStore reports whether full is the store's doing: steps whose rankings are not in the log yet cannot be saved.
func (r *runner) behindStore(now time.Duration) bool {
	c := &r.checkpoints
	return r.owner.unfit || r.full(now) && !r.owesOrder() && (c.inFlight > 0 || len(c.segments) == 0 || r.saveable(c.segments[0]))
}
