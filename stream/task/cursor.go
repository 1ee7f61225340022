package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// cursor reads rankings[p] from the checkpoint's position to our own abort marker: the decisions that earlier owners
// made for impressions which the checkpoint does not cover. It is bounded: one fetch answer at a time.
type cursor struct {
	group     string
	partition int32
	ended     bool
	next      int64 // where to fetch
	from      int64 // impressions below are covered by the checkpoint
	until     int64 // impressions from here on are not in their log
	records   []partition.Record
	origins   []Origin // of records
	fetching  bool
	decoder   *event.Decoder
	decision  event.Ranking // of records[0]
	decoded   bool          // records[0] counts
	order     int64         // number of the order record that records[0] is; 0: it is a decision
	orders    int64         // number of the last one that is taken in

	// producers are the ids that fences of this partition have given: that of the state, our own, and those that an abort
	// marker stands for behind the checkpoint's position, in their order. Nil: decisions of every producer count.
	producers Owners
	unretired []Producer // of those markers, but for those that a marker of the last epoch ends
	foreign   int64      // decisions of our group that other producers have written
	// earlier are decisions behind the position for impressions that the checkpoint covers.
	earlier []earlierDecision
}

// earlierDecision is one that the loaded state should hold already: the position stays behind where a broker recognised a copy
// of a batch without saying where it stands.
type earlierDecision struct {
	id     string
	offset int64
	began  event.Millis // where it is not known, before all time
}

func newCursor(cfg *Config, a *acquisition, orders int64) cursor {
	c := cursor{
		group: cfg.Group, partition: cfg.Partition, next: a.meta.Rankings, from: a.meta.Inputs[event.Impressions].Offset,
		until: a.facts.Topics[event.Impressions].End, decoder: newRankingDecoder(), orders: orders,
	}
	if !cfg.AnyProducer {
		c.producers = append(slices.Clone(Owners(a.meta.FormerProducers)), a.meta.ProducerID, a.mark.ID)
	}
	return c
}

// ownRecord tells whether an owner of this partition has written a record.
func (c *cursor) ownRecord(o *Origin) bool { return c.producers == nil || c.producers.Wrote(o) }

func newRankingDecoder() *event.Decoder {
	return event.NewDecoder(event.Limits{})
}

// standing is what the log says of an impression.
type standing uint8

const (
	undecided standing = iota // nothing yet: wait for the cursor
	anew                      // no decision in the log, none can be: decide
	decided                   // the decision stands in the log: adopt
	refused                   // an earlier owner went past it: it was refused
)

// standing asks the log for the impression at offset.
func (c *cursor) standing(offset int64) (standing, *event.Ranking, error) {
	if err := c.settle(); err != nil {
		return undecided, nil, err
	}
	switch {
	case c.order > 0:
		return refused, nil, nil
	case c.decoded && c.decision.Decision.Offset == offset:
		return decided, &c.decision, nil
	case c.decoded && c.decision.Decision.Offset > offset:
		return refused, nil, nil
	case c.decoded:
		return undecided, nil, fmt.Errorf("the ranking at offset %d answers the impression at offset %d, which is not in "+
			"the log any more", c.records[0].Offset, c.decision.Decision.Offset)
	case c.ended:
		return anew, nil, nil
	}
	return undecided, nil, nil
}

// maxEarlier bounds the earlier decisions that are looked up: the position stays behind by a few batches at most.
const maxEarlier = 10_000

// steps are those of the decision, or order record, at hand; nil where it does not tell them.
func (c *cursor) steps() []byte { return c.origins[0].Steps }

// settle goes on to the next decision that counts: this group's, for an impression that the checkpoint does not cover. An order record
// counts likewise that the checkpoint does not cover.
func (c *cursor) settle() error {
	for !c.decoded && len(c.records) > 0 {
		if n, ok := partition.OrderNumber(&c.records[0], c.group, c.partition); ok {
			if n > c.orders && c.ownRecord(&c.origins[0]) {
				c.decoded, c.order, c.orders = true, n, n
				return nil
			}
			c.pop()
			continue
		}
		d := &c.decision.Decision
		mine, err := ours(c.decoder, &c.decision, c.records[0].Value, c.group)
		switch {
		case (mine || err != nil) && !c.ownRecord(&c.origins[0]):
			c.foreign++
		case err != nil:
			return fmt.Errorf("the ranking at offset %d is of our group, and cannot be adopted: %w", c.records[0].Offset, err)
		case mine && d.Partition != c.partition:
			return fmt.Errorf("the ranking at offset %d was made for partition %d, not for ours, %d", c.records[0].Offset,
				d.Partition, c.partition)
		case mine && d.Offset >= c.until:
			return fmt.Errorf("%w: the ranking at offset %d answers the impression at offset %d, but that log ends at %d",
				errContradiction, c.records[0].Offset, d.Offset, c.until)
		case mine && d.Offset >= c.from:
			c.decoded = true
			return nil
		case mine && len(c.earlier) < maxEarlier:
			c.earlier = append(c.earlier, earlierDecision{string(c.decision.ID), d.Offset, d.Began})
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
		case r.Decision.Layout != partition.DecisionLayout:
			return true, fmt.Errorf("it has layout %d, this worker adopts %d: run the version that wrote it",
				r.Decision.Layout, partition.DecisionLayout)
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
	return c.ended && !c.decoded, err
}

// pop goes on to the next record.
func (c *cursor) pop() {
	c.decoded, c.order = false, 0
	c.records, c.origins = c.records[1:], c.origins[1:]
	if len(c.records) == 0 {
		c.records, c.origins = nil, nil // they keep the whole fetch answer in memory
	}
}

// position is that of the first decision not yet adopted, as far as is known. With past it leaves out those at hand.
func (c *cursor) position() int64 {
	if len(c.records) > 0 {
		return c.records[0].Offset
	}
	return c.next
}

// take keeps an answer up to the end of what earlier owners can have written.
// It gives the time that the broker has stamped our abort marker with, or -1 where that has not come yet.
func (c *cursor) take(f *Fetched, mark Producer) event.Millis {
	c.records, c.origins = f.Records, f.Origins
	c.next = max(c.next, f.Next)
	for _, m := range f.Markers {
		if m.Abort && m.Producer == mark {
			c.end(m.Offset, m.Offset+1)
			return m.Timestamp
		}
		if c.producers != nil && m.Abort {
			c.producers.Mark(&m)
			c.unretired = slices.DeleteFunc(c.unretired, func(p Producer) bool { return p.ID == m.Producer.ID })
			if m.Producer.Epoch < math.MaxInt16 {
				c.unretired = append(c.unretired, m.Producer)
			}
		}
	}
	return -1
}

// end ends the cursor before an offset.
func (c *cursor) end(before, next int64) {
	c.ended, c.next = true, next
	for i := range c.records {
		if c.records[i].Offset >= before {
			c.records, c.origins = c.records[:i], c.origins[:i]
			break
		}
	}
	if len(c.records) == 0 {
		c.records, c.origins = nil, nil
	}
}
