package statetool

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// ResetReport is what Reset did, or would do.
type ResetReport struct {
	Learner    string           `json:"learner"`
	Done       bool             `json:"done"` // false: it was only looked at
	Partitions []ResetPartition `json:"partitions"`
}

// ResetPartition is one partition's part.
type ResetPartition struct {
	Partition int32  `json:"partition"`
	Items     int    `json:"items"`   // given up
	Payoffs   int64  `json:"payoffs"` // likewise
	Was       string `json:"was"`     // the name under which its pending impressions end
}

// Reset makes a learner, configured or not, begin anew in all partitions. Impressions that are pending, and whatever
// comes for them, are treated as a removed learner's: they expire, and their selections and payoffs are dead letters.
// Decisions that were made after the last checkpoint of a worker that was killed are adopted by the new learner.
// Without yes it only tells what would be given up, and fails with ErrConfirm.
func (tool *Tool) Reset(ctx context.Context, learner string, yes bool) (*ResetReport, error) {
	r := &ResetReport{Learner: learner, Done: yes}
	if yes {
		if err := tool.stopped(ctx); err != nil {
			return nil, err
		}
	}
	err := tool.everyPartition(ctx, func(p int32) error {
		one, err := tool.resetPartition(ctx, p, learner, yes)
		if errors.Is(err, partition.ErrNotStored) {
			return nil
		}
		if err == nil {
			r.Partitions = append(r.Partitions, one)
		}
		return err
	})
	switch {
	case err != nil:
		return r, err
	case len(r.Partitions) == 0:
		return r, fmt.Errorf("%w: %q", partition.ErrNotStored, learner)
	case !yes:
		return r, ErrConfirm
	}
	return r, nil
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
		rows, _ := partition.Rows(learner, fields) // what cannot be read is given up unread
		one.Items, one.Payoffs = len(rows), 0
		for _, row := range rows {
			if _, s, err := partition.ParseItem(row.Value); err == nil {
				one.Payoffs += s.N
			}
		}
		return &alteration{changes: changes, drop: drop, history: History{Done: "reset", Learner: learner, Was: was}}, nil
	}
	if yes {
		return one, tool.alter(ctx, p, items, change)
	}
	m, fields, err := tool.store.View(ctx, p, items)
	if err == nil {
		_, err = change(&m, fields)
	}
	return one, err
}
