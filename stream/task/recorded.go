package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// recordedSteps are logged steps. A replay processes the records between two rankings in the logged order and at the logged event time. So
// they have the same outcomes as before, whatever was lost since (invariant 6).
type recordedSteps struct {
	on bool // the decision at hand has steps
	// orderUnknown means that a decision, or the state, had no steps. The next steps' beginning is then known only if they state it.
	orderUnknown bool
	anchor       *partition.InputStep // beginning of the loaded state's steps, if stated
	steps        []partition.InputStep
	at           int
	done         [event.Inputs]int64 // records stepped since the last ranking that have not been matched with steps
	watermark    event.Millis        // as of the steps before at
	missingSince time.Duration       // since when the log lacks a record of the steps; 0: it does not
}

// newRecordedSteps starts from the loaded state's steps towards its next ranking.
func newRecordedSteps(m *partition.Machine, orderUnknown bool) (r recordedSteps, err error) {
	r.orderUnknown = orderUnknown
	r.done, r.anchor, err = m.Unranked()
	return r, err
}

// begin starts the steps of the next decision; header is nil if it has none. at are the topics' positions.
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
		if (anchor != nil || r.orderUnknown) && at[0] <= s.Offsets[0] && at[1] <= s.Offsets[1] && at[2] <= s.Offsets[2] {
			r.at, r.orderUnknown, r.done = i, false, [event.Inputs]int64{}
			return nil
		}
	}
	r.orderUnknown = r.orderUnknown || anchor != nil
	r.on = r.on && !r.orderUnknown
	return nil
}

// adopted ends the steps of an adopted ranking.
func (r *recordedSteps) adopted() {
	r.orderUnknown = r.orderUnknown || !r.on
	r.on, r.missingSince, r.steps = false, 0, r.steps[:0]
}

// take counts the record that the current step asked for.
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

// missingAfter bounds how long the log may lack a record of the steps. A new leader gives out committed records only when all in-sync
// replicas have them. One that is dead leaves them after replica.lag.time.max.ms, 30 s by default, and a broker looks each half of that.
const missingAfter = 90 * time.Second

// next returns the queue of the next record by the steps, and its step, and
// raises the watermark on the way. Behind the last step it returns nil.
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

// missingLong reports whether the log has ended for long before q's next record.
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

// replay steps the records read since the checkpoint: the cursor has the logged decisions, the recorded steps the order of records.
type replay struct {
	on               bool // the cursor is asked first
	cursor           cursor
	recorded         recordedSteps
	stepsBegun       bool // recorded has the steps of the cursor's decision
	verifyingEarlier bool // a look-up checks that the state holds the cursor's earlier decisions
}

// beginSteps starts the steps of the decision at hand. at are the topics' positions.
func (r *replay) beginSteps(at offsets) error {
	if !r.cursor.decoded || r.stepsBegun {
		return nil
	}
	r.stepsBegun = true
	if err := r.recorded.begin(r.cursor.steps(), at); err != nil {
		return fmt.Errorf("the ranking at offset %d: %w", r.cursor.records[0].Offset, err)
	}
	return nil
}

// adopted moves behind the decision at hand.
func (r *replay) adopted() {
	r.cursor.pop()
	r.recorded.adopted()
	r.stepsBegun = false
}

// ending reports whether all decisions are adopted, and no earlier one is being looked up.
func (r *replay) ending() bool {
	return r.on && r.cursor.ended && !r.cursor.decoded && !r.verifyingEarlier
}
