package stream

import (
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// topicLabels are the values of the label "topic": a topic's purpose, whatever its name.
var topicLabels = [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}

// Metrics are the worker's metrics, with the prefix ranker_ and in base units. No label holds a user,
// an item or an impression; a partition is a label only where partitions differ to some purpose.
//
// A partition's account is part of its state and moves with it. Counters are this process's: the increase of
// the account here, from zero at the process's start. So rate() is right wherever a partition goes, and the sum
// over workers is the group's. Steps repeated after a fault count again; `state inspect` has the exact account.
//
// Gauges are computed at each scrape from the last Snapshot of each loop. All methods are safe for concurrent use.
type Metrics struct {
	read, misplaced, misspelt, crowded [event.Inputs]prometheus.Counter // crowded: not for impressions, which never wait
	outcomes                           [len(outcomes)]prometheus.Counter
	rankings, adopted, fenced          prometheus.Counter
	retries, payoffsClamped, foreign   prometheus.Counter
	lookedUp, walked, gaps             prometheus.Counter
	rebalances                         prometheus.Counter
	assigned, parting, unfit, memory   prometheus.Gauge
	deadLetters                        *prometheus.CounterVec

	rankingLatency               prometheus.Histogram
	produceTime, checkpointTime  prometheus.Histogram
	fetchTime, lookupTime        prometheus.Histogram
	produceBatch, checkpointSize prometheus.Histogram

	snapshots *snapshots
	totals    *learnerTotals

	mu          sync.Mutex
	letters     []Letter // the last ones, oldest first
	owns        bool     // between the beginning and the end of a generation
	learners    learnerCounters
	experiments experimentCounters
}

// NewMetrics registers the worker's metrics. It panics if they are registered there already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := factory{promauto.With(reg)}
	m := &Metrics{
		rankings:       f.counter("rankings_total", "Rankings acknowledged by Kafka."),
		adopted:        f.counter("adopted_decisions_total", "Decisions of an earlier owner found in the log and taken over."),
		fenced:         f.counter("fenced_total", "Times that a partition's memory was dropped, because another owner or a rolled-back store was met."),
		foreign:        f.counter("foreign_decisions_total", "Decisions of this group in the log by other producers than its workers; they do not count."),
		gaps:           f.counter("observation_gaps_total", "Times that rankings' headers left out observations, because of their size; no replay can check the rankings that follow."),
		retries:        f.counter("retries_total", "Passing errors of Kafka or the store, each tried again."),
		payoffsClamped: f.counter("payoffs_clamped_total", "Payoffs, or sums of them, outside the payoff range, which counted as its nearer end."),
		lookedUp:       f.counter("looked_up_ids_total", "Impression ids looked up in the store."),
		walked:         f.counter("expiry_walked_ids_total", "Impression ids that the expiry walk came by."),
		rebalances:     f.counter("rebalances_total", "Generations of the group that this worker took part in."),
		assigned:       f.gauge("partitions_assigned", "Partition numbers that this worker owns."),
		parting:        f.gauge("partitioners_differ", "1 while producers place keys by different partitioners, which parts the records of one impression."),
		unfit:          f.gauge("unfit", "1 while this worker stays outside of its group, since it is not fit to work."),
		memory:         f.gauge("redis_memory_ratio", "Memory that Redis uses, as a share of maxmemory or else of its machine's, of its fullest server; 0: not known."),
		deadLetters:    f.counters("dead_letters_total", "Refused input records, by topic and reason.", "topic", "reason"),
		learners:       newLearnerCounters(f),
		experiments:    newExperimentCounters(f),
		snapshots:      &snapshots{all: map[int32]*partitionSnapshot{}},
		totals:         newLearnerTotals(),
		produceBatch:   f.histogram("produce_batch_records", "Rankings in one batch to Kafka.", sizeBuckets),
		checkpointSize: f.histogram("checkpoint_changes", "Fields, entries and due marks written by one checkpoint.",
			sizeBuckets),
		rankingLatency: f.histogram("impression_to_ranking_seconds",
			"From the Kafka timestamp of an impression to the acknowledgement of its ranking.", latencyBuckets),
		produceTime:    f.histogram("produce_duration_seconds", "One batch of rankings to Kafka, until acknowledged.", latencyBuckets),
		checkpointTime: f.histogram("checkpoint_duration_seconds", "One checkpoint to the store, until acknowledged.", latencyBuckets),
		fetchTime:      f.histogram("fetch_duration_seconds", "One fetch from Kafka, its wait for records included.", latencyBuckets),
		lookupTime:     f.histogram("lookup_duration_seconds", "One look-up of pending impressions in the store.", latencyBuckets),
	}
	for i, vec := range outcomeVectors(f) {
		m.outcomes[i] = vec.WithLabelValues(outcomes[i].label)
	}
	m.topics(f)
	reg.MustRegister(m.snapshots, m.totals)
	return m
}

func (m *Metrics) topics(f factory) {
	read := f.counters("records_read_total", "Input records stepped, by topic.", "topic")
	misspelt := f.counters("misspelt_records_total",
		"Records decoded with an unknown field that is one of ours but for case or a letter, where ours is absent.", "topic")
	misplaced := f.counters("misplaced_records_total",
		"Input records whose key belongs to another partition by Kafka's default partitioner.", "topic")
	crowded := f.counters("parking_full_records_total", "Selections and payoffs dropped because parking was full.", "topic")
	for _, topic := range []event.Topic{event.Selections, event.Payoffs} {
		m.crowded[topic] = crowded.WithLabelValues(topicLabels[topic])
	}
	for topic := range event.Topic(event.Inputs) {
		m.read[topic] = read.WithLabelValues(topicLabels[topic])
		m.misplaced[topic] = misplaced.WithLabelValues(topicLabels[topic])
		m.misspelt[topic] = misspelt.WithLabelValues(topicLabels[topic])
		for _, reason := range event.Reasons() {
			m.deadLetters.WithLabelValues(topicLabels[topic], string(reason))
		}
	}
}

// Parting sets whether producers use different partitioners.
func (m *Metrics) Parting(differ bool) { m.parting.Set(oneIf(differ)) }

// Unfit sets whether the worker stays outside of its group.
func (m *Metrics) Unfit(unfit bool) { m.unfit.Set(oneIf(unfit)) }

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Rebalanced sets the number of owned partitions: at the beginning of a generation, and 0 at its end.
func (m *Metrics) Rebalanced(partitions int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned.Set(float64(partitions))
	if m.owns && partitions == 0 {
		m.owns = false
	} else {
		m.owns = true
		m.rebalances.Inc()
	}
	m.snapshots.clear()
	clear(m.learners.before)
	clear(m.experiments.seen)
}

// Observe adds partition p's events since the last call, and its status. A loop calls it a
// few times a second, so the hot path only appends to slices. It keeps s, which must not change any more, and nothing of o.
func (m *Metrics) Observe(p int32, s *task.Status, o *task.Observations, now event.Millis) {
	for topic := range o.Stepped {
		m.read[topic].Add(float64(o.Stepped[topic]))
		add(m.misplaced[topic], o.Account.Misplaced[topic])
		add(m.misspelt[topic], o.Misspelt[topic])
		if n := o.Account.Crowded[topic]; n > 0 {
			add(m.crowded[topic], n)
		}
	}
	add(m.foreign, o.Foreign)
	add(m.gaps, o.Gaps)
	for i, c := range m.outcomes {
		add(c, outcomes[i].of(&o.Account))
	}
	add(m.payoffsClamped, o.Account.PayoffsClamped)
	add(m.adopted, o.Adopted)
	add(m.fenced, o.Fenced)
	add(m.retries, o.Retries)
	add(m.lookedUp, o.LookedUp)
	add(m.walked, o.Walked)
	for _, d := range o.DeadLetters {
		m.deadLetters.WithLabelValues(topicLabels[d.Topic], d.Reason).Inc()
	}
	m.keepLetters(p, o.DeadLetters)
	for _, ms := range o.Latencies {
		m.rankingLatency.Observe(float64(max(ms, 0)) / 1000) // clocks differ; a ranking is never before its impression
	}
	for _, b := range o.Produces {
		m.rankings.Add(float64(b.Size))
		m.produceBatch.Observe(float64(b.Size))
		m.produceTime.Observe(b.Took.Seconds())
	}
	for _, c := range o.Checkpoints {
		m.checkpointSize.Observe(float64(c.Size))
		m.checkpointTime.Observe(c.Took.Seconds())
	}
	m.observeStatuses(p, append(o.Dropped, *s))
	m.totals.observe(o)
	m.snapshots.publish(p, &partitionSnapshot{s, time.Now(), now})
}

// observeStatuses counts the increase since the last look. Between two statuses the counts restart at 0.
func (m *Metrics) observeStatuses(p int32, all []task.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, s := range all {
		if n > 0 {
			maps.DeleteFunc(m.learners.before, func(k learnerKey, _ learnerCounts) bool { return k.partition == p })
			maps.DeleteFunc(m.experiments.seen, func(k armKey, _ int64) bool { return k.partition == p })
		}
		m.experiments.observe(p, s.Experiments)
		for i := range s.Learners {
			if l := &s.Learners[i]; !l.Gone {
				m.learners.observe(p, l, m.totals)
			}
		}
	}
}

// increase returns the increase of a count that may have restarted at 0.
func increase[N int64 | float64](before, now N) N {
	if now < before {
		return now
	}
	return now - before
}

// ObserveRequest records a request's duration, if it has a metric and the task does not measure it.
func (m *Metrics) ObserveRequest(e task.Effect, took time.Duration) {
	switch e.(type) {
	case task.Fetch:
		m.fetchTime.Observe(took.Seconds())
	case task.LookUp:
		m.lookupTime.Observe(took.Seconds())
	}
}

// add adds n to a counter unless it is negative: a counter must not fall.
func add(c prometheus.Counter, n int64) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// RegisterBuildInfo adds ranker_build_info, whose value is always 1.
func RegisterBuildInfo(reg prometheus.Registerer, version, revision string) {
	factory{promauto.With(reg)}.gauges("build_info", "Version, revision and Go version of this program.", "version", "revision", "go_version").
		WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// RegisterConfigInfo adds ranker_config_info, one series whose value is always 1.
func RegisterConfigInfo(reg prometheus.Registerer, digest string) {
	factory{promauto.With(reg)}.gauges("config_info", "Which settings of learners this worker has: the fingerprint of all of them.", "fingerprint").
		WithLabelValues(digest).Set(1)
}

var (
	// latencyBuckets reach from a fast local round trip to an outage, in seconds.
	// They are fine around the aims for impression-to-ranking: p50 5 ms, p99 25 ms.
	latencyBuckets = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	sizeBuckets    = prometheus.ExponentialBuckets(1, 4, 10) // 1 to 262,144
)

// factory makes registered metrics.
type factory struct{ promauto.Factory }

const namespace = "ranker"

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}
