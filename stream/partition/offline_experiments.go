package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// ResetExperiment returns the deletions that reset an experiment, and its arms out of service by the stored verdicts. Units that began
// earlier are not counted. It fails with ErrNotStored.
func ResetExperiment(fields []state.Field, name string) (changes state.Changes, outOfService []string, err error) {
	for _, f := range fields {
		rest, ok := strings.CutPrefix(string(f.Field), name+":")
		if f.Hash != ExperimentsHash || !ok {
			continue
		}
		changes.Writes = append(changes.Writes, state.Write{Hash: ExperimentsHash, Field: f.Field, Publish: true})
		if arm, of := strings.CutPrefix(":"+rest, verdictField); of {
			outOfService = append(outOfService, arm)
		}
	}
	if len(changes.Writes) == 0 {
		return changes, nil, fmt.Errorf("%w: experiment %q", ErrNotStored, name)
	}
	slices.Sort(outOfService)
	return changes, outOfService, nil
}

// ExperimentView is an experiment's state in this partition.
type ExperimentView struct {
	ExperimentStatus
	Of     *experiment.Experiment
	Own    experiment.Totals // summed over partitions: by user the deciding one has all, others zeros
	Counts bool              // false: a later run than the configured one has begun
}

// Experiments returns the configured experiments.
func (o *Offline) Experiments() []ExperimentView {
	var all []ExperimentView
	for i, s := range o.Machine.Experiments() {
		x := o.trials.all[i]
		own := slices.Clone(x.sums.totals)
		if x.ByUser && o.cfg.Partition != deciding {
			clear(own)
		}
		all = append(all, ExperimentView{s, x.Experiment, own, !x.sums.idle})
	}
	return all
}

// Experiments carries over totals of ended units, and verdicts; of unconfigured experiments runs and verdicts. Pending units are withdrawn:
// a cohort is divided among the receivers, and their shares of its counts are not known.
func (t *Transfer) Experiments() {
	strays := &t.to.trials.strays
	strays.Writes = append(strays.Writes, t.from.trials.left.Writes...)
	for _, from := range t.from.trials.all {
		x := t.to.trials.byName[from.Name]
		if x == nil || x.sums.idle || from.sums.idle {
			continue
		}
		x.sums.since, x.changed = max(x.sums.since, t.from.time.watermark+1), true
		for k := range from.arms {
			if v := from.arms[k].verdict; v.tripped {
				x.arms[k].verdict.take(&v)
			}
		}
		switch {
		case !t.share.Additive:
		case x.ByUser:
			x.sums.takeFolded(from.sums.folded, slices.Clone(from.sums.totals))
		default:
			x.sums.totals.Add(from.sums.totals)
			x.sums.mark(totalsField, 0, 0)
		}
	}
}
