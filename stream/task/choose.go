package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// choose is the queue whose record is to be stepped next, with the step that it had before, where one is known; nil where none
// is ready. In a replay the log gives the order. Where a ranking's headers are lost, the order before it is chosen freely.
func (r *runner) choose(now Now) (*queue, *partition.InputStep, error) {
	if r.full(now.Mono) {
		return nil, nil, nil
	}
	for r.replay.on {
		if err := r.replay.cursor.settle(); err != nil {
			return nil, nil, err
		}
		if !r.replay.cursor.decoded { // what comes next is not known yet
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

// chooseFreely is the oldest ready queue, or that of impressions when it is their turn; nil where none is ready.
func (r *runner) chooseFreely(now event.Millis) (*queue, error) {
	if q := &r.queues[event.Impressions]; r.feedbackLast && q.len() > 0 {
		ready, err := r.ready(q)
		if ready || err != nil {
			return q, err
		}
	}
	return r.queues.oldest(now, r.ready)
}

// ready tells whether the first record of a queue can be stepped now.
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

// feedbackRoom is how many bytes of what selections and payoffs change may wait to be saved: half of all, the other half being
// for impressions. While the walk over deadlines is behind it is far less. The walk takes one step for each checkpoint; were
// checkpoints as large as can be, a store that is always busy would be given more than the walk takes out, and would fill.
// To hold answers back also holds the watermark back, and with it the deadlines that pass.
func (r *runner) feedbackRoom() int64 {
	if r.walk.behind {
		return r.cfg.MaxUnsavedBytes / 16
	}
	return r.cfg.MaxUnsavedBytes / 2
}

// takeOrder goes on behind the order record at hand.
func (r *runner) takeOrder(number int64, now time.Duration) {
	r.machine.TakeOrder(number)
	r.replay.adopted()
	r.noteAhead()
	r.checkpoints.changed(now)
}

// noteAhead notes behind an adopted record of the log where the topics are, if the log does not say so.
func (r *runner) noteAhead() {
	if r.replay.recorded.adrift {
		r.machine.Begin(r.queues.offsets(), false)
		return
	}
	r.machine.Ahead(r.replay.recorded.done)
}

// chooseRecorded does what the steps say up to the next record, and gives its queue: nil while that has not come, or is not ready. Behind
// the last step comes the impression that was ranked; those of an order record are over then.
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

// full tells whether no more may be stepped until the store has caught up, since so much is unsaved, or is fit again.
func (r *runner) full(now time.Duration) bool {
	if r.owner.unfit || r.untold() {
		return true
	}
	_, open := r.machine.Dirty()
	since := r.checkpoints.since()
	return r.checkpoints.bytes+open >= r.cfg.MaxUnsavedBytes || since >= 0 && now-since >= r.cfg.MaxUnsavedAge
}
