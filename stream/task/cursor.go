package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// cursor reads rankings[p] from the checkpoint's position to our abort marker: decisions of
// earlier owners that the checkpoint does not cover. It holds one fetch answer at a time.
type cursor struct {
	group     string
	partition int32
	ended     bool
	next      int64 // offset of the next fetch
	from      int64 // impressions below are covered by the checkpoint
	until     int64 // impressions from here on are not in their log
	records   []partition.Record
	origins   []Origin // of records
	fetching  bool
	decoder   *event.Decoder
	decision  event.Ranking // of records[0]
	decoded   bool          // records[0] counts, and is decoded
	order     int64         // number of the order record in records[0]; 0: it is a decision
	orders    int64         // number of the last order record passed

	// producers are the ids from this partition's fences: the state's, our own, and those of
	// abort markers behind the checkpoint's position, in order. Nil accepts every producer.
	producers Owners
	unretired []Producer // of those markers, without those that a marker of the last epoch ends
	foreign   int64      // decisions of our group by other producers
	// earlier are decisions behind the position that the checkpoint covers.
	earlier []earlierDecision
}

// earlierDecision is a decision that the loaded state should hold: the position
// stays behind if a broker recognised a duplicate batch without its offset.
type earlierDecision struct {
	id     string
	at     int64        // its own offset
	offset int64        // of its impression
	began  event.Millis // before all time if not known
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

// ownRecord reports whether an owner of this partition has written a record.
func (c *cursor) ownRecord(o *Origin) bool { return c.producers == nil || c.producers.Wrote(o) }

func newRankingDecoder() *event.Decoder {
	return event.NewDecoder(event.Limits{})
}

type standing uint8

const (
	undecided standing = iota // not known: wait for the cursor
	absent                    // the log has no decision, and never will: decide
	decided                   // the log has the decision: adopt it
	refused                   // an earlier owner left it unranked: it was refused
)

// standing returns the log's verdict on the impression at offset.
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
		return absent, nil, nil
	}
	return undecided, nil, nil
}

// maxEarlier bounds the earlier decisions that are looked up: the position is behind by a few batches at most.
const maxEarlier = 10_000

// steps returns the header of the record at hand, nil if it has none.
func (c *cursor) steps() []byte { return c.origins[0].Steps }

// settle moves to the next record that counts: this group's decision, or order record, that the checkpoint does not cover.
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
			c.earlier = append(c.earlier, earlierDecision{string(c.decision.ID), c.records[0].Offset, d.Offset, d.Began})
		}
		c.pop()
	}
	return nil
}

// ours decodes a record of the rankings topic, and reports whether it is this group's. Others' may
// have any format. An unreadable one of ours is an error: its decision must not be made a second time.
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

func (c *cursor) exhausted() (bool, error) {
	err := c.settle()
	return c.ended && !c.decoded, err
}

// pop moves to the next record.
func (c *cursor) pop() {
	c.decoded, c.order = false, 0
	c.records, c.origins = c.records[1:], c.origins[1:]
	if len(c.records) == 0 {
		c.records, c.origins = nil, nil // they keep the whole fetch answer in memory
	}
}

// position returns that of the first decision not adopted yet, as far as known. Whoever goes on from there verifies the
// earlier ones too that are not verified yet.
func (c *cursor) position() int64 {
	if len(c.earlier) > 0 {
		return c.earlier[0].at
	}
	if len(c.records) > 0 {
		return c.records[0].Offset
	}
	return c.next
}

// take keeps an answer up to the end of earlier owners' writes. It returns
// the broker's timestamp of our abort marker, -1 if that has not come.
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

// end cuts the cursor off before an offset.
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
