package checker

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// merge folds the inputs in the order in which they were processed: each ranking
// lists the records since the last, and the state those since the last ranking.
func (f *fold) merge() error {
	f.orderUnknown = f.partial
	for {
		if has, err := f.ranked.next(f); err != nil {
			return err
		} else if !has {
			break
		}
		if f.ranked.order > 0 {
			if err := f.follow(f.ranked.steps, fmt.Sprintf("order record %d", f.ranked.order)); err != nil {
				return err
			}
			continue
		}
		if err := f.takeUpTo(f.ranked.cur.Decision.Offset, f.ranked.steps); err != nil {
			return err
		}
	}
	return f.tail()
}

// takeUpTo processes the records before a ranking, and the impression that it answers.
func (f *fold) takeUpTo(offset int64, header []byte) error {
	if offset < f.topics[event.Impressions].from { // retention has deleted the impression
		f.loseOrder()
		return nil
	}
	if err := f.follow(header, &recordRef{event.Rankings, f.ranked.at, f.ranked.cur.ID}); err != nil {
		return err
	}
	next, err := f.peekOffset(event.Impressions)
	if err != nil {
		return err
	}
	if !f.orderUnknown && !equal(f.out, stepsLead, f.at(event.Rankings, f.ranked.at, f.ranked.cur.ID), offset, next) {
		f.loseOrder()
	}
	for next < offset {
		if err := f.take(event.Impressions, &step{}, false); err != nil {
			return err
		}
		if next, err = f.peekOffset(event.Impressions); err != nil {
			return err
		}
	}
	if next > offset {
		f.out.broken(rankingsDecision, f.at(event.Rankings, f.ranked.at, f.ranked.cur.ID), "an impression of the log",
			say("offset %d, where there is none", offset))
		return nil
	}
	return f.take(event.Impressions, &step{}, true)
}

// tail processes the records after the last ranking.
func (f *fold) tail() error {
	switch header, err := storedSteps(f.state.steps); {
	case f.state.steps == "" && f.state.seq == 0 || f.partial: // nothing was checkpointed, or the order is unknown
		f.loseOrder()
	case !f.out.must(stepsReadable, err == nil, "meta, field steps", "steps", err):
		f.loseOrder()
	default:
		if err := f.follow(header, "meta, field steps"); err != nil {
			return err
		}
	}
	for t := range event.Topic(event.Inputs) {
		for f.topics[t].on {
			next, err := f.peekOffset(t)
			if err != nil {
				return err
			}
			if next == math.MaxInt64 {
				break
			}
			if !f.orderUnknown {
				f.out.broken(stepsLead, "meta, field steps", say("to the checkpoint, which stands at offset %d of %s", f.topics[t].to, roles[t]),
					say("to offset %d", next))
				f.loseOrder()
			}
			if err := f.take(t, &step{}, false); err != nil {
				return err
			}
		}
	}
	if !f.orderUnknown {
		f.out.must(stepsChain, f.watermark <= f.state.watermark, "meta, field watermark", say("no less than that of the steps, %d", f.watermark),
			f.state.watermark)
	}
	f.watermark = max(f.watermark, f.state.watermark)
	return nil
}

// loseOrder marks the order as unknown from here on.
func (f *fold) loseOrder() { f.orderUnknown = true }

// follow processes a header's records. Without a header the order is unknown until one names the topics' positions.
func (f *fold) follow(header []byte, name any) error {
	if header == nil {
		f.loseOrder()
		return nil
	}
	from, steps, err := parseSteps(header)
	if !f.out.must(stepsReadable, err == nil, name, "steps", err) {
		f.loseOrder()
		return nil
	}
	if !f.orderUnknown && !equal(f.out, stepsChain, name, f.watermark, from) {
		f.loseOrder()
	}
	if f.orderUnknown {
		at := slices.IndexFunc(steps, func(s step) bool { return s.kind == stepRead && !f.partial && f.reaches(&s.offsets) })
		if at < 0 {
			f.watermark = max(f.watermark, reached(from, steps))
			return nil
		}
		steps = steps[at:]
	}
	for i := range steps {
		if err := f.followOne(&steps[i], name); err != nil || f.orderUnknown {
			return err
		}
	}
	return nil
}

func (f *fold) reaches(offsets *[event.Inputs]int64) bool {
	for t := range f.topics {
		if tf := &f.topics[t]; tf.on && tf.last >= offsets[t] {
			return false
		}
	}
	return true
}

// reached returns the event time after steps.
func reached(w event.Millis, steps []step) event.Millis {
	for i := range steps {
		switch s := &steps[i]; s.kind {
		case stepAdvance:
			w += s.by
		case stepRead:
			w = s.watermark
		}
	}
	return w
}

func (f *fold) followOne(s *step, name any) error {
	switch s.kind {
	case stepAdvance:
		f.watermark += s.by
	case stepRead:
		return f.catchUp(s)
	default:
		for range s.n {
			next, err := f.peekOffset(s.topic)
			if err != nil {
				return err
			}
			if !f.out.ok(stepsLead, next != math.MaxInt64) {
				f.out.breach(stepsLead, name, say("no more %s than the checkpoint has read, up to offset %d", roles[s.topic], f.topics[s.topic].to), s.n)
				f.loseOrder()
				return nil
			}
			if err := f.take(s.topic, s, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// catchUp processes records below a step's offsets, in any order. There are few, since each owner names its beginning.
func (f *fold) catchUp(s *step) error {
	for t := range event.Topic(event.Inputs) {
		for {
			next, err := f.peekOffset(t)
			if err != nil {
				return err
			}
			if next >= s.offsets[t] {
				break
			}
			f.loseOrder()
			if err := f.take(t, &step{}, false); err != nil {
				return err
			}
		}
	}
	f.watermark = max(f.watermark, s.watermark)
	if f.orderUnknown {
		f.orderUnknown, f.resumed = false, max(f.resumed, s.watermark)
	}
	return nil
}

// peekOffset returns the offset of a topic's next record; the largest number if there is none below the checkpoint.
func (f *fold) peekOffset(t event.Topic) (int64, error) {
	tf := &f.topics[t]
	if !tf.on {
		return math.MaxInt64, nil
	}
	for {
		ok, err := tf.log.peek()
		if err != nil {
			return 0, err
		}
		if !ok {
			return math.MaxInt64, nil
		}
		if tf.skip == 0 {
			return tf.log.cur.Records[tf.log.at].Offset, nil
		}
		// It was there before the group began.
		f.checkWitness(t, tf.log.record())
		tf.skip--
	}
}

// open finds the beginnings and ends of the topics.
func (f *fold) open(ctx context.Context) error {
	d, err := f.describe(ctx)
	if err != nil {
		return err
	}
	for t := range event.Topic(event.Inputs) {
		tf, at := &f.topics[t], &f.state.inputs[t]
		*tf = topicFold{on: t != event.Selections || f.selects, last: -1, seen: -1}
		if !tf.on {
			continue
		}
		facts := &d.Topics[t]
		tf.from, tf.to = facts.LogStart, min(at.offset, facts.End)
		f.out.must(metaOffsets, at.offset >= facts.LogStart && at.offset <= facts.End, roles[t],
			say("within %d and %d, the log", facts.LogStart, facts.End), at.offset)
		f.out.must(metaOffsets, at.witness.offset < at.offset, "witness."+roles[t], say("below offset %d", at.offset), at.witness.offset)
	}
	facts := &d.Topics[event.Rankings]
	at := &f.state.rankings
	f.ranked.open(facts.LogStart, f.state.producers)
	f.out.must(metaOffsets, at.offset <= facts.End && at.witness.offset < at.offset, "rankings",
		say("at most %d, the log's end, and above the witness at %d", facts.End, at.witness.offset), at.offset)
	return f.beginning(ctx)
}

func (f *fold) describe(ctx context.Context) (task.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, f.c.opt.Patience)
	defer cancel()
	d, err := broker.RetryWhile(ctx, func(error) bool { return true }, f.c.broker.Partition(f.p).Describe)
	if err != nil {
		return d, fmt.Errorf("describing the topics: %w", err)
	}
	return d, nil
}

// beginning finds the record with which the group began. If it began at the topics' ends,
// the number of records read decides: surplus records up to the checkpoint came before. No record counts as surplus after a reshard,
// which carries pending records' numbers to other partitions.
func (f *fold) beginning(ctx context.Context) error {
	latest := false
	carried := slices.ContainsFunc(f.state.history, func(h history) bool { return h.Done == "reshard" })
	for _, cfg := range f.c.configs {
		latest = latest || cfg.Kafka.Start == config.Latest && !carried
	}
	for t := range f.topics {
		tf := &f.topics[t]
		if !tf.on {
			continue
		}
		read := f.state.account[roles[t]+".read"]
		if tf.from > 0 {
			f.out.skip("%s begins at offset %d: deleted records cannot be folded", f.c.broker.Topic(event.Topic(t)), tf.from)
			f.partial = true
			continue
		}
		if !latest {
			continue
		}
		log, n := f.c.read(ctx, f.p, event.Topic(t), tf.from, tf.to, f.state.skipped[t]...), int64(0)
		for {
			ok, err := log.peek()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			n += int64(len(log.cur.Records))
			log.at = len(log.cur.Records)
		}
		tf.skip = max(0, n-read)
	}
	if latest {
		f.out.skip("kafka.start is latest: that every record was counted (account.read) is taken for granted, to find out where the group began")
	}
	return nil
}
