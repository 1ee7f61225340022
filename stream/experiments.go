package stream

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// experimentCounters count experiments' impressions, since each machine's load.
type experimentCounters struct {
	arms, outside *prometheus.CounterVec
	seen          map[armKey]int64
}

// armKey identifies a count of a partition's experiment. The arm "" counts impressions outside of it.
type armKey struct {
	partition       int32
	experiment, arm string
	fallback        bool
}

func newExperimentCounters(f factory) experimentCounters {
	return experimentCounters{
		arms: f.counters("arm_impressions_total", "Ranked impressions of an experiment, by their arm; fallback is true "+
			"where another one has ranked them, because a guard has tripped.", "experiment", "arm", "fallback"),
		outside: f.counters("experiment_outside_total", "Impressions that the control ranked outside of the experiment, since they named no user.", "experiment"),
		seen:    map[armKey]int64{},
	}
}

// observe counts the increase since the last call.
func (c *experimentCounters) observe(p int32, all []partition.ExperimentStatus) {
	add := func(k armKey, now int64, counter prometheus.Counter) {
		counter.Add(float64(increase(c.seen[k], now)))
		c.seen[k] = now
	}
	for i := range all {
		x := &all[i]
		add(armKey{p, x.Name, "", false}, x.Outside, c.outside.WithLabelValues(x.Name))
		for k := range x.Arms {
			a := &x.Arms[k]
			add(armKey{p, x.Name, a.Name, false}, a.Ranked, c.arms.WithLabelValues(x.Name, a.Name, "false"))
			if a.Tripped || a.Fallback > 0 {
				add(armKey{p, x.Name, a.Name, true}, a.Fallback, c.arms.WithLabelValues(x.Name, a.Name, "true"))
			}
		}
	}
}

// experimentSnapshot is an experiment's status in one partition.
type experimentSnapshot struct {
	*partition.ExperimentStatus
	of *partitionSnapshot
}

// outOfService are the arms whose removal by a guard was logged.
type outOfService map[outArm]bool

type outArm struct {
	experiment, arm string
	run             int32
}

// look logs each arm out of service once.
func (o outOfService) look(log *slog.Logger, all map[int32]task.Status) {
	for _, p := range slices.Sorted(maps.Keys(all)) {
		for _, x := range all[p].Experiments {
			for i := range x.Arms {
				a := &x.Arms[i]
				of := outArm{x.Name, a.Name, x.Run}
				if !a.Tripped || o[of] {
					continue
				}
				o[of] = true
				log.Warn("an arm of an experiment is out of service: it was worse than the control by more than its guard allows", "experiment", x.Name,
					"run", x.Run, "arm", a.Name, "units", a.Lift.Units, "lower", a.Lift.Lower, "upper", a.Lift.Upper)
			}
		}
	}
}
