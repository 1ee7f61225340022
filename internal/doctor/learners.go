package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type kept struct {
	partitions map[string][]int32 // by fingerprint
	pending    int64
}

// learners compares the file's learners with the stored ones, like a worker that takes a partition over.
func (d *doctor) learners(ctx context.Context) {
	const area = "state"
	if len(d.servers) == 0 {
		return // no store to ask
	}
	n, looked := d.topic[event.Impressions].Partitions, 0
	stored, experiments, before := map[string]*kept{}, d.experiments(), len(d.found)
	for p := int32(0); p == 0 || int(p) < n; p++ {
		m, lines, refusal, err := d.table(ctx, p, experiments)
		switch {
		case errors.Is(err, state.ErrNoState):
			if lost := d.lost(ctx, p); lost != nil && len(d.found) == before { // others say the same
				d.add(Fault, area, "partition %d: %v", p, lost)
			}
			continue
		case errors.Is(err, state.ErrForbidden):
			d.add(Warning, area, "the stored state cannot be read: %v; ACL SETUSER %s +hgetall +multi +exec", err, d.cfg.Redis.Username)
			return
		case err != nil:
			d.add(Fault, area, "partition %d: %v", p, err)
			return
		}
		looked++
		if refusal != nil && len(d.found) == before { // others say the same
			d.add(Fault, area, "partition %d: %v, or set its arms, shares and control back: workers stay outside of the group", p, refusal)
		}
		n = max(n, m.Partitions)
		for _, l := range lines {
			of := stored[l.Name]
			if of == nil {
				of = &kept{partitions: map[string][]int32{}}
				stored[l.Name] = of
			}
			of.partitions[l.Fingerprint] = append(of.partitions[l.Fingerprint], p)
			of.pending += l.Pending
		}
	}
	if looked == 0 {
		if len(d.found) > before {
			return
		}
		d.add(OK, area, "nothing is stored for group %s yet", d.cfg.Kafka.Group)
		return
	}
	d.compare(stored)
	if len(d.found) == before {
		d.add(OK, area, "stored: %s, with the learners of this file", plural.N(looked, "partition"))
	}
}

// lost returns the loss of a partition's state, as state commands do; nil if there is none, or Kafka is not reached.
func (d *doctor) lost(ctx context.Context, p int32) error {
	if !d.reached {
		return nil
	}
	offsets, err := d.broker.Partition(p).Committed(ctx)
	if err != nil {
		return nil // step group asks the coordinator, too
	}
	return admin.Lost(d.broker, p, offsets)
}

// table reads a partition's learners, and why it would refuse the experiments.
func (d *doctor) table(ctx context.Context, p int32, experiments []partition.ExperimentConfig) (m state.Meta, lines []partition.StoredLearner, refusal, err error) {
	var fields []state.Field
	err = state.Patiently(ctx, func() (err error) {
		m, fields, err = d.store.View(ctx, p, []string{partition.ExperimentsHash})
		return err
	})
	if err == nil {
		err = task.CheckLayout(&m)
	}
	if err == nil {
		lines, err = partition.StoredLearners(fields)
	}
	if err == nil {
		refusal, err = partition.Unfit(nil, experiments, fields)
	}
	return m, lines, refusal, err
}

// experiments returns the parts of the file's experiments that the stored state knows.
func (d *doctor) experiments() (all []partition.ExperimentConfig) {
	for i := range d.cfg.Experiments {
		x := &d.cfg.Experiments[i]
		if of, err := learners.Experiment(d.cfg, x); err == nil { // always, in a loaded configuration
			all = append(all, partition.ExperimentConfig{Experiment: of, Definition: learners.Definition(d.cfg, x)})
		}
	}
	return all
}

// compare compares each learner's stored settings with the configured ones.
func (d *doctor) compare(stored map[string]*kept) {
	const area = "state"
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		of, own := stored[name], d.machine[name]
		if own == "" {
			if of.pending > 0 {
				d.add(Warning, area, "learner %s is stored and not in this file, and has %s: started with this file, "+
					"workers let these expire without learning, and impressions that name it are dead letters; if it was renamed, the new name begins without "+
					"state: name it %s again, or keep it until payoff_horizon has passed (docs/do/roll-out-a-configuration.md)", name, plural.N(of.pending, "pending impression"), name)
			} else {
				d.add(OK, area, "learner %s is stored and not in this file; its state is kept", name)
			}
			continue
		}
		for _, fingerprint := range slices.Sorted(maps.Keys(of.partitions)) {
			if fingerprint == own || fingerprint == "" {
				continue
			}
			d.add(Fault, area, "learner %s is stored as %s on partitions %s, and is %s in this file: workers stay outside of the group. Set back "+
				"the settings in which these two differ, or give it another name; to reset it, stop the workers and give `ranker-worker state reset "+
				"--config F --learner %s --yes`", name, fingerprint, spans(of.partitions[fingerprint]), own, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.machine)) {
		if stored[name] == nil {
			d.add(OK, area, "learner %s is in this file and not stored yet: it begins without state", name)
		}
	}
}

// spans writes rising numbers as ranges: 0-3, 7.
func spans(numbers []int32) (text string) {
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprint(numbers[i])
		if last > i {
			text += fmt.Sprintf("-%d", numbers[last])
		}
		i = last + 1
	}
	return text
}
