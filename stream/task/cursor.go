package task

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// cursor reads rankings[p] from the checkpoint's position to our own abort marker: the decisions that earlier owners
// made for impressions which the checkpoint does not cover. It is bounded: one fetch answer at a time.
type cursor struct {
	through  bool
	next     int64 // where to fetch
	from     int64 // impressions below are covered by the checkpoint
	records  []partition.Record
	fetching bool
	decoder  *event.Decoder
	decision event.Ranking // of records[0]
	decoded  bool
}

func newRankingDecoder() *event.Decoder {
	return event.NewDecoder(event.Limits{})
}

// verdict is what the log says of an impression.
type verdict uint8

const (
	undecided verdict = iota // nothing yet: wait for the cursor
	anew                     // no decision in the log, none can be: decide
	decided                  // the decision stands in the log: adopt
	refused                  // an earlier owner went past it: it was refused
)

// verdict asks the log for the impression at offset.
func (c *cursor) verdict(offset int64, group string) (verdict, *event.Ranking, error) {
	c.settle(group)
	switch {
	case c.decoded && c.decision.Decision.Offset == offset:
		return decided, &c.decision, nil
	case c.decoded && c.decision.Decision.Offset > offset:
		return refused, nil, nil
	case c.decoded:
		return undecided, nil, fmt.Errorf("the ranking at offset %d answers the impression at offset %d, which is not in "+
			"the log any more", c.records[0].Offset, c.decision.Decision.Offset)
	case c.through:
		return anew, nil, nil
	}
	return undecided, nil, nil
}

// settle goes on to the next decision that counts: this group's, for an impression that the checkpoint does not cover.
func (c *cursor) settle(group string) {
	for !c.decoded && len(c.records) > 0 {
		// What cannot be read is not ours: another group's of a later layout, perhaps.
		if c.decoder.Ranking(&c.decision, c.records[0].Value) == nil &&
			c.decision.Decision.Group == group && c.decision.Decision.Offset >= c.from {
			c.decoded = true
			return
		}
		c.pop()
	}
}

// exhausted tells whether no decision is left to adopt.
func (c *cursor) exhausted(group string) bool {
	c.settle(group)
	return c.through && !c.decoded
}

// pop goes on to the next record.
func (c *cursor) pop() {
	c.records = c.records[1:]
	c.decoded = false
}

// position is that of the first decision not yet adopted, as far as is known.
func (c *cursor) position() int64 {
	if len(c.records) > 0 {
		return c.records[0].Offset
	}
	return c.next
}

// take keeps an answer up to the end of what earlier owners can have written.
func (c *cursor) take(f *Fetched, mark Producer) {
	c.records = f.Records
	c.next = max(c.next, f.Next)
	for _, m := range f.Markers {
		if m.Abort && m.Producer == mark {
			c.through = true
			c.next = m.Offset + 1
			c.cut(m.Offset)
			return
		}
	}
}

func (c *cursor) cut(end int64) {
	for i := range c.records {
		if c.records[i].Offset >= end {
			c.records = c.records[:i]
			return
		}
	}
}

// readCursor asks for the next rankings when none are left.
func (t *Task) readCursor() {
	c := &t.run.cursor
	if c.through || c.fetching || len(c.records) > 0 {
		return
	}
	c.fetching = true
	part := FetchPart{Topic: event.Rankings, Offset: c.next, MaxBytes: t.cfg.FetchBytes}
	t.ask("reading decisions of earlier owners", callTimeout+t.cfg.FetchWait,
		Fetch{Parts: []FetchPart{part}, MaxWait: t.cfg.FetchWait}, func(reply any) {
			c.fetching = false
			f := reply.([]Fetched)[0]
			if f.Err != nil {
				c.fetching = true
				t.failed("reading decisions of earlier owners", f.Err, func() { c.fetching = false })
				return
			}
			c.take(&f, t.acq.mark)
		})
}
