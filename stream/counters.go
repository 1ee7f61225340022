package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// outcome is one way in which records of a topic end. The worker's metrics and each learner's count them.
type outcome struct {
	record event.Topic // impressions, selections or payoffs
	label  string
	of     func(a *partition.Account) int64
}

// outcomes are all of them. Pending and parked records are gauges.
var outcomes = [...]outcome{
	{event.Impressions, "paid", func(a *partition.Account) int64 { return a.Impressions.Paid }},
	{event.Impressions, "expired", func(a *partition.Account) int64 { return a.Impressions.Expired }},
	{event.Impressions, "defaulted", func(a *partition.Account) int64 { return a.Impressions.Defaulted }},
	{event.Impressions, "unselected", func(a *partition.Account) int64 { return a.Impressions.Unselected }},
	{event.Impressions, "duplicate", func(a *partition.Account) int64 { return a.Impressions.Duplicate }},
	{event.Impressions, "rejected", func(a *partition.Account) int64 { return a.Impressions.Rejected }},
	{event.Selections, "joined", func(a *partition.Account) int64 { return a.Selections.Joined }},
	{event.Selections, "duplicate", func(a *partition.Account) int64 { return a.Selections.Duplicate }},
	{event.Selections, "late", func(a *partition.Account) int64 { return a.Selections.Late }},
	{event.Selections, "orphan", func(a *partition.Account) int64 { return a.Selections.Orphan }},
	{event.Selections, "rejected", func(a *partition.Account) int64 { return a.Selections.Rejected }},
	{event.Payoffs, "applied", func(a *partition.Account) int64 { return a.Payoffs.Applied }},
	{event.Payoffs, "duplicate", func(a *partition.Account) int64 { return a.Payoffs.Duplicate }},
	{event.Payoffs, "late", func(a *partition.Account) int64 { return a.Payoffs.Late }},
	{event.Payoffs, "orphan", func(a *partition.Account) int64 { return a.Payoffs.Orphan }},
	{event.Payoffs, "rejected", func(a *partition.Account) int64 { return a.Payoffs.Rejected }},
}

// outcomeVectors returns the worker's counter of each outcome.
func outcomeVectors(f factory) (all [len(outcomes)]*prometheus.CounterVec) {
	of := [event.Inputs]*prometheus.CounterVec{
		event.Impressions: f.counters("impressions_total", "Impressions that have ended, by how.", "outcome"),
		event.Selections:  f.counters("selections_total", "Selections that have ended, by how.", "outcome"),
		event.Payoffs:     f.counters("payoffs_total", "Payoffs that have ended, by how.", "outcome"),
	}
	for i, o := range outcomes {
		all[i] = of[o.record]
	}
	return all
}

// learnerOutcomes are the same counters by learner.
var learnerOutcomes = [event.Inputs]*prometheus.Desc{
	event.Impressions: desc("learner_impressions_total", "Impressions of a learner that have ended, by how.", "learner", "outcome"),
	event.Selections:  desc("learner_selections_total", "Selections of a learner's impressions that have ended, by how.", "learner", "outcome"),
	event.Payoffs:     desc("learner_payoffs_total", "Payoffs of a learner's impressions that have ended, by how.", "learner", "outcome"),
}

// learnerEvent is an event that a learner counts in each partition, from 0 at the load of its state.
type learnerEvent struct {
	name, help string
	counts     func(l *partition.LearnerStatus) bool // whether the learner counts it; nil: each does
	of         func(l *partition.LearnerStatus) float64
}

func findsUtilities(l *partition.LearnerStatus) bool { return l.FindsUtilities }
func hasContext(l *partition.LearnerStatus) bool     { return l.Context.Looks }

var learnerEvents = [...]learnerEvent{
	{"holds_total", "Times that QPM-D began to wait for a payoff of one item.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.Holds) }},
	{"ended_items_total", "Items that were dropped, for no impression had carried them for item_retention; an item counts in each partition that had met it.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.Ended) }},
	{"unlearned_payoffs_total", "Payoffs that an adversarial learner could not use: their decision's record lacked propensities or instance.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.Unfed) }},
	{"level_changes_total", "Times that a partition found the level of payoffs to have changed, after it had stayed.",
		func(l *partition.LearnerStatus) bool { return l.Level.Tracked },
		func(l *partition.LearnerStatus) float64 { return float64(l.Level.Changes) }},
	{"fits_total", "Fits of the model of payoffs, by learners with a context.",
		func(l *partition.LearnerStatus) bool { return l.Contextual.Known },
		func(l *partition.LearnerStatus) float64 { return float64(l.Contextual.Fits) }},
	{"burn_in_impressions_total", "Impressions ranked so as to find the order of utilities.",
		findsUtilities, func(l *partition.LearnerStatus) float64 { return float64(l.BurnIn) }},
	{"contradictions_total", "Selections against an order of utilities that was certain.",
		findsUtilities, func(l *partition.LearnerStatus) float64 { return float64(l.Contradictions) }},
	{"unrated_selections_total", "Selections without the utility that social learning needs.",
		findsUtilities, func(l *partition.LearnerStatus) float64 { return float64(l.Unrated) }},
	{"blocked_selections_total", "Selections of an item behind one with a higher utility, which no window explains; if rankings record the order of utilities.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.UserModel.Blocked) }},
	{"rare_selections_total", "Selections of an item whose recorded propensity was below 1/1,000.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.UserModel.Rare) }},
	{"rare_selections_expected_total", "The sum of all propensities below 1/1,000 of the impressions selected from: as many rare selections as expected.",
		nil, func(l *partition.LearnerStatus) float64 { return l.UserModel.RareExpected }},
	{"filled_utilities_total", "Candidates that were sent without a utility, and had the median of the others'.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.Filled.Candidates) }},
	{"filled_impressions_total", "Impressions with such candidates.",
		nil, func(l *partition.LearnerStatus) float64 { return float64(l.Filled.Impressions) }},
	{"context_missing_total", "Numbers that contexts lacked, which counted as the middle of their range.",
		hasContext, func(l *partition.LearnerStatus) float64 { return float64(l.Context.Missing) }},
	{"context_unknown_segments_total", "Impressions of users with an undeclared segment, who counted as in none.",
		hasContext, func(l *partition.LearnerStatus) float64 { return float64(l.Context.UnknownSegments) }},
}

// learnerCounters follow the counts of learners, partition by partition.
type learnerCounters struct {
	events  [len(learnerEvents)]*prometheus.CounterVec
	clamped *prometheus.CounterVec
	before  map[learnerKey]learnerCounts
}

type learnerKey struct {
	partition int32
	learner   string
}

// learnerCounts are a learner's counts at the last look.
type learnerCounts struct {
	events  [len(learnerEvents)]float64
	value   partition.Value
	clamped []partition.FeatureCount
}

func newLearnerCounters(f factory) learnerCounters {
	c := learnerCounters{before: map[learnerKey]learnerCounts{}, clamped: f.counters("context_clamped_total",
		"Numbers of contexts outside the range declared for their feature, which counted as its nearer end.", "learner", "feature")}
	for i, e := range learnerEvents {
		c.events[i] = f.counters(e.name, e.help, "learner")
	}
	return c
}

// observe counts the increase since the last look.
func (c *learnerCounters) observe(p int32, l *partition.LearnerStatus, totals *learnerTotals) {
	k := learnerKey{p, l.Name}
	before := c.before[k]
	now := learnerCounts{value: l.Value, clamped: l.Context.Clamped}
	for i := range learnerEvents {
		if e := &learnerEvents[i]; e.counts == nil || e.counts(l) {
			now.events[i] = e.of(l)
			c.events[i].WithLabelValues(l.Name).Add(increase(before.events[i], now.events[i]))
		}
	}
	for i, f := range now.clamped {
		var then int64
		if i < len(before.clamped) && before.clamped[i].Name == f.Name {
			then = before.clamped[i].N
		}
		c.clamped.WithLabelValues(l.Name, f.Name).Add(float64(increase(then, f.N)))
	}
	totals.rise(l, &before.value, &now.value)
	c.before[k] = now
}

const inRanges = ", in payoff ranges: 0 for the lower end of payoff_range, 1 for the upper"

var learnerSums = []metric[*partition.Value]{
	{desc("learner_payoff_count_total", "Payoffs that impressions ended with, defaults for payoffs that never came among them.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Payoffs)) }},
	{desc("learner_payoff_sum_total", "The sum of the payoffs that impressions ended with, defaults among them"+inRanges+".", "learner"),
		func(v *partition.Value, set set) { set(v.PayoffSum) }},
	{desc("learner_rankings_total", "Impressions ranked by this process; decisions adopted from an earlier owner are not among them.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Decisions)) }},
	{desc("learner_ruled_total", "Impressions ranked whose order pins or caps could have changed. The counts of favourites leave them out.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Ruled)) }},
	{desc("learner_favourite_known_total", "Impressions ranked whose favourite, the candidate of the highest utility, was known.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Known)) }},
	{desc("learner_favourite_first_total", "Impressions ranked with the favourite, the candidate of the highest utility, shown first.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.First)) }},
	{desc("learner_favourite_compared_total", "Impressions ranked for which 10 payoffs or more were known of the favourite and of another candidate.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Compared)) }},
	{desc("learner_favourite_outpaid_total", "Of those compared: impressions in which another such candidate had a higher mean payoff than the favourite, by known means.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Outpaid)) }},
	{desc("learner_favourite_expected_count_total", "Impressions ranked whose favourite had a known mean payoff.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Expected)) }},
	{desc("learner_favourite_expected_sum_total", "The sum of the favourites' mean payoffs as known when the impressions were ranked"+inRanges+
		": the estimated payoff per selection of ranking by utility, if an item's mean is the same in all impressions.", "learner"),
		func(v *partition.Value, set set) { set(v.ExpectedSum) }},
	{desc("learner_favourite_shared_count_total", "Of those with a known mean payoff: impressions ranked for which the share of impressions with a selection was known, with the favourite on top.", "learner"),
		func(v *partition.Value, set set) { set(float64(v.Shared)) }},
	{desc("learner_favourite_shares_total", "The sum of these shares.", "learner"),
		func(v *partition.Value, set set) { set(v.SharesSum) }},
	{desc("learner_favourite_shared_sum_total", "The sum of these shares, each times the favourite's mean payoff as known then"+inRanges+
		": the estimated payoff per impression of ranking by utility.", "learner"),
		func(v *partition.Value, set set) { set(v.PayingSum) }},
	{desc("learner_favourite_weighted_count_total", "The sum of 1/propensity over the payoffs of favourites, of impressions that record propensities.", "learner"),
		func(v *partition.Value, set set) { set(v.Weights) }},
	{desc("learner_favourite_weighted_sum_total", "The sum of payoff/propensity over the payoffs of favourites"+inRanges+
		": divided by the count, the estimated payoff per selection of ranking by utility, if windows are as assumed.", "learner"),
		func(v *partition.Value, set set) { set(v.WeighedSum) }},
	{desc("learner_favourite_weighted_squares_total", "The sum of 1/propensity² over the same payoffs: the count squared, divided by this, is how many payoffs the estimate is worth.", "learner"),
		func(v *partition.Value, set set) { set(v.Squares) }},
}

var learnerRange = []metric[*LearnerTotal]{
	{desc("learner_payoff_range", "The ends of a learner's payoff range.", "learner", "end"), func(t *LearnerTotal, set set) {
		set(t.PayoffMin, "min")
		set(t.PayoffMax, "max")
	}},
}
