package stream

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// LearnerValue sums a learner's payoffs, with the estimates for ranking by utility (partition.Counterfactual), in payoff ranges.
type LearnerValue struct {
	Payoffs       int64 // of ended impressions, defaults included
	PayoffSum     float64
	PayoffSquares float64
	Counting      partition.Counting // change of selections in flight that count as ended
	partition.Counterfactual
}

// ValueOf returns the sums of a learner of one partition, since its state was loaded.
func ValueOf(l *partition.LearnerStatus) LearnerValue {
	return LearnerValue{l.Conduct.Payoffs, l.Conduct.Sum, l.Conduct.Squares, l.Counting, l.Comparison}
}

// rise adds the increase from before to now. A machine counts from 0, so lower counts come from a new one.
func (v *LearnerValue) rise(before, now *LearnerValue) {
	if now.Payoffs < before.Payoffs || now.Decisions < before.Decisions {
		before = &LearnerValue{}
	}
	v.Payoffs += now.Payoffs - before.Payoffs
	v.PayoffSum += now.PayoffSum - before.PayoffSum
	v.PayoffSquares += now.PayoffSquares - before.PayoffSquares
	v.Counting.Weight += now.Counting.Weight - before.Counting.Weight
	v.Counting.Payoffs += now.Counting.Payoffs - before.Counting.Payoffs
	v.Decisions += now.Decisions - before.Decisions
	v.Known += now.Known - before.Known
	v.First += now.First - before.First
	v.Compared += now.Compared - before.Compared
	v.Outpaid += now.Outpaid - before.Outpaid
	v.Expected += now.Expected - before.Expected
	v.ExpectedSum += now.ExpectedSum - before.ExpectedSum
	v.ExpectedVariance += now.ExpectedVariance - before.ExpectedVariance
	v.Shared += now.Shared - before.Shared
	v.SharesSum += now.SharesSum - before.SharesSum
	v.PayingSum += now.PayingSum - before.PayingSum
	v.Weighed += now.Weighed - before.Weighed
	v.Weights += now.Weights - before.Weights
	v.Squares += now.Squares - before.Squares
	v.WeighedSum += now.WeighedSum - before.WeighedSum
}

// LearnerTotal counts a learner's records in this process since its start.
type LearnerTotal struct {
	Account              partition.Account // without pending and parked
	Value                LearnerValue
	PayoffMin, PayoffMax float64 // ends of the payoff range, in raw units
}

// learnerTotals are the totals of all learners, and their Prometheus collector.
// Each configured learner and outcome has a counter, so input cannot add any.
type learnerTotals struct {
	mu  sync.Mutex
	all map[string]*LearnerTotal
}

var _ prometheus.Collector = (*learnerTotals)(nil)

func newLearnerTotals() *learnerTotals { return &learnerTotals{all: map[string]*LearnerTotal{}} }

// rise adds the increase of a learner's values.
func (t *learnerTotals) rise(l *partition.LearnerStatus, before, now *LearnerValue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := t.all[l.Name]
	if total == nil {
		total = &LearnerTotal{}
		t.all[l.Name] = total
	}
	total.PayoffMin, total.PayoffMax = l.PayoffMin, l.PayoffMax
	total.Value.rise(before, now)
}

// observe adds the increase of the learners' accounts. Unconfigured learners are left out.
func (t *learnerTotals) observe(o *task.Observations) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range o.Learners {
		if total := t.all[o.Learners[i].Name]; total != nil {
			total.Account = total.Account.Plus(o.Learners[i].Account)
		}
	}
}

func (t *learnerTotals) get() map[string]LearnerTotal {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]LearnerTotal, len(t.all))
	for name, total := range t.all {
		all[name] = *total
	}
	return all
}

// Learners returns the totals of the learners by name, since this process started.
func (m *Metrics) Learners() map[string]LearnerTotal { return m.totals.get() }

const inRanges = ", in payoff ranges: 0 for the lower end of payoff_range, 1 for the upper"

// learnerCounter is a counter of each learner, with its value.
type learnerCounter struct {
	desc *prometheus.Desc
	of   func(t *LearnerTotal) float64
}

func learnerCounterOf(name, help string, of func(v *LearnerValue) float64) learnerCounter {
	return learnerCounter{gaugeDesc("learner_"+name+"_total", help, "learner"), func(t *LearnerTotal) float64 { return of(&t.Value) }}
}

var (
	descLearnerImpressions = gaugeDesc("learner_impressions_total", "Impressions of a learner that have ended, by how.", "learner", "outcome")
	descLearnerSelections  = gaugeDesc("learner_selections_total", "Selections of a learner's impressions that have ended, by how.", "learner", "outcome")
	descLearnerPayoffs     = gaugeDesc("learner_payoffs_total", "Payoffs of a learner's impressions that have ended, by how.", "learner", "outcome")
	descLearnerRange       = gaugeDesc("learner_payoff_range", "The ends of a learner's payoff range.", "learner", "end")

	learnerCounters = []learnerCounter{
		learnerCounterOf("payoff_count", "Payoffs that impressions ended with, defaults for payoffs that never came among them.",
			func(v *LearnerValue) float64 { return float64(v.Payoffs) }),
		learnerCounterOf("payoff_sum", "The sum of the payoffs that impressions ended with, defaults among them"+inRanges+".",
			func(v *LearnerValue) float64 { return v.PayoffSum }),
		learnerCounterOf("rankings", "Impressions ranked by this process; decisions adopted from an earlier owner are not among them.",
			func(v *LearnerValue) float64 { return float64(v.Decisions) }),
		learnerCounterOf("favourite_known", "Impressions ranked whose favourite, the candidate of the highest utility, was known.",
			func(v *LearnerValue) float64 { return float64(v.Known) }),
		learnerCounterOf("favourite_first", "Impressions ranked with the favourite, the candidate of the highest utility, shown first.",
			func(v *LearnerValue) float64 { return float64(v.First) }),
		learnerCounterOf("favourite_compared", "Impressions ranked for which 10 payoffs or more were known of the favourite and of another candidate.",
			func(v *LearnerValue) float64 { return float64(v.Compared) }),
		learnerCounterOf("favourite_outpaid", "Of those compared: impressions in which another such candidate had a higher mean payoff than the favourite, by known means.",
			func(v *LearnerValue) float64 { return float64(v.Outpaid) }),
		learnerCounterOf("favourite_expected_count", "Impressions ranked whose favourite had a known mean payoff.",
			func(v *LearnerValue) float64 { return float64(v.Expected) }),
		learnerCounterOf("favourite_expected_sum", "The sum of the favourites' mean payoffs as known when the impressions were ranked"+inRanges+
			": the estimated payoff per selection of ranking by utility, if an item's mean is the same in all impressions.",
			func(v *LearnerValue) float64 { return v.ExpectedSum }),
		learnerCounterOf("favourite_shared_count", "Of those with a known mean payoff: impressions ranked for which the share of impressions with a selection was known, with the favourite on top.",
			func(v *LearnerValue) float64 { return float64(v.Shared) }),
		learnerCounterOf("favourite_shared_sum", "The sum of these shares, each times the favourite's mean payoff as known then"+inRanges+
			": the estimated payoff per impression of ranking by utility.",
			func(v *LearnerValue) float64 { return v.PayingSum }),
		learnerCounterOf("favourite_weighted_count", "The sum of 1/propensity over the payoffs of favourites, of impressions that record propensities.",
			func(v *LearnerValue) float64 { return v.Weights }),
		learnerCounterOf("favourite_weighted_sum", "The sum of payoff/propensity over the payoffs of favourites"+inRanges+
			": divided by the count, the estimated payoff per selection of ranking by utility, if windows are as assumed.",
			func(v *LearnerValue) float64 { return v.WeighedSum }),
		learnerCounterOf("favourite_weighted_squares", "The sum of 1/propensity² over the same payoffs: the count squared, divided by this, is how many payoffs the estimate is worth.",
			func(v *LearnerValue) float64 { return v.Squares }),
	}
)

// learnerOutcome is an outcome's label and its count.
type learnerOutcome struct {
	desc  *prometheus.Desc
	label string
	of    func(a *partition.Account) int64
}

var learnerOutcomes = func() []learnerOutcome {
	type account = partition.Account
	i, s, p := descLearnerImpressions, descLearnerSelections, descLearnerPayoffs
	return []learnerOutcome{
		{i, "paid", func(a *account) int64 { return a.Impressions.Paid }},
		{i, "expired", func(a *account) int64 { return a.Impressions.Expired }},
		{i, "defaulted", func(a *account) int64 { return a.Impressions.Defaulted }},
		{i, "unselected", func(a *account) int64 { return a.Impressions.Unselected }},
		{i, "duplicate", func(a *account) int64 { return a.Impressions.Duplicate }},
		{s, "joined", func(a *account) int64 { return a.Selections.Joined }},
		{s, "duplicate", func(a *account) int64 { return a.Selections.Duplicate }},
		{s, "late", func(a *account) int64 { return a.Selections.Late }},
		{s, "orphan", func(a *account) int64 { return a.Selections.Orphan }},
		{s, "rejected", func(a *account) int64 { return a.Selections.Rejected }},
		{p, "applied", func(a *account) int64 { return a.Payoffs.Applied }},
		{p, "duplicate", func(a *account) int64 { return a.Payoffs.Duplicate }},
		{p, "late", func(a *account) int64 { return a.Payoffs.Late }},
		{p, "orphan", func(a *account) int64 { return a.Payoffs.Orphan }},
		{p, "rejected", func(a *account) int64 { return a.Payoffs.Rejected }},
	}
}()

// Describe implements prometheus.Collector.
func (t *learnerTotals) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLearnerImpressions, descLearnerSelections, descLearnerPayoffs, descLearnerRange} {
		ch <- d
	}
	for _, c := range learnerCounters {
		ch <- c.desc
	}
}

// Collect implements prometheus.Collector.
func (t *learnerTotals) Collect(ch chan<- prometheus.Metric) {
	all := t.get()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		total := all[name]
		for _, o := range learnerOutcomes {
			ch <- prometheus.MustNewConstMetric(o.desc, prometheus.CounterValue, float64(max(0, o.of(&total.Account))), name, o.label)
		}
		for _, c := range learnerCounters {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, c.of(&total), name)
		}
		ch <- prometheus.MustNewConstMetric(descLearnerRange, prometheus.GaugeValue, total.PayoffMin, name, "min")
		ch <- prometheus.MustNewConstMetric(descLearnerRange, prometheus.GaugeValue, total.PayoffMax, name, "max")
	}
}
