package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/replay"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// Laws compares the stored account with the records that another Kafka client finds in the topics. The group must be settled. It returns the
// violations, and the number of records read of each topic.
func (g *Group) Laws(ctx context.Context) (violations []string, read [event.Topics]int64, err error) {
	for t := range event.Topic(event.Topics) {
		var opts []kgo.Opt
		if t != event.Rankings {
			opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		}
		if err := g.readAll(ctx, t, func(r *kgo.Record) {
			foreign := slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == foreignHeader })
			if t != event.Rankings || r.Value != nil && !foreign { // without order records, and those of faults
				read[t]++
			}
		}, opts...); err != nil {
			return nil, read, err
		}
	}
	account, err := g.Account(ctx)
	if err != nil {
		return nil, read, err
	}
	return accountFaults(account, read), read, nil
}

// Check runs package checker on some partitions, or all, at any time: however often a record was processed, it has its first outcome.
func (g *Group) Check(ctx context.Context, partitions ...int32) (violations []string, err error) {
	cfg, err := g.Config()
	if err != nil {
		return nil, err
	}
	r, err := checker.Check(ctx, checker.Options{Config: cfg, Earlier: g.earlier, Partitions: partitions, Kept: 10})
	if err != nil {
		return nil, fmt.Errorf("check the state: %w", err)
	}
	for _, l := range r.Laws {
		if l.Law == "rankings.rules" {
			g.ruled.Store(max(g.ruled.Load(), l.Checked))
		}
	}
	for _, v := range r.Violations {
		violations = append(violations, v.String())
	}
	if more := r.Violated - int64(len(r.Violations)); more > 0 {
		violations = append(violations, fmt.Sprintf("and %d more", more))
	}
	return violations, nil
}

var outcomes = [event.Inputs]string{
	event.Impressions: "paid expired defaulted unselected duplicate rejected pending",
	event.Selections:  "joined duplicate late orphan rejected parked",
	event.Payoffs:     "applied duplicate late orphan rejected parked",
}

// recordsAccounted returns how many records of a topic an account has, with an outcome or waiting.
func recordsAccounted(account map[string]int64, t event.Topic) (sum int64) {
	for _, o := range strings.Fields(outcomes[t]) {
		sum += account[roles[t]+"."+o]
	}
	return sum
}

// accountFaults compares the account's sums with the topics.
func accountFaults(account map[string]int64, read [event.Topics]int64) (violations []string) {
	for t := range roles {
		sum := recordsAccounted(account, event.Topic(t))
		if n := account[roles[t]+".read"]; n != read[t] || sum != n {
			violations = append(violations, fmt.Sprintf("%s: the topic holds %d records, the account has %d read and %d ended or waiting",
				roles[t], read[t], n, sum))
		}
	}
	ranked := int64(0)
	for _, o := range []string{"paid", "expired", "defaulted", "unselected", "pending"} {
		ranked += account["impressions."+o]
	}
	if ranked != read[event.Rankings] {
		violations = append(violations, fmt.Sprintf("%d rankings are in the log, the account has %d", read[event.Rankings], ranked))
	}
	return violations
}

func (g *Group) client(t event.Topic, opts ...kgo.Opt) (*kgo.Client, error) {
	parts := map[int32]kgo.Offset{}
	for p := range g.Partitions {
		parts[int32(p)] = kgo.NewOffset().At(0)
	}
	return g.c.client(append(opts, kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{g.Topics[t]: parts}))...)
}

// readAll calls f with every record in a topic but markers, in the order of each partition.
func (g *Group) readAll(ctx context.Context, t event.Topic, f func(*kgo.Record), opts ...kgo.Opt) error {
	return g.readWithMarkers(ctx, t, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			f(r)
		}
	}, opts...)
}

// readWithMarkers is readAll with transactions' markers.
func (g *Group) readWithMarkers(ctx context.Context, t event.Topic, f func(*kgo.Record), opts ...kgo.Opt) error {
	c, err := g.client(t, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	all, err := g.ends(ctx)
	if err != nil {
		return err
	}
	left, ends := map[int32]bool{}, all[t]
	for p, end := range ends {
		if end > 0 {
			left[int32(p)] = true
		}
	}
	for len(left) > 0 {
		got := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", g.Topics[t], err)
		}
		got.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[r.Partition] {
				f(r)
			}
			if r.Offset >= ends[r.Partition]-1 { // the last one may be of an aborted transaction, which ends behind it
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

// Replayed is the result of a replay of a group's topics.
type Replayed struct{ replay.Result }

func (r *Replayed) String() string {
	text := fmt.Sprintf("%d rankings, %d identical", r.Rankings, r.Same)
	for _, why := range slices.Sorted(maps.Keys(r.NotExact)) {
		text += fmt.Sprintf("; not exact %d: %s", r.NotExact[why].Rankings, why)
	}
	return text
}

// takeBase writes the group's stored state to a directory.
func (g *Group) takeBase(ctx context.Context, dir string) error {
	cfg, err := g.Config()
	if err != nil {
		return err
	}
	tool, err := admin.New(cfg, admin.Options{})
	if err != nil {
		return err
	}
	_, err = tool.TakeBase(ctx, dir)
	return errors.Join(err, tool.Close())
}

// Replay computes all rankings of the group again, or those behind the first base in a directory. Different ones without a reason to be not
// exact are violations.
func (g *Group) Replay(ctx context.Context, bases string) (r Replayed, violations []string, err error) {
	cfg, err := g.Config()
	if err != nil {
		return r, nil, err
	}
	topics, err := audit.Open(ctx, cfg)
	if err != nil {
		return r, nil, fmt.Errorf("replay: %w", err)
	}
	defer topics.Close()
	if bases != "" {
		if err := topics.From(bases); err != nil {
			return r, nil, fmt.Errorf("replay: %w", err)
		}
	}
	results, err := topics.Replay(ctx, &replay.Config{})
	if err != nil {
		return r, nil, fmt.Errorf("replay: %w", err)
	}
	for p, one := range results {
		r.Result = r.Result.Plus(one)
		if d := one.First; d != nil {
			violations = append(violations, fmt.Sprintf("replay: %d rankings of partition %d come out different, the first at offset %d: it is %s, "+
				"and comes out %s", one.Different, p, d.Ranking.Offset, d.Ranking.Value, d.Again))
		}
	}
	return r, violations, nil
}
