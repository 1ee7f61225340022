package keep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ErrRecreated says that the topics are not the ones that the state was made from.
var ErrRecreated = errors.New("the topics are not those that the state was made from: if they were made anew, and all that " +
	"the old ones held had been read, add --recreated")

// ReshardQuery says how to reshard.
type ReshardQuery struct {
	Recreated bool // the topics were made anew: read them from their beginning
	Yes       bool
}

// ReshardReport is what Reshard did, or would do.
type ReshardReport struct {
	From    int   `json:"from"` // partitions
	To      int   `json:"to"`
	Done    bool  `json:"done"`
	Resumed bool  `json:"resumed"` // an earlier try had put the new state together already
	Entries int64 `json:"entries"` // pending impressions, tombstones and ids with parked records that were carried over
}

// stagingSuffix makes the group under whose name the new state is put together. Its keys begin as the group's own do.
const stagingSuffix = ":new"

// Reshard folds the state of the old partitions into new ones, after the topics' partition count was changed.
//
// The old partitions first read what they have not read yet, as workers would. Then a new state is put together beside
// the old one, which stays as it is; when it is complete it is moved into the old one's place, partition by partition.
// A command that was cut off does that again, from the beginning or, when the new state is complete, from there.
func (k *Keeper) Reshard(ctx context.Context, q ReshardQuery) (*ReshardReport, error) {
	if err := k.stopped(ctx); err != nil {
		return nil, err
	}
	to, err := k.topicPartitions(ctx)
	if err != nil {
		return nil, err
	}
	staging, err := k.stagingKeeper()
	if err != nil {
		return nil, err
	}
	defer staging.store.Close()
	detail, err := staging.complete(ctx, to)
	if err != nil {
		return nil, err
	}
	r := &ReshardReport{To: to, From: to, Resumed: detail != ""}
	if detail == "" {
		var stored bool
		if r.From, stored, err = k.partitions(ctx); err != nil {
			return nil, err
		}
		if !stored {
			return nil, fmt.Errorf("%w (%q)", ErrNothing, k.cfg.Kafka.Group)
		}
		if r.From == to {
			return r, nil
		}
	}
	if !q.Yes {
		return r, ErrConfirm
	}
	if detail == "" {
		f := fold{k: k, staging: staging, from: r.From, to: to, recreated: q.Recreated,
			detail: fmt.Sprintf("from %d to %d partitions, begun %s", r.From, to, k.now().UTC().Format(time.RFC3339Nano))}
		if err := f.run(ctx); err != nil {
			return r, err
		}
		detail = f.detail
		r.Entries = f.entries
	}
	if err := k.move(ctx, staging, r, detail); err != nil {
		return r, err
	}
	r.Done = true
	return r, nil
}

// stagingKeeper keeps the state that is being put together.
func (k *Keeper) stagingKeeper() (*Keeper, error) {
	cfg := *k.cfg
	cfg.Kafka.Group += stagingSuffix
	s, err := app.NewStore(&cfg)
	if err != nil {
		return nil, err
	}
	staging := *k
	staging.cfg, staging.store = &cfg, s
	return &staging, nil
}

// complete is the detail of the history of a new state that is complete; empty where there is none, or only a part.
func (k *Keeper) complete(ctx context.Context, partitions int) (detail string, err error) {
	for p := range int32(partitions) {
		v, err := k.look(ctx, p)
		if errors.Is(err, state.ErrNoState) || err == nil && (v.meta.Layout != task.Layout || v.meta.Partitions != partitions) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if detail, err = lastReshard(v.fields); err != nil || detail == "" {
			return "", err
		}
	}
	return detail, nil
}

// catchUp lets an old partition read what it has not read, up to where the inputs end now: its records were written when
// the old count counted.
func (k *Keeper) catchUp(ctx context.Context, p int32, partitions int) error {
	m, _, err := k.store.View(ctx, p, nil)
	if err != nil {
		return err
	}
	facts, err := k.describe(ctx, p)
	if err != nil {
		return err
	}
	d := driver{k: k, p: p, generation: m.Generation, describe: func(d *task.Description) {
		for t := range d.Topics {
			if f := &d.Topics[t]; f.Partitions > 0 {
				f.Partitions = partitions
			}
		}
	}}
	_, err = d.drive(ctx, func(s *task.Status) (bool, error) {
		k.say("partition %d: %s, reading what is left: %d impressions, %d payoffs", p, s.Phase, s.Lag[event.Impressions],
			s.Lag[event.Payoffs])
		if s.Phase != task.Running {
			return false, nil
		}
		now, _, err := k.store.View(ctx, p, nil)
		if err != nil {
			return false, nil // the task says what is wrong, if it stays
		}
		for t := range now.Inputs {
			if used := t != int(event.Selections) || k.machine.HasSelections; used && now.Inputs[t].Offset < facts.Topics[t].End {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}

// move puts the new state in the place of the old one.
func (k *Keeper) move(ctx context.Context, staging *Keeper, r *ReshardReport, detail string) error {
	var left []int32
	for p := range int32(r.To) {
		m, fields, err := k.store.View(ctx, p, nil)
		if err == nil && m.Layout == task.Layout && m.Partitions == r.To {
			if done, err := lastReshard(fields); err == nil && done == detail {
				continue // moved by an earlier try: a worker may have gone on from there
			}
		}
		if err := k.shut(ctx, staging, p); err != nil {
			return fmt.Errorf("shutting partition %d: %w", p, err)
		}
		left = append(left, p)
	}
	for _, p := range left {
		if err := k.copyPartition(ctx, staging, p); err != nil {
			return fmt.Errorf("moving partition %d into its place: %w", p, err)
		}
		k.say("partition %d of %d is in its place", p, r.To)
	}
	for p := int32(r.To); ; p++ { // beyond From: a try that was cut off may have left some
		if _, err := k.store.Probe(ctx, p); errors.Is(err, state.ErrNoState) && p >= int32(r.From) {
			break
		}
		if err := k.store.Drop(ctx, p, ""); err != nil {
			return err
		}
	}
	for p := range int32(r.To) {
		if err := staging.store.Drop(ctx, p, ""); err != nil {
			return err
		}
	}
	return nil
}

// lookAtOnce bounds the ids that are looked up at once.
const lookAtOnce = 2000

// entries calls f with every id of a partition and what is stored under it.
func (k *Keeper) entries(ctx context.Context, p int32, f func(id, value []byte) error) error {
	for cursor := uint64(0); ; {
		ids, next, err := k.store.KnownIDs(ctx, p, cursor)
		if err != nil {
			return err
		}
		for len(ids) > 0 {
			n := min(len(ids), lookAtOnce)
			_, values, err := k.store.LookUp(ctx, p, ids[:n])
			if err != nil {
				return err
			}
			for i, value := range values {
				if value != nil {
					if err := f(ids[i], value); err != nil {
						return err
					}
				}
			}
			ids = ids[n:]
		}
		if cursor = next; next == 0 {
			return nil
		}
	}
}
