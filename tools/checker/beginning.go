package checker

import (
	"context"
	"fmt"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

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
		if !f.out.ok(metaOffsets, at.offset >= facts.LogStart && at.offset <= facts.End) {
			f.out.breach(metaOffsets, roles[t], fmt.Sprintf("within %d and %d, the log", facts.LogStart, facts.End), fmt.Sprint(at.offset))
		}
		if !f.out.ok(metaOffsets, at.witness.offset < at.offset) {
			f.out.breach(metaOffsets, "witness."+roles[t], fmt.Sprintf("below offset %d", at.offset), fmt.Sprint(at.witness.offset))
		}
	}
	facts := &d.Topics[event.Rankings]
	at := &f.state.rankings
	f.ranked.open(facts.LogStart, f.state.producers)
	if !f.out.ok(metaOffsets, at.offset <= facts.End && at.witness.offset < at.offset) {
		f.out.breach(metaOffsets, "rankings", fmt.Sprintf("at most %d, the log's end, and above the witness at %d", facts.End,
			at.witness.offset), fmt.Sprint(at.offset))
	}
	return f.beginning(ctx)
}

func (f *fold) describe(ctx context.Context) (d task.Description, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.c.opt.Patience)
	defer cancel()
	for {
		d, err = f.c.broker.Partition(f.p).Describe(ctx)
		if err == nil {
			return d, nil
		}
		if pause(ctx, retryPause) != nil {
			return d, fmt.Errorf("describing the topics: %w", err)
		}
	}
}

// beginning finds the record with which the group began. If it began at the topics' ends,
// the number of records read decides: surplus records up to the checkpoint came before.
func (f *fold) beginning(ctx context.Context) error {
	latest := false
	for _, cfg := range f.c.configs {
		latest = latest || cfg.Kafka.Start == config.Latest
	}
	for t := range f.topics {
		tf := &f.topics[t]
		if !tf.on {
			continue
		}
		read := f.state.account[roles[t]+".read"]
		if tf.from > 0 {
			f.out.skip("%s begins at offset %d: what was deleted before cannot be folded", f.c.broker.Topic(event.Topic(t)), tf.from)
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
