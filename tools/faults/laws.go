package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/replay"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// Laws checks the topics and the stored account independently of package checker. Each impression has one ranking or one dead letter,
// rankings stand in the order of their impressions, and each record is counted once. The group must be settled. It returns the violations,
// and the number of records read of each topic.
func (g *Group) Laws(ctx context.Context) (violations []string, read [event.Topics]int64, err error) {
	say := func(format string, args ...any) {
		if len(violations) < 50 {
			violations = append(violations, fmt.Sprintf(format, args...))
		}
	}
	inputs, err := g.client(ctx, event.Impressions, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, read, err
	}
	impressions := make([]map[int64]string, g.Partitions)
	for p := range impressions {
		impressions[p] = map[int64]string{}
	}
	if err := g.readAll(ctx, inputs, event.Impressions, func(r *kgo.Record) {
		impressions[r.Partition][r.Offset] = string(r.Key)
		read[event.Impressions]++
	}); err != nil {
		return nil, read, err
	}
	for _, t := range []event.Topic{event.Selections, event.Payoffs} {
		c, err := g.client(ctx, t, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			return nil, read, err
		}
		if err := g.readAll(ctx, c, t, func(*kgo.Record) { read[t]++ }); err != nil {
			return nil, read, err
		}
	}
	type ranking struct {
		offset    int64        // of the impression
		forgotten event.Millis // from when on the id may be used again
	}
	ranked := make([]map[string]ranking, g.Partitions) // by id, the last
	last := make([]int64, g.Partitions)
	for p := range ranked {
		ranked[p], last[p] = map[string]ranking{}, -1
	}
	dec := event.NewDecoder(event.Limits{})
	out, err := g.client(ctx, event.Rankings)
	if err != nil {
		return nil, read, err
	}
	if err := g.readAll(ctx, out, event.Rankings, func(rec *kgo.Record) {
		if slices.ContainsFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == foreignHeader }) {
			return // ours, and none of the group's
		}
		if rec.Value == nil { // an order record
			return
		}
		read[event.Rankings]++
		var r event.Ranking
		if err := dec.Ranking(&r, rec.Value); err != nil {
			say("rankings[%d] at %d cannot be read: %v", rec.Partition, rec.Offset, err)
			return
		}
		at := r.Decision.Offset
		switch id := string(r.ID); {
		case r.Decision.Partition != rec.Partition:
			say("rankings[%d] at %d is of partition %d", rec.Partition, rec.Offset, r.Decision.Partition)
		case at <= last[rec.Partition]:
			say("rankings[%d] at %d: impression offset %d comes after %d", rec.Partition, rec.Offset, at, last[rec.Partition])
		case impressions[rec.Partition][at] != id:
			say("rankings[%d] at %d ranks %q, but the impression at %d is %q", rec.Partition, rec.Offset, id, at, impressions[rec.Partition][at])
		default:
			before, twice := ranked[rec.Partition][id]
			if latest := rec.Timestamp.UnixMilli(); twice && latest <= before.forgotten {
				say("impression %q is ranked twice, for offsets %d and %d of partition %d, %d ms before its id may be forgotten", id,
					before.offset, at, rec.Partition, before.forgotten-latest)
			}
			ranked[rec.Partition][id] = ranking{at, r.Decision.Began + remember.Milliseconds()}
			last[rec.Partition] = at
		}
	}); err != nil {
		return nil, read, err
	}
	account, err := g.Account(ctx)
	if err != nil {
		return nil, read, err
	}
	var unranked int64
	for p, all := range impressions {
		for _, id := range all {
			if _, ok := ranked[p][id]; !ok {
				unranked++
			}
		}
	}
	if n := account["impressions.rejected"]; unranked > n {
		say("%d impressions have no ranking, but only %d were refused", unranked, n)
	}
	return append(violations, accountFaults(account, read)...), read, nil
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

func (g *Group) client(_ context.Context, t event.Topic, opts ...kgo.Opt) (*kgo.Client, error) {
	parts := map[int32]kgo.Offset{}
	for p := range g.Partitions {
		parts[int32(p)] = kgo.NewOffset().At(0)
	}
	return g.c.client(append(opts, kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{g.Topics[t]: parts}))...)
}

// readAll calls f with every record in a topic but markers, in the order of each partition, and closes the client.
func (g *Group) readAll(ctx context.Context, c *kgo.Client, t event.Topic, f func(*kgo.Record)) error {
	return g.readWithMarkers(ctx, c, t, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			f(r)
		}
	})
}

// readWithMarkers is readAll with transactions' markers.
func (g *Group) readWithMarkers(ctx context.Context, c *kgo.Client, t event.Topic, f func(*kgo.Record)) error {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	all, err := g.ends(ctx)
	if err != nil {
		return err
	}
	left, ends := 0, all[t]
	for _, end := range ends {
		if end > 0 {
			left++
		}
	}
	for left > 0 {
		got := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", g.Topics[t], err)
		}
		got.EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			f(r)
			if r.Offset == ends[r.Partition]-1 {
				left--
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

// Replay computes all rankings of the group again. Different ones without a reason to be not exact are violations.
func (g *Group) Replay(ctx context.Context) (r Replayed, violations []string, err error) {
	cfg, err := g.Config()
	if err != nil {
		return r, nil, err
	}
	topics, err := audit.Open(ctx, cfg)
	if err != nil {
		return r, nil, fmt.Errorf("replay: %w", err)
	}
	defer topics.Close()
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
