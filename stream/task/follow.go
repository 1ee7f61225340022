package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// follower leads a replay through the steps that the log tells of: the records between one ranking and the next are taken in
// in the order, and at the event time, in which they were taken in when that ranking was made. So they have the outcomes that
// they had then, whatever was lost in between.
type follower struct {
	on bool // the decision at hand tells of its steps
	// adrift says that a decision, or the state, did not tell: where the next steps begin is not known, unless they say so.
	adrift    bool
	anchor    *partition.Step // where the loaded state's own steps begin, if they say so
	steps     []partition.Step
	at        int
	done      [event.Inputs]int64 // records stepped since the ranking before that were not found among steps yet
	watermark event.Millis        // as of the steps before at
	lacking   time.Duration       // since when the log has lacked what the steps tell of; 0: it does not
}

// newFollower finds out how far the loaded state has come on the way to its next ranking.
func newFollower(m *partition.Machine, adrift bool) (f follower, err error) {
	_, steps, err := partition.ParseSteps(nil, m.Steps())
	if err != nil {
		return f, err
	}
	f.adrift = adrift
	for i := range steps {
		if s := &steps[i]; s.Kind == partition.StepTake {
			f.done[s.Topic] += s.N
		}
	}
	if len(steps) > 0 && steps[0].Kind == partition.StepRead {
		f.anchor = &steps[0]
	}
	return f, nil
}

// lead begins with the steps of the next decision; nil is the header of one that does not tell them. At is how far the
// topics have been stepped.
func (f *follower) lead(header []byte, at [event.Inputs]int64) (err error) {
	anchor := f.anchor
	f.at, f.on, f.anchor, f.steps = 0, header != nil, nil, f.steps[:0]
	if f.on {
		if f.watermark, f.steps, err = partition.ParseSteps(f.steps, header); err != nil {
			return err
		}
	}
	for i := range f.steps {
		s := &f.steps[i]
		if s.Kind != partition.StepRead {
			continue
		}
		if anchor != nil && s.Offsets == anchor.Offsets {
			f.at = i
			return nil
		}
		if (anchor != nil || f.adrift) && at[0] <= s.Offsets[0] && at[1] <= s.Offsets[1] && at[2] <= s.Offsets[2] {
			f.at, f.adrift, f.done = i, false, [event.Inputs]int64{}
			return nil
		}
	}
	f.adrift = f.adrift || anchor != nil
	f.on = f.on && !f.adrift
	return nil
}

// arrived ends the steps: their ranking is adopted.
func (f *follower) arrived() {
	f.adrift = f.adrift || !f.on
	f.on, f.lacking, f.steps = false, 0, f.steps[:0]
}

// take counts the record that the step at hand has asked for.
func (f *follower) take() {
	if f.at == len(f.steps) || f.steps[f.at].Kind != partition.StepTake {
		return
	}
	if s := &f.steps[f.at]; s.N > 1 {
		s.N--
	} else {
		f.at++
	}
}

// lacksAfter is how long the log may lack what the steps tell of. After a change of leader, a broker may not know for a while
// how much of the log is committed.
const lacksAfter = 30 * time.Second

// next is the queue whose record is next by the steps, with its step; raise is told how far event time had come by then. Behind
// the last step it is the impression that was ranked.
func (f *follower) next(qs *queues, raise func(event.Millis)) (*queue, *partition.Step) {
	for ; f.at < len(f.steps); f.at++ {
		switch s := &f.steps[f.at]; s.Kind {
		case partition.StepWatermark:
			f.watermark += s.By
			raise(f.watermark)
		case partition.StepRead:
			if q := qs.short(&s.Offsets); q != nil {
				return q, &partition.Step{}
			}
			f.watermark = s.Watermark
			raise(f.watermark)
		case partition.StepTake:
			had := min(f.done[s.Topic], s.N)
			f.done[s.Topic] -= had
			if s.N -= had; s.N > 0 {
				return &qs[s.Topic], s
			}
		}
	}
	return &qs[event.Impressions], &partition.Step{}
}

var errLacks = errors.New("the log lacks records that were read before")

// lacks tells whether the log has been at the end of a queue, whose record is next, for long.
func (f *follower) lacks(q *queue, now time.Duration) bool {
	switch {
	case q.len() > 0, !q.atEnd:
		f.lacking = 0
	case f.lacking == 0:
		f.lacking = now
	default:
		return now-f.lacking > lacksAfter
	}
	return false
}
