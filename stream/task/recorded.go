package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// recordedSteps are the steps that the log tells of. A replay takes in the records between one ranking and the next in the order,
// and at the event time, in which they were taken in when that ranking was made. So they have the outcomes that they had then,
// whatever was lost in between.
type recordedSteps struct {
	on bool // the decision at hand tells of its steps
	// adrift says that a decision, or the state, told of none. Where the next steps begin is known then only if they say so.
	adrift       bool
	anchor       *partition.InputStep // where the loaded state's own steps begin, if they say so
	steps        []partition.InputStep
	at           int
	done         [event.Inputs]int64 // records stepped since the ranking before that were not found among steps yet
	watermark    event.Millis        // as of the steps before at
	missingSince time.Duration       // since when the log has lacked what the steps tell of; 0: it does not
}

// newRecordedSteps finds out how far the loaded state has come on the way to its next ranking.
func newRecordedSteps(m *partition.Machine, adrift bool) (r recordedSteps, err error) {
	_, steps, err := partition.ParseSteps(nil, m.Steps())
	if err != nil {
		return r, err
	}
	r.adrift = adrift
	for i := range steps {
		if s := &steps[i]; s.Kind == partition.StepTake {
			r.done[s.Topic] += s.N
		}
	}
	if len(steps) > 0 && steps[0].Kind == partition.StepRead {
		r.anchor = &steps[0]
	}
	return r, nil
}

// begin begins with the steps of the next decision; the header is nil where that tells of none. At is how far the
// topics have been stepped.
func (r *recordedSteps) begin(header []byte, at [event.Inputs]int64) (err error) {
	anchor := r.anchor
	r.at, r.on, r.anchor, r.steps = 0, header != nil, nil, r.steps[:0]
	if r.on {
		if r.watermark, r.steps, err = partition.ParseSteps(r.steps, header); err != nil {
			return err
		}
	}
	for i := range r.steps {
		s := &r.steps[i]
		if s.Kind != partition.StepRead {
			continue
		}
		if anchor != nil && s.Offsets == anchor.Offsets {
			r.at = i
			return nil
		}
		if (anchor != nil || r.adrift) && at[0] <= s.Offsets[0] && at[1] <= s.Offsets[1] && at[2] <= s.Offsets[2] {
			r.at, r.adrift, r.done = i, false, [event.Inputs]int64{}
			return nil
		}
	}
	r.adrift = r.adrift || anchor != nil
	r.on = r.on && !r.adrift
	return nil
}

// adopted ends the steps, whose ranking is adopted.
func (r *recordedSteps) adopted() {
	r.adrift = r.adrift || !r.on
	r.on, r.missingSince, r.steps = false, 0, r.steps[:0]
}

// take counts the record that the step at hand has asked for.
func (r *recordedSteps) take() {
	if r.at == len(r.steps) || r.steps[r.at].Kind != partition.StepTake {
		return
	}
	if s := &r.steps[r.at]; s.N > 1 {
		s.N--
	} else {
		r.at++
	}
}

// missingAfter is how long the log may lack what the steps tell of. After a change of leader, a broker may not know for a while
// how much of the log is committed.
const missingAfter = 30 * time.Second

// next is the queue whose record is next by the steps, with its step; raise is told how far event time had come by then. Behind
// the last step it is nil.
func (r *recordedSteps) next(qs *queues, raise func(event.Millis)) (*queue, *partition.InputStep) {
	for ; r.at < len(r.steps); r.at++ {
		switch s := &r.steps[r.at]; s.Kind {
		case partition.StepWatermark:
			r.watermark += s.By
			raise(r.watermark)
		case partition.StepRead:
			if q := qs.behind(&s.Offsets); q != nil {
				return q, &partition.InputStep{}
			}
			r.watermark = s.Watermark
			raise(r.watermark)
		case partition.StepTake:
			had := min(r.done[s.Topic], s.N)
			r.done[s.Topic] -= had
			if s.N -= had; s.N > 0 {
				return &qs[s.Topic], s
			}
		}
	}
	return nil, nil
}

var errRecordsMissing = errors.New("the log lacks records that were read before")

// missingLong tells whether the log has been at its end for long although q, whose record is next, has none.
func (r *recordedSteps) missingLong(q *queue, now time.Duration) bool {
	switch {
	case q.len() > 0, !q.atEnd:
		r.missingSince = 0
	case r.missingSince == 0:
		r.missingSince = now
	default:
		return now-r.missingSince > missingAfter
	}
	return false
}
