package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
	stored := map[string]*kept{}
	for p := int32(0); p == 0 || int(p) < n; p++ {
		m, lines, err := d.table(ctx, p)
		switch {
		case errors.Is(err, state.ErrNoState):
			continue
		case errors.Is(err, state.ErrForbidden):
			d.add(Warning, area, "what is stored cannot be looked at: %v; ACL SETUSER %s +hgetall +multi +exec", err, d.cfg.Redis.Username)
			return
		case err != nil:
			d.add(Fault, area, "partition %d: %v", p, err)
			return
		}
		looked++
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
		d.add(OK, area, "nothing is stored for group %s yet", d.cfg.Kafka.Group)
		return
	}
	before := len(d.found)
	d.compare(stored)
	if len(d.found) == before {
		d.add(OK, area, "%d partitions are stored, and their learners are those of this file", looked)
	}
}

// table reads a partition's learners, again if a checkpoint is being written.
func (d *doctor) table(ctx context.Context, p int32) (state.Meta, []partition.StoredLearner, error) {
	const pause, tries = 20 * time.Millisecond, 50
	for try := 0; ; try++ {
		m, fields, err := d.store.View(ctx, p, nil)
		if errors.Is(err, state.ErrIncomplete) && try < tries {
			select {
			case <-ctx.Done():
				return m, nil, ctx.Err()
			case <-time.After(pause):
			}
			continue
		}
		if err == nil {
			err = task.CheckLayout(&m)
		}
		if err != nil {
			return m, nil, err
		}
		lines, err := partition.StoredLearners(fields)
		return m, lines, err
	}
}

// compare compares each learner's stored settings with the configured ones.
func (d *doctor) compare(stored map[string]*kept) {
	const area = "state"
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		of, own := stored[name], d.machine[name]
		if own == "" {
			if of.pending > 0 {
				d.add(Warning, area, "learner %s is stored and not in this file, and %d impressions of it wait for what comes of them: started with this file, "+
					"workers let them expire unlearned, and impressions that name it are dead letters; if it was only given another name, that one begins with "+
					"nothing: name it %s again, or keep it until payoff_horizon has passed (docs/operations.md, Rolling a configuration)", name, of.pending, name)
			} else {
				d.add(OK, area, "learner %s is stored and not in this file; what it has learned stays, should it come back", name)
			}
			continue
		}
		for _, fingerprint := range slices.Sorted(maps.Keys(of.partitions)) {
			if fingerprint == own || fingerprint == "" {
				continue
			}
			d.add(Fault, area, "learner %s has learned as %s on partitions %s, and is %s in this file: workers stop these partitions (learner). Set payoffs, "+
				"payoff_range, aggregate and delay back, or give it another name; to let it begin anew, stop the workers and give `ranker-worker state reset "+
				"--config F --learner %s --yes`", name, fingerprint, spans(of.partitions[fingerprint]), own, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.machine)) {
		if stored[name] == nil {
			d.add(OK, area, "learner %s is in this file and not stored yet: it begins with nothing", name)
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
