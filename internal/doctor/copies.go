package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// copies examines each topic's replicas and its least number in sync.
func (d *doctor) copies(ctx context.Context) {
	const area = "topics"
	if !d.reached {
		return
	}
	cluster, err := d.broker.Cluster(ctx)
	if err == nil {
		var all []broker.Copies
		if all, err = d.broker.Copies(ctx); err == nil {
			d.judge(all, len(cluster.Brokers))
			return
		}
	}
	d.add(Warning, area, "the topics' replicas are unknown: %v", err)
}

// judge reports the topics of each kind of fault.
func (d *doctor) judge(all []broker.Copies, brokers int) {
	const area = "topics"
	before := len(d.found)
	named := func(has func(*broker.Copies) bool) string {
		var names []string
		for i := range all {
			if has(&all[i]) {
				names = append(names, all[i].Topic)
			}
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	alter := func(setting string) string {
		return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --topic TOPIC --add-config %s", d.cfg.Kafka.Brokers[0], setting)
	}
	d.unwritable(all)
	if names := named(func(c *broker.Copies) bool { return c.Factor == 1 && brokers > 1 }); names != "" {
		d.add(Warning, area, "%s: one copy, on one of %d brokers: while that broker is away nothing is ranked, and its losses are final; add copies with "+
			"kafka-reassign-partitions.sh, or make the topics with --replication %d", names, brokers, min(brokers, 3))
	}
	if names := named(func(c *broker.Copies) bool { return c.Factor > 1 && c.MinInSync == 1 }); names != "" {
		d.add(Warning, area, "%s: min.insync.replicas is 1: a record counts as written when one broker has it, and is lost with that broker; with three "+
			"copies set 2: %s", names, alter("min.insync.replicas=2"))
	}
	if names := named(func(c *broker.Copies) bool { return c.Unclean }); names != "" {
		d.add(Warning, area, "%s: unclean.leader.election.enable is true: a copy that lacks records may become the leader, and partitions whose decisions "+
			"are lost stop; %s", names, alter("unclean.leader.election.enable=false"))
	}
	if len(d.found) == before && len(all) > 0 {
		least := slices.MinFunc(all, func(a, b broker.Copies) int { return a.Factor - b.Factor })
		d.add(OK, area, "every copy is in sync; each topic has %s or more, on %s", plural.Noun(least.Factor, "copy", "copies"), plural.N(brokers, "broker"))
	}
}

// unwritable reports topics with fewer replicas in sync than required, or than replicas.
func (d *doctor) unwritable(all []broker.Copies) {
	const area, internal = "topics", "__consumer_offsets and __transaction_state are Kafka's own, without which no worker begins"
	var below, behind []string
	for i := range all {
		c := &all[i]
		if c.MinInSync > c.Factor {
			d.add(Fault, area, "%s: min.insync.replicas is %d, with %s: nothing can be written there; add copies, or set it lower", c.Topic,
				c.MinInSync, plural.Noun(c.Factor, "copy", "copies"))
			continue
		}
		for p, n := range c.InSync {
			switch {
			case n < c.MinInSync:
				below = append(below, fmt.Sprintf("%s[%d] %d instead of %d", c.Topic, p, n, c.MinInSync))
			case n < c.Factor:
				behind = append(behind, fmt.Sprintf("%s[%d] %d of %d", c.Topic, p, n, c.Factor))
			}
		}
	}
	if len(below) > 0 {
		d.add(Fault, area, "fewer copies are in sync than min.insync.replicas, so that nothing can be written there: %s (%s); see which brokers are down or "+
			"behind: kafka-topics.sh --describe --under-min-isr-partitions", few(below), internal)
	}
	if len(behind) > 0 {
		d.add(Warning, area, "copies are behind, or their brokers away; in sync are: %s; see which brokers are down: kafka-topics.sh --describe "+
			"--under-replicated-partitions", few(behind))
	}
}

// few returns the first of many names.
func few(all []string) string {
	const most = 6
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
