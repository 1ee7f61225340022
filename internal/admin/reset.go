package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type ResetReport struct {
	Learner    string           `json:"learner"`
	Done       bool             `json:"done"` // false: nothing was changed
	Partitions []ResetPartition `json:"partitions"`
}

type ResetPartition struct {
	Partition int32  `json:"partition"`
	Items     int    `json:"items"`   // lost
	Payoffs   int64  `json:"payoffs"` // likewise
	Was       string `json:"was"`     // the name under which its pending impressions end
}

// Reset resets a learner, configured or not, in all partitions. Pending impressions are treated like a removed
// learner's: they expire, and their selections and payoffs are dead letters. Decisions of a killed worker after its
// last checkpoint are adopted by the new learner. Without yes it only reports the loss, and fails with ErrConfirm.
func (tool *Tool) Reset(ctx context.Context, learner string, yes bool) (*ResetReport, error) {
	r := &ResetReport{Learner: learner, Done: yes}
	err := tool.resetEach(ctx, strconv.Quote(learner), yes, func(p int32) error {
		one, err := tool.resetPartition(ctx, p, learner, yes)
		if err == nil {
			r.Partitions = append(r.Partitions, one)
		}
		return err
	})
	return r, err
}

// resetEach resets each partition that stores something of the learner
// or experiment. It fails if none does, and without yes with ErrConfirm.
func (tool *Tool) resetEach(ctx context.Context, what string, yes bool, reset func(p int32) error) error {
	if yes {
		if err := tool.stopped(ctx); err != nil {
			return err
		}
	}
	stored := false
	err := tool.everyPartition(ctx, func(p int32) error {
		err := reset(p)
		if errors.Is(err, partition.ErrNotStored) {
			return nil
		}
		stored = stored || err == nil
		return err
	})
	switch {
	case err != nil:
		return err
	case !stored:
		return fmt.Errorf("%w: %s", partition.ErrNotStored, what)
	case !yes:
		return ErrConfirm
	}
	return nil
}

// alterOr alters a partition or, without yes, only computes the change.
func (tool *Tool) alterOr(ctx context.Context, p int32, hashes []string, yes bool, change func(*state.Meta, []state.Field) (*alteration, error)) error {
	if yes {
		return tool.alter(ctx, p, hashes, change)
	}
	m, fields, err := tool.store.View(ctx, p, hashes)
	if err == nil {
		_, err = change(&m, fields)
	}
	return err
}

type ResetExperimentReport struct {
	Experiment string                     `json:"experiment"`
	Done       bool                       `json:"done"` // false: nothing was changed
	Partitions []ResetExperimentPartition `json:"partitions"`
}

type ResetExperimentPartition struct {
	Partition    int32    `json:"partition"`
	Fields       int      `json:"fields"`         // stored fields that are lost
	OutOfService []string `json:"out_of_service"` // arms that rank again
}

// ResetExperiment resets an experiment, configured or not, in all partitions: its counts are
// zero, and all arms in service. Without yes it only reports the loss, and fails with ErrConfirm.
func (tool *Tool) ResetExperiment(ctx context.Context, name string, yes bool) (*ResetExperimentReport, error) {
	r := &ResetExperimentReport{Experiment: name, Done: yes}
	err := tool.resetEach(ctx, "experiment "+strconv.Quote(name), yes, func(p int32) error {
		one := ResetExperimentPartition{Partition: p}
		change := func(_ *state.Meta, fields []state.Field) (*alteration, error) {
			changes, arms, err := partition.ResetExperiment(fields, name)
			if err != nil {
				return nil, err
			}
			one.Fields, one.OutOfService = len(changes.Writes), append([]string{}, arms...)
			return &alteration{changes: changes, history: History{Done: "reset_experiment", Detail: name}}, nil
		}
		err := tool.alterOr(ctx, p, []string{partition.ExperimentsHash}, yes, change)
		if err == nil {
			r.Partitions = append(r.Partitions, one)
		}
		return err
	})
	return r, err
}

func (tool *Tool) resetPartition(ctx context.Context, p int32, learner string, yes bool) (ResetPartition, error) {
	items := []string{learner + ":" + partition.ItemsHash, learner + ":" + partition.NamesHash}
	one := ResetPartition{Partition: p}
	change := func(_ *state.Meta, fields []state.Field) (*alteration, error) {
		changes, drop, was, err := partition.ResetLearner(fields, learner)
		if err != nil {
			return nil, err
		}
		one.Was = was
		rows, _ := partition.Rows(learner, fields) // unreadable rows are lost unread
		one.Items, one.Payoffs = len(rows), 0
		for _, row := range rows {
			if _, s, err := partition.ParseItem(row.Value); err == nil {
				one.Payoffs += s.N
			}
		}
		return &alteration{changes: changes, drop: drop, history: History{Done: "reset", Learner: learner, Was: was}}, nil
	}
	err := tool.alterOr(ctx, p, items, yes, change)
	return one, err
}
