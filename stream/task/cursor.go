package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// cursor reads rankings[p] from the checkpoint's position to our own abort marker: the decisions that earlier owners
// made for impressions which the checkpoint does not cover. It is bounded: one fetch answer at a time.
type cursor struct {
	group     string
	partition int32
	through   bool
	next      int64 // where to fetch
	from      int64 // impressions below are covered by the checkpoint
	records   []partition.Record
	fetching  bool
	decoder   *event.Decoder
	decision  event.Ranking // of records[0]
	decoded   bool
}

func newCursor(cfg *Config, meta *state.Meta) cursor {
	return cursor{
		group: cfg.Group, partition: cfg.Partition, next: meta.Rankings, from: meta.Inputs[event.Impressions].Offset,
		decoder: newRankingDecoder(),
	}
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
func (c *cursor) verdict(offset int64) (verdict, *event.Ranking, error) {
	if err := c.settle(); err != nil {
		return undecided, nil, err
	}
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

// decisionLayout is the version of the decision part of ranking records that this worker reads.
const decisionLayout = 1

// settle goes on to the next decision that counts: this group's, for an impression that the checkpoint does not cover.
func (c *cursor) settle() error {
	for !c.decoded && len(c.records) > 0 {
		d := &c.decision.Decision
		mine, err := ours(c.decoder, &c.decision, c.records[0].Value, c.group)
		switch {
		case err != nil:
			return fmt.Errorf("the ranking at offset %d is of our group, and cannot be adopted: %w", c.records[0].Offset, err)
		case mine && d.Partition != c.partition:
			return fmt.Errorf("the ranking at offset %d was made for partition %d, not for ours, %d", c.records[0].Offset,
				d.Partition, c.partition)
		case mine && d.Offset >= c.from:
			c.decoded = true
			return nil
		}
		c.pop()
	}
	return nil
}

// ours tells whether a record of the rankings topic is this group's, and reads it. Others' may be of any layout, or no
// rankings at all; one of ours that cannot be read is an error: a decision that cannot be adopted must not be made a
// second time.
func ours(d *event.Decoder, r *event.Ranking, value []byte, group string) (bool, error) {
	err := d.Ranking(r, value)
	if err == nil {
		switch {
		case r.Decision.Group != group:
			return false, nil
		case r.Decision.Layout != decisionLayout:
			return true, fmt.Errorf("it has layout %d, this worker reads %d", r.Decision.Layout, decisionLayout)
		}
		return true, nil
	}
	if fastjson.GetString(value, "decision", "group") == group {
		return true, err
	}
	return false, nil
}

// exhausted tells whether no decision is left to adopt.
func (c *cursor) exhausted() (bool, error) {
	err := c.settle()
	return c.through && !c.decoded, err
}

// pop goes on to the next record.
func (c *cursor) pop() {
	c.decoded = false
	if c.records = c.records[1:]; len(c.records) == 0 {
		c.records = nil // they keep the whole fetch answer in memory
	}
}

// position is that of the first decision not yet adopted, as far as is known. With past it leaves out those at hand.
func (c *cursor) position(past bool) int64 {
	if len(c.records) > 0 && !past {
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
			c.end(m.Offset, m.Offset+1)
			return
		}
	}
}

// end ends the cursor before an offset.
func (c *cursor) end(before, next int64) {
	c.through, c.next = true, next
	for i := range c.records {
		if c.records[i].Offset >= before {
			c.records = c.records[:i]
			break
		}
	}
	if len(c.records) == 0 {
		c.records = nil
	}
}

// markerTimeout is how long our abort marker may take to show itself: the coordinator writes it after it has answered.
const markerTimeout = 30 * time.Second

var errNoMarker = errors.New("our abort marker is not in the log")

// readCursor asks for the next rankings when none are left.
func (t *Task) readCursor() {
	r := t.run
	c := &r.cursor
	if !r.replaying || c.through || c.fetching || r.checking || len(c.records) > 0 {
		return
	}
	c.fetching = true
	doing := t.reading[event.Rankings]
	part := FetchPart{Topic: event.Rankings, Offset: c.next, MaxBytes: t.cfg.FetchBytes}
	t.read(doing, callTimeout+t.cfg.FetchWait, part, func(f *Fetched, err error) {
		c.fetching = false
		if err != nil {
			t.readFailed(doing, fmt.Errorf("decisions of earlier owners, from offset %d: %w", c.next, err))
			return
		}
		c.take(f, t.acq.mark)
		if s := &t.cfg.sabotage; s.noFence && c.next >= f.High || s.listedEnd && c.next >= t.acq.facts.Topics[event.Rankings].End {
			end := c.next
			if s.listedEnd {
				end = min(end, t.acq.facts.Topics[event.Rankings].End)
			}
			c.end(end, end)
		}
		if !c.through && f.Next >= f.High && t.now.Mono-t.acq.fencedAt > markerTimeout {
			// It was lost with an unclean change of leader, and the fence with it.
			t.restart(errNoMarker)
		}
	})
}
