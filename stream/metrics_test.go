package stream

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// scrape returns every sample by its name and labels; of histograms, count and sum.
func scrape(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Counter != nil:
				all[name] = m.Counter.GetValue()
			case m.Gauge != nil:
				all[name] = m.Gauge.GetValue()
			case m.Histogram != nil:
				all[name+"_count"] = float64(m.Histogram.GetSampleCount())
				all[name+"_sum"] = m.Histogram.GetSampleSum()
			}
		}
	}
	return all
}

// includes compares the samples that want names.
func includes(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		g, ok := got[name]
		if assert.True(t, ok, "no sample %s", name) {
			assert.InDelta(t, v, g, 1e-9, name)
		}
	}
}

func running() *task.Status {
	s := &task.Status{Phase: task.Running, Lag: [event.Inputs]int64{5, 0, 7}, Unsaved: 100, Watermark: 50_000, WalkLag: 12_500}
	s.Account.Impressions = partition.ImpressionAccount{Paid: 1_000_000, Pending: 4}
	s.Account.Selections.Parked, s.Account.Payoffs.Parked, s.Account.ParkedBytes = 1, 2, 300
	s.Learners = []partition.LearnerStatus{
		{Name: "feed", Items: 9, Status: delay.Status{OnHold: true, Holds: 3, Queued: 8, Flights: 4,
			Silence: delay.SilenceStatus{Law: delay.SilenceAges, Weight: 1.25, Payoffs: 0.5, Known: true, Seen: true, Share: 0.125, Median: 1500, P90: 60_000},
			Level:   delay.LevelStatus{Tracked: true, AsOf: 1000, Level: -0.25, HalfLife: 8000, Changes: 2}},
			Drops: partition.UnattributedStatus{Items: 8, Statistic: 16}},
		{Name: "old", Gone: true},
	}
	return s
}

func TestCountersAreWhatThisProcessDid(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Rebalanced(2)
	o := &task.Observations{Stepped: [event.Inputs]int64{3, 2, 1}, Adopted: 1, Fenced: 2, Gaps: 7, Retries: 3, LookedUp: 4, Walked: 5,
		Latencies: []int64{4, -10}, Produces: []task.Sample{{Size: 2, Took: time.Millisecond}},
		Checkpoints: []task.Sample{{Size: 10, Took: time.Second}},
		DeadLetters: []task.Refusal{{Topic: event.Payoffs, Reason: "not_finite"}}}
	o.Account.Impressions.Paid, o.Account.Impressions.Rejected, o.Account.Impressions.Pending = 2, 1, -5
	o.Account.Selections.Joined, o.Account.Payoffs.Applied, o.Account.Payoffs.Late = 2, 3, 4
	o.Account.Misplaced[event.Payoffs] = 6
	m.Observe(0, running(), o, 60_000)
	m.Observe(1, running(), o, 60_000)
	m.ObserveRequest(task.Fetch{}, time.Second)
	m.ObserveRequest(task.LookUp{}, 2*time.Second)
	m.ObserveRequest(task.Probe{}, 3*time.Second)
	includes(t, scrape(t, reg), map[string]float64{
		`ranker_records_read_total{topic="impressions"}`:                    6,
		`ranker_records_read_total{topic="payoffs"}`:                        2,
		`ranker_impressions_total{outcome="paid"}`:                          4, // not the million of the state
		`ranker_impressions_total{outcome="rejected"}`:                      2,
		`ranker_impressions_total{outcome="expired"}`:                       0,
		`ranker_selections_total{outcome="joined"}`:                         4,
		`ranker_payoffs_total{outcome="applied"}`:                           6,
		`ranker_payoffs_total{outcome="late"}`:                              8,
		`ranker_misplaced_records_total{topic="payoffs"}`:                   12,
		`ranker_rankings_total`:                                             4,
		`ranker_adopted_decisions_total`:                                    2,
		`ranker_fenced_total`:                                               4,
		`ranker_retries_total`:                                              6,
		`ranker_observation_gaps_total`:                                     14,
		`ranker_dead_letters_total{reason="not_finite",topic="payoffs"}`:    2,
		`ranker_dead_letters_total{reason="not_finite",topic="selections"}`: 0,
		`ranker_holds_total{learner="feed"}`:                                6,
		`ranker_level_changes_total{learner="feed"}`:                        4,
		`ranker_rebalances_total`:                                           1,
		`ranker_partitions_assigned`:                                        2,
		`ranker_impression_to_ranking_seconds_count`:                        4,
		`ranker_impression_to_ranking_seconds_sum`:                          .008, // clocks that differ count as 0
		`ranker_produce_duration_seconds_sum`:                               .002,
		`ranker_produce_batch_records_sum`:                                  4,
		`ranker_checkpoint_duration_seconds_sum`:                            2,
		`ranker_checkpoint_changes_sum`:                                     20,
		`ranker_fetch_duration_seconds_sum`:                                 1,
		`ranker_lookup_duration_seconds_sum`:                                2,
	})
}

func TestHoldsAreCountedAcrossRestartsOfALearner(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Rebalanced(1)
	for _, holds := range []int64{3, 3, 5, 1, 2} { // 5, then loaded again, then 2 more
		s := running()
		s.Learners[0].Holds = holds
		m.Observe(0, s, &task.Observations{}, 0)
	}
	m.Rebalanced(0)
	m.Rebalanced(1)
	m.Observe(0, running(), &task.Observations{}, 0) // 3 from a fresh start
	includes(t, scrape(t, reg), map[string]float64{`ranker_holds_total{learner="feed"}`: 10, `ranker_rebalances_total`: 2})
}

func TestGaugesFollowTheSnapshotsAndVanishWithThePartition(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Rebalanced(3)
	m.Observe(4, running(), &task.Observations{}, 60_000)
	m.Observe(7, running(), &task.Observations{}, 60_000)
	m.Observe(9, &task.Status{Phase: task.Stopped, Reason: task.StopTorn, Err: state.ErrTorn}, &task.Observations{}, 60_000)
	got := scrape(t, reg)
	includes(t, got, map[string]float64{
		`ranker_lag{partition="4",topic="impressions"}`:  5,
		`ranker_lag{partition="7",topic="payoffs"}`:      7,
		`ranker_expiry_lag_seconds{partition="4"}`:       12.5,
		`ranker_pending_impressions`:                     8,
		`ranker_parked_records{topic="selections"}`:      2,
		`ranker_parked_records{topic="payoffs"}`:         4,
		`ranker_parked_bytes`:                            600,
		`ranker_unsaved_bytes`:                           200,
		`ranker_backpressured_partitions`:                0,
		`ranker_waiting_partitions`:                      0,
		`ranker_partitions{phase="running"}`:             2,
		`ranker_partitions{phase="stopped"}`:             1,
		`ranker_stopped_partitions{reason="torn"}`:       1,
		`ranker_on_hold{learner="feed",partition="4"}`:   1,
		`ranker_queued_payoffs{learner="feed"}`:          16,
		`ranker_in_flight_selections{learner="feed"}`:    8,
		`ranker_items{learner="feed"}`:                   18,
		`ranker_in_flight_weight{learner="feed"}`:        2.5,
		`ranker_in_flight_payoffs{learner="feed"}`:       1,
		`ranker_paid_share{learner="feed"}`:              0.125,
		`ranker_level{learner="feed"}`:                   -0.25,
		`ranker_level_half_life_seconds{learner="feed"}`: 8,

		`ranker_payoff_delay_seconds{learner="feed",quantile="0.5"}`: 1.5,
		`ranker_payoff_delay_seconds{learner="feed",quantile="0.9"}`: 60,

		`ranker_drop_informative{learner="feed"}`: 16 / math.Sqrt(32),
	})
	assert.NotContains(t, got, `ranker_lag{partition="9",topic="payoffs"}`, "nothing is known of it")
	assert.InDelta(t, 10, got[`ranker_watermark_lag_seconds{partition="4"}`], patience.Seconds())
	assert.GreaterOrEqual(t, got[`ranker_watermark_lag_seconds{partition="4"}`], 10.0)

	failing := running()
	failing.Err = state.ErrUnfit
	m.Observe(7, failing, &task.Observations{}, 60_000)
	includes(t, scrape(t, reg), map[string]float64{`ranker_waiting_partitions`: 1})

	m.Rebalanced(0)
	got = scrape(t, reg)
	assert.NotContains(t, got, `ranker_lag{partition="4",topic="impressions"}`)
	includes(t, got, map[string]float64{`ranker_pending_impressions`: 0, `ranker_partitions_assigned`: 0})
	m.Rebalanced(0) // a generation without partitions
	m.Rebalanced(0)
	includes(t, scrape(t, reg), map[string]float64{`ranker_rebalances_total`: 2})
}

// scrapeTwo scrapes a worker of partitions 4 and 7 that run. Change changes the status of each one's learner before it is observed.
func scrapeTwo(t *testing.T, change func(p int32, l *partition.LearnerStatus)) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.Rebalanced(2)
	for _, p := range []int32{4, 7} {
		s := running()
		change(p, &s.Learners[0])
		m.Observe(p, s, &task.Observations{}, 60_000)
	}
	return scrape(t, reg)
}

// The level is that of the partition whose estimate is the newest, whatever the order in which they are looked at; a learner that
// tracks none has none.
func TestTheLevelIsThatOfTheNewestEstimate(t *testing.T) {
	for _, newest := range []int32{4, 7} {
		got := scrapeTwo(t, func(p int32, l *partition.LearnerStatus) {
			if p == newest {
				l.Level.AsOf, l.Level.Level, l.Level.HalfLife = 2000, 0.125, math.Inf(1)
			}
		})
		assert.Equal(t, 0.125, got[`ranker_level{learner="feed"}`])
		assert.Equal(t, math.Inf(1), got[`ranker_level_half_life_seconds{learner="feed"}`])
	}
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	s := running()
	s.Learners[0].Level = delay.LevelStatus{}
	m.Observe(4, s, &task.Observations{}, 60_000)
	for name := range scrape(t, reg) {
		assert.NotContains(t, name, "ranker_level")
	}
}

// The share of impressions with a selection is that of the partition with the most of them; before any has ended there is none.
func TestTheShareOfImpressionsWithASelectionIsThatOfTheMost(t *testing.T) {
	for _, most := range []int32{4, 7} {
		got := scrapeTwo(t, func(p int32, l *partition.LearnerStatus) {
			if l.Attraction = (delay.AttractionStatus{Learned: true, Impressions: 8, Share: 0.5}); p == most {
				l.Attraction.Impressions, l.Attraction.Share = 9, 0.25
			}
		})
		assert.Equal(t, 0.25, got[`ranker_selection_share{learner="feed"}`])
	}
	for _, none := range []delay.AttractionStatus{{}, {Learned: true}} {
		reg := prometheus.NewRegistry()
		s := running()
		s.Learners[0].Attraction = none
		NewMetrics(reg).Observe(4, s, &task.Observations{}, 60_000)
		assert.NotContains(t, scrape(t, reg), `ranker_selection_share{learner="feed"}`)
	}
}

// Utilities that were filled are counted, of all partitions.
func TestFilledUtilitiesAreCounted(t *testing.T) {
	got := scrapeTwo(t, func(_ int32, l *partition.LearnerStatus) {
		l.Filled = partition.FilledStatus{Candidates: 5, Impressions: 2}
	})
	includes(t, got, map[string]float64{`ranker_filled_utilities_total{learner="feed"}`: 10, `ranker_filled_impressions_total{learner="feed"}`: 4})
}

// The contextual model shown is that of the partition with the most payoffs. A learner has no gauges of features that it does not use.
func TestWhatPayoffsDependOnIsShown(t *testing.T) {
	for _, most := range []int32{4, 7} {
		got := scrapeTwo(t, func(p int32, l *partition.LearnerStatus) {
			l.Contextual = delay.ContextualStatus{Known: true, Fits: 3, Payoffs: 9, Deviations: [delay.Causes]float64{0.5, 0.25, -1, 0.125, -1},
				Spreads: []delay.Spread{{Name: "price", SD: 0.0625}}, Groups: []delay.Groups{{Of: "hour", N: 4}, {Of: "weekday", N: 1}}}
			if p == most {
				l.Contextual.Payoffs, l.Contextual.Deviations[delay.OfFeatures], l.Contextual.Since = 10, 0.75, 1500
			}
		})
		includes(t, got, map[string]float64{`ranker_context_sd{learner="feed",level="payoff"}`: 0.5, `ranker_context_sd{learner="feed",level="features"}`: 0.75,
			`ranker_context_sd{learner="feed",level="item"}`: 0.125, `ranker_fits_total{learner="feed"}`: 6,
			`ranker_context_feature_sd{feature="price",learner="feed"}`: 0.0625, `ranker_context_groups{learner="feed",of="hour"}`: 4,
			`ranker_context_groups{learner="feed",of="weekday"}`: 1, `ranker_context_since_timestamp_seconds{learner="feed"}`: 1.5})
		assert.NotContains(t, got, `ranker_context_sd{learner="feed",level="category"}`)
	}
	reg := prometheus.NewRegistry()
	NewMetrics(reg).Observe(4, running(), &task.Observations{}, 60_000)
	for name := range scrape(t, reg) {
		assert.NotContains(t, name, "context_sd")
		assert.NotContains(t, name, "fits")
	}
}

func TestEveryAccountedOutcomeHasItsCounter(t *testing.T) {
	var a partition.Account
	a.Impressions = partition.ImpressionAccount{Paid: 1, Expired: 1, Defaulted: 1, Unselected: 1, Duplicate: 1, Rejected: 1}
	a.Selections = partition.SelectionAccount{Joined: 1, Duplicate: 1, Late: 1, Orphan: 1, Rejected: 1}
	a.Payoffs = partition.PayoffAccount{Applied: 1, Duplicate: 1, Late: 1, Orphan: 1, Rejected: 1}
	for _, o := range outcomes {
		a.Read[o.record]++
		assert.Equal(t, int64(1), o.of(&a))
	}
	assert.Zero(t, a.Unaccounted())
}

func TestMetricNamesKeepPrometheusConventions(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	RegisterBuildInfo(reg, "v1", "abc")
	m.Observe(0, running(), &task.Observations{}, 60_000)
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		name := f.GetName()
		assert.True(t, strings.HasPrefix(name, "ranker_"), name)
		assert.NotEmpty(t, f.GetHelp(), name)
		assert.Equal(t, f.GetType().String() == "COUNTER", strings.HasSuffix(name, "_total"), name)
		for _, sample := range f.Metric {
			for _, l := range sample.Label {
				assert.Contains(t, []string{"topic", "reason", "outcome", "learner", "partition", "phase", "quantile", "end", "version",
					"revision", "go_version"}, l.GetName(), name)
			}
		}
	}
	assert.Panics(t, func() { NewMetrics(reg) }, "registered twice")
}

func TestKafkaGosLogIsDebug(t *testing.T) {
	var b bytes.Buffer
	level := new(slog.LevelVar)
	log := kafkaLogger{slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))}
	log.Printf("joined %s\n", "g")
	assert.Empty(t, b.String())
	level.Set(slog.LevelDebug)
	log.Printf("joined %s\n", "g")
	assert.Contains(t, b.String(), `msg="kafka-go: joined g"`)
}

// The cost of a loop's metrics: 200 ms' worth at 10,000 impressions a second.
func BenchmarkObserve(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	m.Rebalanced(1)
	o, s := &task.Observations{Stepped: [event.Inputs]int64{2000, 2000, 2000}}, running()
	for i := range 2000 {
		o.Latencies = append(o.Latencies, int64(i%50))
	}
	for range 20 {
		o.Produces = append(o.Produces, task.Sample{Size: 100, Took: time.Millisecond})
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(0, s, o, 60_000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/impression")
}

func BenchmarkScrape(b *testing.B) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	for p := range int32(100) {
		m.Observe(p, running(), &task.Observations{}, 60_000)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
