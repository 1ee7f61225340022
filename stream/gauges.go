package stream

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// set exports a value. Its labels follow those of the object in the metric's description.
type set func(v float64, labels ...string)

// metric is a metric of all objects of one kind, such as learners, with its values from one of them.
type metric[T any] struct {
	desc *prometheus.Desc
	of   func(of T, set set)
}

func describe[T any](ch chan<- *prometheus.Desc, table []metric[T]) {
	for _, m := range table {
		ch <- m.desc
	}
}

// collect exports a table's metrics of one object, whose labels come first.
func collect[T any](ch chan<- prometheus.Metric, kind prometheus.ValueType, table []metric[T], of T, labels ...string) {
	for _, m := range table {
		m.of(of, func(v float64, own ...string) {
			ch <- prometheus.MustNewConstMetric(m.desc, kind, v, slices.Concat(labels, own)...)
		})
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var workerGauges = []metric[*totals]{
	{desc("pending_impressions", "Impressions that wait for a selection or payoff."),
		func(t *totals, set set) { set(float64(t.pending)) }},
	{desc("parked_records", "Selections and payoffs that wait for their impression.", "topic"),
		func(t *totals, set set) {
			set(float64(t.parked[event.Selections]), topicLabels[event.Selections])
			set(float64(t.parked[event.Payoffs]), topicLabels[event.Payoffs])
		}},
	{desc("parked_bytes", "Bytes of parked records."),
		func(t *totals, set set) { set(float64(t.parkedBytes)) }},
	{desc("unsaved_bytes", "Bytes of changes not yet checkpointed."),
		func(t *totals, set set) { set(float64(t.unsaved)) }},
	{desc("backpressured_partitions", "Partitions that do not read until the store has caught up."),
		func(t *totals, set set) { set(float64(t.full)) }},
	{desc("waiting_partitions", "Owned partitions that something fails for and is tried again."),
		func(t *totals, set set) { set(float64(t.waiting)) }},
	{desc("partitions", "Owned partitions by phase.", "phase"),
		func(t *totals, set set) {
			for phase, n := range t.phases {
				set(float64(n), task.Phase(phase).String())
			}
		}},
	{desc("stopped_partitions", "Owned partitions that stopped because a check failed.", "reason"),
		func(t *totals, set set) {
			for reason, n := range t.stopped {
				set(float64(n), string(reason))
			}
		}},
	{desc("guard_tripped", "1 while an arm is out of service, since it was worse than the control by more than its guard allows.", "experiment", "arm"),
		func(t *totals, set set) {
			for of, tripped := range t.tripped {
				set(oneIf(tripped), of[0], of[1])
			}
		}},
}

var partitionGauges = []metric[*partitionSnapshot]{
	{desc("lag", "Input records not yet read.", "partition", "topic"),
		func(p *partitionSnapshot, set set) {
			for topic, lag := range p.Lag {
				set(float64(lag), topicLabels[topic])
			}
		}},
	{desc("next_offset", "Offset of the next input record to read.", "partition", "topic"),
		func(p *partitionSnapshot, set set) {
			for topic, offset := range p.Next {
				set(float64(offset), topicLabels[topic])
			}
		}},
	{desc("first_offset", "Offset of the oldest input record that retention has left.", "partition", "topic"),
		func(p *partitionSnapshot, set set) {
			for topic, offset := range p.First {
				set(float64(offset), topicLabels[topic])
			}
		}},
	{desc("watermark_lag_seconds", "How far event time, as read from all input topics, is behind the clock.", "partition"),
		func(p *partitionSnapshot, set set) {
			if p.Watermark > 0 { // a hung loop falls behind, and must be visible
				set(p.behind(p.Watermark))
			}
		}},
	{desc("expiry_lag_seconds", "How far the expiry walk is behind event time.", "partition"),
		func(p *partitionSnapshot, set set) {
			if p.Watermark > 0 {
				set(float64(p.WalkLag) / 1000)
			}
		}},
	{desc("clock_offset_seconds", "By how much this machine's clock is ahead of that of Kafka's brokers.", "partition"),
		func(p *partitionSnapshot, set set) {
			if p.ClockKnown {
				set(p.ClockOffset.Seconds())
			}
		}},
}

var learnerInPartitionGauges = []metric[*partition.LearnerStatus]{
	{desc("on_hold", "1 while QPM-D waits for a payoff of one item.", "learner", "partition"),
		func(l *partition.LearnerStatus, set set) { set(oneIf(l.OnHold)) }},
	{desc("learned_payoffs", "Payoffs that a learner's decisions use, those of other partitions included if pooled.", "learner", "partition"),
		func(l *partition.LearnerStatus, set set) { set(float64(l.Fed)) }},
	{desc("undecided_pairs", "Pairs of items whose order of utilities a partition has not found yet.", "learner", "partition"),
		func(l *partition.LearnerStatus, set set) {
			if l.FindsUtilities {
				set(float64(l.UndecidedPairs))
			}
		}},
}

// learnerGauges are of a learner in all partitions of a worker.
var learnerGauges = []metric[*partition.LearnerStatus]{
	{desc("queued_payoffs", "Payoffs that wait in QPM-D's queues.", "learner"),
		func(l *partition.LearnerStatus, set set) { set(float64(l.Queued)) }},
	{desc("in_flight_selections", "Selections whose payoff is awaited.", "learner"),
		func(l *partition.LearnerStatus, set set) { set(float64(l.Flights)) }},
	{desc("items", "Items that a learner has met, summed over partitions.", "learner"),
		func(l *partition.LearnerStatus, set set) { set(float64(l.Items)) }},
	{desc("in_flight_weight", "Weight of selections in flight, in selections that were never paid.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Silence.Law != delay.SilenceWaits {
				set(l.Silence.Weight)
			}
		}},
	{desc("in_flight_payoffs", "Payoffs with which the weight of selections in flight counts: assumed and partial ones"+inRanges+".", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Silence.Law != delay.SilenceWaits {
				set(l.Silence.Payoffs)
			}
		}},
	{desc("paid_share", "Estimated share of selections that are paid.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Silence.Seen {
				set(l.Silence.Share)
			}
		}},
	{desc("payoff_delay_seconds", "Delay within which a share of the payoffs has come.", "learner", "quantile"),
		func(l *partition.LearnerStatus, set set) {
			if l.Silence.Seen {
				set(float64(l.Silence.Median)/1000, "0.5")
				set(float64(l.Silence.P90)/1000, "0.9")
			}
		}},
	{desc("drop_informative",
		"With on_expiry: drop, by how much the share of selections that are paid differs between items, in standard deviations.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Drops.Items > 0 {
				set(l.Drops.Informative())
			}
		}},
	{desc("payoff_range_used", "Which part of the configured payoff range payoffs have spanned, once there were 1,000.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if share, ok := l.UserModel.RangeUsed(); ok {
				set(share)
			}
		}},
	{desc("selection_share",
		"With direct: share of impressions that end with a selection, over all partitions, from ended impressions with known rankings.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Attraction.Learned && l.Attraction.Impressions > 0 {
				set(l.Attraction.Share)
			}
		}},
	{desc("level", "With robust: common level of payoffs above the items' own means, in payoff ranges.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Level.Tracked {
				set(l.Level.Level)
			}
		}},
	{desc("level_half_life_seconds",
		"Half-life of the payoffs that estimate the level; +Inf while it has not changed lately.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Level.Tracked {
				set(l.Level.HalfLife / 1000)
			}
		}},
	{desc("context_sd",
		"By how much payoffs differ by chance, features, categories, items and cells, in standard deviations, in payoff ranges.", "learner", "level"),
		func(l *partition.LearnerStatus, set set) {
			for _, d := range l.Contextual.Modelled() {
				set(d.SD, d.Level)
			}
		}},
	{desc("context_feature_sd",
		"Standard deviation of a feature over the payoffs fed, in halves of its range: 0.58 where the range is used evenly.", "learner", "feature"),
		func(l *partition.LearnerStatus, set set) {
			for _, f := range l.Contextual.Spreads {
				set(f.SD, f.Name)
			}
		}},
	{desc("context_groups",
		"Groups that the day (hour), the week (weekday) and items' ages (age) are divided into at present; 1 where one is not.", "learner", "of"),
		func(l *partition.LearnerStatus, set set) {
			for _, g := range l.Contextual.Groups {
				set(float64(g.N), g.Of)
			}
		}},
	{desc("context_since_timestamp_seconds",
		"Event time from which on payoffs count, by when their selections began, in seconds since 1970; absent while all count.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Contextual.Since != 0 {
				set(float64(l.Contextual.Since) / 1000)
			}
		}},
	{desc("instances", "BOLD's instances, summed over partitions.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Instances > 0 {
				set(float64(l.Instances))
			}
		}},
	{desc("window_probability", "Probability of an attention window that decisions are made for.", "learner", "window"),
		func(l *partition.LearnerStatus, set set) {
			for k, q := range l.Windows {
				set(q, windowLabels[k])
			}
		}},
	{desc("window_selections", "Selections that the windows may have been learned from.", "learner"),
		func(l *partition.LearnerStatus, set set) {
			if l.Windows != nil {
				set(float64(l.Selections))
			}
		}},
}

var windowLabels = func() (labels [delay.ShownWindows + 1]string) {
	for k := range labels {
		labels[k] = strconv.Itoa(k + 1)
	}
	labels[delay.ShownWindows] = "more"
	return labels
}()

// experimentGauges are of the worker that has partition 0, which decides.
var experimentGauges = []metric[experimentSnapshot]{
	{desc("lift", "Lift of an arm over the control, in payoff ranges: the estimate, and bounds that hold at any look. "+
		"Of the worker that has partition 0.", "experiment", "arm", "bound"),
		func(x experimentSnapshot, set set) {
			for _, a := range x.Arms {
				if a.Name != x.Control {
					setBounds(set, a.Name, &experiment.Interval{Estimate: a.Lift.Estimate, Lower: a.Lift.Lower, Upper: a.Lift.Upper})
				}
			}
		}},
	{desc("lift_in_the_end", "Lift of an arm at the payoff horizon, by units of any age, in payoff ranges; no upper bound (1) before the first deadlines. "+
		"Of the worker that has partition 0, unless refused.", "experiment", "arm", "bound"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				a := &x.Arms[i]
				if a.Outlook.Units > 0 && a.Outlook.End.Verdict != experiment.Refused {
					setBounds(set, a.Name, &a.Outlook.End.Interval)
				}
			}
		}},
	{desc("lift_so_far", "Payoffs of an arm to date over the control's, by unit of any age, in payoff ranges. An arm that pays sooner is ahead without "+
		"a lift. Of the worker that has partition 0.", "experiment", "arm", "bound"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				a := &x.Arms[i]
				if a.Outlook.Units > 0 && a.Outlook.SoFarWhy == "" {
					setBounds(set, a.Name, &a.Outlook.SoFar)
				}
			}
		}},
	{desc("lift_explained", "Share of the variance of an arm's lift in the end that covariates take away: predictions or utilities of impressions. Of the "+
		"worker that has partition 0, unless refused.", "experiment", "arm"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				if a := &x.Arms[i]; a.Outlook.Units > 0 && a.Outlook.End.Verdict != experiment.Refused {
					set(a.Outlook.End.Explained, a.Name)
				}
			}
		}},
	{desc("lift_break_even", "How many times the control's the arm's later payoffs would have to be, at least, for the arm to draw level; absent unless "+
		"above 1 and before the first deadlines. Of the worker that has partition 0.", "experiment", "arm"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				if a := &x.Arms[i]; a.Outlook.End.BreakEven > 0 {
					set(a.Outlook.End.BreakEven, a.Name)
				}
			}
		}},
	{desc("lift_forecast", "Probability that an arm will be called better, or worse, once all units so far are past their deadlines. It is no proof. Of "+
		"the worker that has partition 0, once almost all payoffs of the oldest units have come.", "experiment", "arm", "verdict"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				if a := &x.Arms[i]; a.Outlook.End.Forecast != nil {
					set(a.Outlook.End.Forecast.Better, a.Name, "better")
					set(a.Outlook.End.Forecast.Worse, a.Name, "worse")
				}
			}
		}},
	{desc("lift_timing", "1 if an arm certainly pays later than the control, -1 if sooner, else 0. Of the worker that has partition 0.", "experiment", "arm"),
		func(x experimentSnapshot, set set) {
			for i := range x.Arms {
				a := &x.Arms[i]
				if a.Outlook.Timing != experiment.NoTiming {
					set(map[experiment.Timing]float64{experiment.Sooner: -1, experiment.Later: 1}[a.Outlook.Timing], a.Name)
				}
			}
		}},
	{desc("lift_units", "Units of an arm that are counted: their deadline has passed. Of the worker that has partition 0.", "experiment", "arm"),
		func(x experimentSnapshot, set set) {
			for _, a := range x.Arms {
				set(float64(a.Units), a.Name)
			}
		}},
	{desc("lift_lag_seconds", "How long ago the deadline of the last unit was that is counted. Of the worker that has partition 0.", "experiment"),
		func(x experimentSnapshot, set set) {
			if x.Walked > 0 {
				set(x.of.behind(x.Walked))
			}
		}},
}

func setBounds(set set, arm string, b *experiment.Interval) {
	set(b.Lower, arm, "lower")
	set(b.Estimate, arm, "estimate")
	set(b.Upper, arm, "upper")
}
