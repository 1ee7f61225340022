package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var ErrRetention = errors.New("the topics have lost records that the state was made from: add --partial to " +
	"rebuild without the following")

var ErrStrangers = errors.New("the rankings name learners that are not configured: put them into the configuration, or add --partial " +
	"to rebuild without their statistics")

type RebuildQuery struct {
	Partial bool // also if the topics have lost records
	Replace bool // also partitions with state, which is dropped
	Yes     bool // the loss is confirmed
}

type RebuildReport struct {
	Partitions []RebuiltPartition `json:"partitions"`
}

type RebuiltPartition struct {
	Partition int32            `json:"partition"`
	Kept      bool             `json:"kept"`              // it has state, and was left alone
	Adopted   int64            `json:"adopted"`           // decisions found in the log and taken over
	Missing   []string         `json:"missing,omitempty"` // parts that could not be rebuilt
	Account   map[string]int64 `json:"account,omitempty"`
}

// rebuildPlan is the beginning of a partition's replay.
type rebuildPlan struct {
	p       int32
	state   error // of the partition's state now: nil, state.ErrNoState or another
	ran     bool  // the group has state, a decision or a committed offset there
	meta    state.Meta
	missing []string
	// strangers counts logged decisions by learners that are not configured.
	strangers map[string]int64
	// partialRankings: the log of rankings lacks its beginning.
	partialRankings bool
}

// Rebuild makes the state of partitions that have none from the topics: the machine steps all
// inputs from the group's first decision on, and adopts the logged decisions. It ends when all are
// adopted; workers read the rest. Imports and resets are not in the topics, and are not repeated.
func (tool *Tool) Rebuild(ctx context.Context, q RebuildQuery) (*RebuildReport, error) {
	if err := tool.stopped(ctx); err != nil {
		return nil, err
	}
	n, err := tool.topicPartitions(ctx)
	if err != nil {
		return nil, err
	}
	r := &RebuildReport{}
	var plans []*rebuildPlan
	var gaps, strangers []string
	ran := false
	for p := range int32(n) {
		plan, err := tool.planRebuild(ctx, p, &q)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		ran = ran || plan == nil || plan.ran
		if plan == nil {
			r.Partitions = append(r.Partitions, RebuiltPartition{Partition: p, Kept: true})
			continue
		}
		plans, gaps, strangers = append(plans, plan), append(gaps, plan.missing...), append(strangers, plan.unconfigured(tool)...)
		tool.say("looked through the topics of partition %d of %d", p, n)
	}
	if !ran {
		return r, fmt.Errorf("group %q has never run: nothing to rebuild; is kafka.group right?", tool.cfg.Kafka.Group)
	}
	if len(gaps) > 0 && !q.Partial {
		return r, fmt.Errorf("%w:\n  %s", ErrRetention, strings.Join(gaps, "\n  "))
	}
	if len(strangers) > 0 && !q.Partial {
		return r, fmt.Errorf("%w:\n  %s", ErrStrangers, strings.Join(strangers, "\n  "))
	}
	for _, plan := range plans {
		one, err := tool.rebuild(ctx, plan)
		if err != nil {
			return r, err
		}
		r.Partitions = append(r.Partitions, one)
	}
	return r, nil
}

// planRebuild finds where a partition's replay must begin, and the records that the topics have lost; nil if the partition's state is kept.
func (tool *Tool) planRebuild(ctx context.Context, p int32, q *RebuildQuery) (*rebuildPlan, error) {
	plan := &rebuildPlan{p: p}
	switch _, plan.state = tool.store.Probe(ctx, p); {
	case plan.state == nil && !q.Replace:
		return nil, nil
	case errors.Is(plan.state, state.ErrNoState):
	case plan.state != nil && !errors.Is(plan.state, state.ErrIncomplete):
		return nil, plan.state
	case !q.Replace:
		return nil, fmt.Errorf("%w: it can be rebuilt with --replace --yes", state.ErrTorn)
	case !q.Yes:
		return nil, fmt.Errorf("%w (the stored state would be dropped first)", ErrConfirm)
	}
	d, err := tool.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	plan.meta = *d.Beginning(false)
	plan.meta.Rankings = d.Topics[event.Rankings].LogStart
	plan.partialRankings = plan.meta.Rankings > 0
	committed, err := tool.committed(ctx, p)
	if err != nil {
		return nil, err
	}
	for t := range event.Topic(event.Inputs) {
		f := &d.Topics[t]
		if committed[t] > f.End {
			plan.miss(tool, t, f, "it ends at offset %d, but had been read up to %d: it was recreated, or has lost records", f.End, committed[t])
		}
	}
	var first *decision
	configured := map[string]bool{}
	for _, l := range tool.machine.Learners {
		configured[l.Name] = true
	}
	plan.strangers = map[string]int64{}
	err = tool.decisions(ctx, p, &d, func(r *decision) (goOn bool) {
		if first == nil {
			first = r
		}
		if !configured[r.learner] {
			plan.strangers[r.learner]++
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	plan.ran = first != nil || slices.Max(committed) >= 0 || !errors.Is(plan.state, state.ErrNoState)
	if first == nil {
		tool.beginUndecided(plan, &d, committed)
		return plan, nil
	}
	return plan, tool.findGaps(ctx, plan, &d, first)
}

// unconfigured returns a line per unconfigured learner with decisions.
func (plan *rebuildPlan) unconfigured(tool *Tool) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(plan.strangers)) {
		lines = append(lines, fmt.Sprintf("%s[%d]: %d decisions of learner %q", tool.broker.Topic(event.Rankings), plan.p,
			plan.strangers[name], name))
	}
	return lines
}

// committed returns the group's committed offsets by input topic, -1 for none.
func (tool *Tool) committed(ctx context.Context, p int32) ([]int64, error) {
	return broker.Retry(ctx, tool.broker.Partition(p).Committed)
}

// miss notes a part that cannot be rebuilt.
func (plan *rebuildPlan) miss(tool *Tool, t event.Topic, f *task.TopicFacts, format string, args ...any) {
	plan.missing = append(plan.missing, fmt.Sprintf("%s[%d] begins at offset %d: ", tool.broker.Topic(t), plan.p, f.LogStart)+
		fmt.Sprintf(format, args...))
}

// beginUndecided finds the beginning of a replay without decisions. Impressions that the
// group has read are not read again: they would be ranked again if their decisions are lost.
func (tool *Tool) beginUndecided(plan *rebuildPlan, d *task.Description, committed []int64) {
	latest := tool.cfg.Kafka.Start == config.Latest
	for t := range event.Topic(event.Inputs) {
		f, in := &d.Topics[t], &plan.meta.Inputs[t]
		switch {
		case t == event.Selections && !tool.machine.HasSelections:
		case committed[t] >= 0 && (t == event.Impressions || latest):
			in.Offset = min(max(committed[t], f.LogStart), f.End)
		case latest:
			in.Offset = f.End
		}
	}
	rankings := &d.Topics[event.Rankings]
	if c := committed[event.Impressions]; c > 0 && rankings.LogStart > 0 {
		plan.miss(tool, event.Rankings, rankings, "no decision of this group is left, which had read impressions up to offset %d: "+
			"whatever it had learned is gone, and the impressions before are not read again", c)
	}
}

// decision is a logged decision, with its steps if they are known.
type decision struct {
	offset  int64 // of the impression
	learner string
	steps   []partition.InputStep
}

// firstDecision returns the first decision; nil if there is none.
func (tool *Tool) firstDecision(ctx context.Context, p int32, d *task.Description) (first *decision, err error) {
	err = tool.decisions(ctx, p, d, func(r *decision) (goOn bool) {
		first = r
		return false
	})
	return first, err
}

// decisions calls f with this group's decisions by its own producers, in order, until f returns false. Fences leave abort
// markers before their producers' records. If the log lacks its beginning, markers may be gone, and every producer counts.
func (tool *Tool) decisions(ctx context.Context, p int32, d *task.Description, f func(*decision) (goOn bool)) error {
	dec := event.NewDecoder(event.Limits{})
	log := &d.Topics[event.Rankings]
	var owners task.Owners
	decided := false
	var order []partition.InputStep // of the first order record, if it precedes the first decision
	for rankings := tool.broker.Partition(p).Reader(event.Rankings, log.LogStart, log.End); ; {
		got, err := rankings.Next(ctx)
		switch {
		case errors.Is(err, io.EOF) && rankings.Offset() < log.End:
			return fmt.Errorf("%s[%d] has records after offset %d, but sends none", tool.broker.Topic(event.Rankings), p, rankings.Offset())
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for i := range got.Markers {
			owners.Mark(&got.Markers[i])
		}
		for i := range got.Records {
			var r event.Ranking
			o := &got.Origins[i]
			if log.LogStart == 0 && !owners.Wrote(o) {
				continue
			}
			if n, ok := partition.OrderNumber(&got.Records[i], tool.cfg.Kafka.Group, p); ok && n == 1 && !decided {
				if _, order, err = partition.ParseSteps(nil, o.Steps); err != nil {
					return err
				}
			}
			if dec.Ranking(&r, got.Records[i].Value) != nil || r.Decision.Group != tool.cfg.Kafka.Group {
				continue
			}
			one := &decision{offset: r.Decision.Offset, learner: string(r.Learner)}
			if o.Steps != nil {
				if _, one.steps, err = partition.ParseSteps(nil, o.Steps); err != nil {
					return err
				}
			}
			if decided = true; order != nil {
				one.steps, order = order, nil
			}
			if !f(one) {
				return nil
			}
		}
	}
}

// firstRecord returns the first record from an offset to a log's end; nil without one.
func (tool *Tool) firstRecord(ctx context.Context, p int32, topic event.Topic, from, end int64) (*partition.Record, error) {
	for r := tool.broker.Partition(p).Reader(topic, from, end); ; {
		got, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case len(got.Records) > 0:
			return &got.Records[0], nil
		}
	}
}

// findGaps compares the beginnings of the logs with the group's first decision. Earlier impressions
// were refused, or came before the group: they are not read, unless the group began with the log.
func (tool *Tool) findGaps(ctx context.Context, plan *rebuildPlan, d *task.Description, first *decision) error {
	if f := &d.Topics[event.Rankings]; f.LogStart > 0 {
		plan.miss(tool, event.Rankings, f, "decisions before that of the impression at offset %d are gone, and their outcomes "+
			"is not learned", first.offset)
	}
	in := &plan.meta.Inputs[event.Impressions]
	if in.Offset > first.offset {
		plan.miss(tool, event.Impressions, &d.Topics[event.Impressions], "up to %d decided impressions before it are gone, and their "+
			"payoffs are not learned", in.Offset-first.offset)
	} else if tool.cfg.Kafka.Start == config.Latest || d.Topics[event.Rankings].LogStart > 0 {
		in.Offset = first.offset
	}
	if d.Topics[event.Rankings].LogStart == 0 {
		plan.beginWith(first.steps)
	}
	since := int64(math.MinInt64)
	rec, err := tool.firstRecord(ctx, plan.p, event.Impressions, in.Offset, d.Topics[event.Impressions].End)
	if err != nil {
		return err
	}
	if rec != nil {
		since = rec.Timestamp - tool.machine.ParkingTime
	}
	for _, topic := range []event.Topic{event.Selections, event.Payoffs} {
		f := &d.Topics[topic]
		if topic == event.Selections && !tool.machine.HasSelections || f.LogStart == 0 {
			continue
		}
		rec, err := tool.firstRecord(ctx, plan.p, topic, f.LogStart, f.End)
		switch {
		case err != nil:
			return err
		case rec == nil:
			plan.miss(tool, topic, f, "all %d records before it are gone", f.LogStart)
		case rec.Timestamp > since:
			plan.miss(tool, topic, f, "records before %s are gone, and belonged to impressions from %s on",
				time.UnixMilli(rec.Timestamp).UTC().Format(time.RFC3339), time.UnixMilli(since).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// beginWith moves the beginning to that of the group's first owner, if it is recorded.
func (plan *rebuildPlan) beginWith(steps []partition.InputStep) {
	if len(steps) == 0 || steps[0].Kind != partition.StepRead {
		return
	}
	for t, offset := range steps[0].Offsets {
		plan.meta.Inputs[t].Offset = max(plan.meta.Inputs[t].Offset, offset)
	}
}

// rebuild stores the beginning, and replays.
func (tool *Tool) rebuild(ctx context.Context, plan *rebuildPlan) (RebuiltPartition, error) {
	one := RebuiltPartition{Partition: plan.p, Missing: slices.Concat(plan.missing, plan.unconfigured(tool))}
	if err := tool.store.Drop(ctx, plan.p, ""); err != nil { // also the rest of a state whose meta is gone
		return one, err
	}
	if _, err := tool.store.Acquire(ctx, plan.p, 0, true, &plan.meta); err != nil {
		return one, err
	}
	detail := "everything since the first decision"
	if len(one.Missing) > 0 {
		detail = "without: " + strings.Join(one.Missing, "; ")
	}
	err := tool.alter(ctx, plan.p, nil, func(*state.Meta, []state.Field) (*alteration, error) {
		return &alteration{history: History{Done: "rebuild", Detail: detail}}, nil
	})
	if err != nil {
		return one, err
	}
	d := driver{tool: tool, p: plan.p, anyProducer: plan.partialRankings, orderUnknown: len(plan.missing) > 0}
	d.elsewhere = func(key []byte) int32 { return state.PartitionOf(key, plan.meta.Partitions) }
	var misplaced int64
	one.Adopted, err = d.runTask(ctx, func(s *task.Status) (bool, error) {
		misplaced = s.Account.Misplaced[event.Impressions]
		tool.say("partition %d: %s, %d impressions read, %d left", plan.p, s.Phase, s.Account.Read[event.Impressions],
			s.Lag[event.Impressions])
		return s.Phase == task.Running, nil
	})
	if err != nil {
		return one, fmt.Errorf("%w; the state rebuilt so far is stored, and a worker continues from there", err)
	}
	if misplaced > 0 {
		one.Missing = append(one.Missing, fmt.Sprintf("%d impressions of %s[%d] belong to other partitions by Kafka's default "+
			"partitioner: if partitions were added, their later records are there, and are not joined",
			misplaced, tool.broker.Topic(event.Impressions), plan.p))
	}
	v, err := tool.look(ctx, plan.p)
	if err != nil {
		return one, err
	}
	one.Account = v.machine.Counts()
	return one, nil
}
