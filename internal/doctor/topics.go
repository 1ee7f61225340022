package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// shortRetention is the least advisable retention of an input: workers or Redis may be down for a night.
const shortRetention = 24 * time.Hour

// topics examines topics like the command of that name, and like a worker.
func (d *doctor) topics(ctx context.Context) {
	const area = "topics"
	if !d.reached {
		return
	}
	problems, err := d.broker.Check(ctx)
	if err != nil {
		d.add(Fault, area, "the topics cannot be looked at: %v (a worker needs Describe and DescribeConfigs on each)", err)
		return
	}
	for _, p := range problems {
		d.add(Fault, area, "%s", p)
	}
	facts, err := d.describe(ctx, 0)
	copy(d.topic[:], facts.Topics)
	if err != nil {
		d.add(Fault, area, "the logs of partition 0 cannot be looked at: %v", err)
		return
	}
	horizon := time.Duration(0) // the longest of experiments
	for i := range d.cfg.Experiments {
		horizon = max(horizon, d.cfg.Learner(d.cfg.Experiments[i].Control).PayoffHorizon)
	}
	for t, name := range app.TopicNames(d.cfg) {
		f := &d.topic[t]
		if name == "" || f.Missing || f.Partitions == 0 {
			continue
		}
		kept := "for ever"
		if f.RetentionMillis >= 0 {
			kept = "for " + config.FormatDuration(time.Duration(f.RetentionMillis)*time.Millisecond)
		}
		text := fmt.Sprintf("%s: %s, kept %s, records of up to %d bytes", name, plural.N(f.Partitions, "partition"), kept, f.MaxMessageBytes)
		short := ""
		switch {
		case f.RetentionMillis < 0:
		case t < event.Inputs && f.RetentionMillis < shortRetention.Milliseconds():
			short = "records not read by then are lost"
		case f.RetentionMillis <= horizon.Milliseconds():
			short = fmt.Sprintf("lift and evaluate count an impression once its payoff_horizon of %s is over, and its records are deleted by then",
				config.FormatDuration(horizon))
		}
		if short != "" {
			d.add(Warning, area, "%s: %s; raise it with kafka-configs.sh --bootstrap-server %s --alter --topic %s --add-config retention.ms=%d, or more",
				text, short, d.cfg.Kafka.Brokers[0], name, (horizon + 7*shortRetention).Milliseconds())
			continue
		}
		d.add(OK, area, "%s", text)
	}
}

// electing is the time for which a partition may lack an answering leader without a fault: new topics lack one at first.
const electing = 10 * time.Second

// describe examines one partition of all topics.
func (d *doctor) describe(ctx context.Context, number int32) (task.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, electing)
	defer cancel()
	temporary := func(err error) bool {
		var code kafka.Error
		return errors.As(err, &code) && code.Temporary()
	}
	return broker.RetryWhile(ctx, temporary, d.broker.Partition(number).Describe)
}

// Sample for the partitioner check: partitions of each topic, and their last records.
const (
	sampledPartitions = 16
	sampledRecords    = 100
)

// partitioners examines the placement of keys, by the newest records.
func (d *doctor) partitioners(ctx context.Context) {
	const area = "partitioners"
	by, names := map[string][]string{}, app.TopicNames(d.cfg)
	read, looked := 0, false
	for t := range event.Topic(event.Inputs) {
		f := &d.topic[t]
		if names[t] == "" || f.Partitions < 2 {
			continue
		}
		looked = true
		placed := stream.NewPlaced(f.Partitions)
		for p := range int32(min(f.Partitions, sampledPartitions)) {
			records, err := d.sample(ctx, t, p)
			if err != nil {
				d.add(Warning, area, "%s[%d] cannot be sampled: %v", names[t], p, err)
				return
			}
			read += len(records)
			placed.Note(p, records)
		}
		if name, known := placed.By(); known {
			by[name] = append(by[name], names[t])
		}
	}
	switch {
	case !looked:
	case len(by) == 0:
		d.add(OK, area, "too few records with keys yet (%d): workers check as they read; all producers need one partitioner", read)
	case len(by) > 1:
		var each []string
		for name, topics := range by {
			each = append(each, fmt.Sprintf("%s by %s", strings.Join(topics, ", "), name))
		}
		d.add(Fault, area, "producers place keys by different partitioners (%s): records of one impression part. Set %s", strings.Join(each, "; "),
			stream.HowToPlace)
	default:
		for name, topics := range by {
			d.add(OK, area, "keys of %s are placed by %s", strings.Join(topics, ", "), name)
		}
	}
}

// resharded returns the offset from which records are placed by the present number of partitions, as far as it is known.
func (d *doctor) resharded(ctx context.Context, t event.Topic, number int32, f *task.TopicFacts) int64 {
	if len(d.servers) == 0 { // no store to ask
		return 0
	}
	m, fields, err := d.store.View(ctx, number, nil)
	if err != nil {
		return 0 // step state reports it
	}
	if m.Partitions != f.Partitions { // not resharded yet
		return f.End
	}
	return admin.Resharded(fields, t)
}

// sample reads the last records of a partition.
func (d *doctor) sample(ctx context.Context, t event.Topic, number int32) ([]partition.Record, error) {
	facts, err := d.describe(ctx, number)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, electing)
	defer cancel()
	f := &facts.Topics[t]
	var all []partition.Record
	for r := d.broker.Partition(number).Reader(t, max(f.LogStart, f.End-sampledRecords, d.resharded(ctx, t, number, f)), f.End); ; {
		got, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, got.Records...)
	}
}

// Differences of clocks: above the first nothing expires; synchronised clocks stay below the second.
const (
	clockBound = 5 * time.Minute
	clockAway  = 10 * time.Second
)

// clock compares this machine's clock with that of Kafka's controller, or with times from brokers and Redis.
func (d *doctor) clock(ctx context.Context) {
	const area, remedy = "clock", "see to NTP (timedatectl, chronyc tracking), here and there"
	compare := func(whose string, ahead time.Duration) {
		by := ahead.Abs().Round(100 * time.Millisecond)
		how := "ahead of"
		if ahead > 0 { // theirs
			how = "behind"
		}
		switch {
		case by > clockBound:
			d.add(Fault, area, "this machine's clock is %v %s that of %s: nothing would expire; %s", by, how, whose, remedy)
		case by > clockAway:
			d.add(Warning, area, "this machine's clock is %v %s that of %s: %s", by, how, whose, remedy)
		default:
			d.add(OK, area, "this machine's clock and that of %s are %v apart", whose, by)
		}
	}
	for _, s := range d.servers {
		if s.Info["redis_version"] != "" {
			compare("Redis at "+s.Address, s.Clock)
		}
	}
	if !d.reached {
		return
	}
	asked := d.now()
	if at, err := d.broker.Clock(ctx); err == nil {
		compare("Kafka's controller", at.Sub(asked.Add(d.now().Sub(asked)/2)))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, electing)
	defer cancel()
	stamped, err := d.broker.Partition(0).Stamped(ctx, &d.topic[event.Rankings])
	switch {
	case err == nil && stamped.Sub(d.now()) > clockAway: // a broker's clock is not before its last stamp
		compare("the broker that stamped the last ranking", stamped.Sub(d.now()))
	default:
		d.add(OK, area, "Kafka does not report its time to this user (that takes Describe on the cluster, and Kafka 3.3 with KRaft): a running worker "+
			"compares, see ranker_clock_offset_seconds")
	}
}
