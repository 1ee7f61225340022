package stream

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestLearnersCountersRiseWithTheirPartitions: counters add the partitions' increases, those of
// a dropped machine and of the next one from 0, and exist for configured learners only.
func TestLearnersCountersRiseWithTheirPartitions(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Rebalanced(2)
	at := func(payoffs int64, sum float64) *task.Status {
		l := partition.LearnerStatus{Name: "feed", PayoffMin: -1, PayoffMax: 3,
			Value: partition.Value{Payoffs: payoffs, PayoffSum: sum, Counterfactual: partition.Counterfactual{Decisions: 2 * payoffs, Known: payoffs, First: 1,
				Expected: payoffs, ExpectedSum: sum / 2, Shared: payoffs, SharesSum: sum, PayingSum: sum / 4}}}
		l.Account.Payoffs.Applied = 1_000_000 // of the state
		return &task.Status{Phase: task.Running, Learners: []partition.LearnerStatus{l, {Name: "old", Gone: true}}}
	}
	o := &task.Observations{Learners: []partition.LearnerAccount{{Name: "feed"}, {Name: "old"}}}
	for i := range o.Learners {
		o.Learners[i].Account.Payoffs.Applied, o.Learners[i].Account.Impressions.Paid = 3, 2
	}
	m.Observe(0, at(10, 4), o, 0)
	m.Observe(1, at(6, 3), &task.Observations{}, 0)
	m.Observe(0, at(12, 5), o, 0)
	m.Observe(0, at(20, 9), &task.Observations{Dropped: []task.Status{*at(14, 6)}}, 0)
	got := scrape(t, reg)
	includes(t, got, map[string]float64{
		`ranker_learner_payoff_count_total{learner="feed"}`:                  40,
		`ranker_learner_payoff_sum_total{learner="feed"}`:                    18,
		`ranker_learner_rankings_total{learner="feed"}`:                      80,
		`ranker_learner_favourite_known_total{learner="feed"}`:               40,
		`ranker_learner_favourite_first_total{learner="feed"}`:               3,
		`ranker_learner_favourite_expected_sum_total{learner="feed"}`:        9,
		`ranker_learner_favourite_shared_count_total{learner="feed"}`:        40,
		`ranker_learner_favourite_shares_total{learner="feed"}`:              18,
		`ranker_learner_favourite_shared_sum_total{learner="feed"}`:          4.5,
		`ranker_learner_payoffs_total{learner="feed",outcome="applied"}`:     6, // not the million of the state
		`ranker_learner_impressions_total{learner="feed",outcome="paid"}`:    4,
		`ranker_learner_impressions_total{learner="feed",outcome="expired"}`: 0,
		`ranker_learner_payoff_range{end="min",learner="feed"}`:              -1,
		`ranker_learner_payoff_range{end="max",learner="feed"}`:              3,
	})
	for name := range got {
		assert.NotContains(t, name, `"old"`)
	}
}
