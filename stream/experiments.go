package stream

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/event"
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

type ExperimentSnapshot struct {
	partition.ExperimentStatus
	Lag float64 // seconds from the last counted deadline to Taken; -1: none is counted yet
}

func experimentSnapshots(all []partition.ExperimentStatus, now event.Millis) []ExperimentSnapshot {
	var snaps []ExperimentSnapshot
	for _, x := range all {
		s := ExperimentSnapshot{ExperimentStatus: x, Lag: -1}
		if x.Walked > 0 {
			s.Lag = max(0, float64(now-x.Walked)/1000)
		}
		snaps = append(snaps, s)
	}
	return snaps
}

var (
	descLift = gaugeDesc("lift", "Lift of an arm over the control, in payoff ranges: the estimate, and bounds that hold at any look. "+
		"Of the worker that has partition 0.", "experiment", "arm", "bound")
	descLiftUnits = gaugeDesc("lift_units", "Units of an arm that are counted: their deadline has passed. Of the worker that has partition 0.",
		"experiment", "arm")
	descLiftLag = gaugeDesc("lift_lag_seconds", "How long ago the deadline of the last unit was that is counted. Of the worker that has partition 0.",
		"experiment")
	descTripped = gaugeDesc("guard_tripped", "1 while an arm is out of service, since it was worse than the control by more than its guard allows.",
		"experiment", "arm")
)

// collectExperiments sets the experiments' gauges. Each worker reports whether an
// arm is out of service; only the owner of the deciding partition reports lifts.
func collectExperiments(gauge func(d *prometheus.Desc, v float64, labels ...string), all map[int32]*PartitionSnapshot) {
	type key struct{ experiment, arm string }
	tripped := map[key]float64{}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		for i := range all[p].Experiments {
			x := &all[p].Experiments[i]
			for k := range x.Arms {
				of := key{x.Name, x.Arms[k].Name}
				tripped[of] = max(tripped[of], oneIf(x.Arms[k].Tripped))
			}
			if x.Decides {
				x.collect(gauge, all[p].Taken)
			}
		}
	}
	for of, v := range tripped {
		gauge(descTripped, v, of.experiment, of.arm)
	}
}

func (x *ExperimentSnapshot) collect(gauge func(d *prometheus.Desc, v float64, labels ...string), taken time.Time) {
	if x.Lag >= 0 {
		gauge(descLiftLag, x.Lag+max(0, time.Since(taken).Seconds()), x.Name)
	}
	for k := range x.Arms {
		a := &x.Arms[k]
		gauge(descLiftUnits, float64(a.Units), x.Name, a.Name)
		if a.Name == x.Control {
			continue
		}
		gauge(descLift, a.Lift.Lower, x.Name, a.Name, "lower")
		gauge(descLift, a.Lift.Estimate, x.Name, a.Name, "estimate")
		gauge(descLift, a.Lift.Upper, x.Name, a.Name, "upper")
	}
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
