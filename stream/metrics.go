package stream

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
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
	impressions, selections, payoffs   []outcomeCounter
	rankings, adopted, fenced          prometheus.Counter
	retries, payoffsClamped, foreign   prometheus.Counter
	lookedUp, walked, gaps             prometheus.Counter
	rebalances                         prometheus.Counter
	assigned, parting, unfit           prometheus.Gauge
	deadLetters                        *prometheus.CounterVec

	rankingLatency               prometheus.Histogram
	produceTime, checkpointTime  prometheus.Histogram
	fetchTime, lookupTime        prometheus.Histogram
	produceBatch, checkpointSize prometheus.Histogram

	snapshots *Snapshots
	totals    *learnerTotals

	mu       sync.Mutex
	letters  []Letter // the last ones, oldest first
	owns     bool     // between the beginning and the end of a generation
	learners map[learnerKey]learnerCounts
	holds    *prometheus.CounterVec
	ended    *prometheus.CounterVec
	unfed    *prometheus.CounterVec
	shifts   *prometheus.CounterVec
	fits     *prometheus.CounterVec

	burnIn, contradictions, unrated *prometheus.CounterVec
	blocked, rare, rareExpected     *prometheus.CounterVec
	filled, incomplete              *prometheus.CounterVec
	experiments                     experimentCounters
	contexts                        contextCounters
}

type learnerKey struct {
	partition int32
	learner   string
}

type learnerCounts struct {
	holds, ended, unfed, shifts, fits, burnIn, contradictions, unrated, blocked, rare int64
	rareExpected                                                                      float64
	value                                                                             LearnerValue
	filled                                                                            partition.FilledStatus
}

// outcomeCounter is a counter and the account's count that it follows.
type outcomeCounter struct {
	counter prometheus.Counter
	of      func(a *partition.Account) int64
}

// NewMetrics registers the worker's metrics. It panics if they are registered there already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := factory{reg}
	m := &Metrics{
		rankings:       f.counter("rankings_total", "Rankings acknowledged by Kafka."),
		adopted:        f.counter("adopted_decisions_total", "Decisions of an earlier owner found in the log and taken over."),
		fenced:         f.counter("fenced_total", "Times that a partition's memory was dropped, because another owner or a rolled-back store was met."),
		foreign:        f.counter("foreign_decisions_total", "Decisions of this group in the log by other producers than its workers; they do not count."),
		gaps:           f.counter("seen_gaps_total", "Times that rankings' headers left out observations, because of their size; no replay can check the rankings that follow."),
		retries:        f.counter("retries_total", "Passing errors of Kafka or the store, each tried again."),
		payoffsClamped: f.counter("payoffs_clamped_total", "Payoffs, or sums of them, outside the payoff range, which counted as its nearer end."),
		lookedUp:       f.counter("looked_up_ids_total", "Impression ids looked up in the store."),
		walked:         f.counter("expiry_walked_ids_total", "Impression ids that the expiry walk came by."),
		rebalances:     f.counter("rebalances_total", "Generations of the group that this worker took part in."),
		assigned:       f.gauge("partitions_assigned", "Partition numbers that this worker owns."),
		parting:        f.gauge("partitioners_differ", "1 while producers place keys by different partitioners, which parts the records of one impression."),
		unfit:          f.gauge("unfit", "1 while this worker stays outside of its group, since it is not fit to work."),
		deadLetters:    f.counters("dead_letters_total", "Refused input records, by topic and reason.", "topic", "reason"),
		holds:          f.counters("holds_total", "Times that QPM-D began to wait for a payoff of one item.", "learner"),
		ended:          f.counters("ended_items_total", "Items that were dropped, for no impression had carried them for item_retention; an item counts in each partition that had met it.", "learner"),
		unfed:          f.counters("unfed_payoffs_total", "Payoffs that an adversarial learner could not use: their decision's record lacked propensities or instance.", "learner"),
		shifts:         f.counters("level_changes_total", "Times that a partition found the level of payoffs to have changed, after it had stayed.", "learner"),
		fits:           f.counters("fits_total", "Fits of the model of payoffs, by learners with a context.", "learner"),
		burnIn:         f.counters("burn_in_impressions_total", "Impressions ranked so as to find the order of utilities.", "learner"),
		contradictions: f.counters("contradictions_total", "Selections against an order of utilities that was certain.", "learner"),
		unrated:        f.counters("unrated_selections_total", "Selections without the utility that social learning needs.", "learner"),
		blocked:        f.counters("blocked_selections_total", "Selections of an item behind one with a higher utility, which no window explains; if rankings record the order of utilities.", "learner"),
		rare:           f.counters("rare_selections_total", "Selections of an item whose recorded propensity was below 1/1,000.", "learner"),
		filled:         f.counters("filled_utilities_total", "Candidates that were sent without a utility, and had the median of the others'.", "learner"),
		incomplete:     f.counters("filled_impressions_total", "Impressions with such candidates.", "learner"),
		rareExpected:   f.counters("rare_selections_expected_total", "The sum of all propensities below 1/1,000 of the impressions selected from: as many rare selections as expected.", "learner"),
		learners:       map[learnerKey]learnerCounts{},
		experiments:    newExperimentCounters(f),
		contexts:       newContextCounters(f),
		snapshots:      NewSnapshots(),
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
	m.topics(f)
	m.outcomes(f)
	reg.MustRegister(m.snapshots, m.totals)
	return m
}

func (m *Metrics) topics(f factory) {
	read := f.counters("records_read_total", "Input records stepped, by topic.", "topic")
	misspelt := f.counters("misspelt_records_total",
		"Records decoded with an unknown field that is one of ours but for case or a letter, where ours is absent.", "topic")
	misplaced := f.counters("misplaced_records_total",
		"Input records whose key belongs to another partition by Kafka's default partitioner.", "topic")
	crowded := f.counters("crowded_records_total", "Selections and payoffs dropped because parking was full.", "topic")
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

// outcomes makes the counters of ended records. Pending and parked ones are gauges.
func (m *Metrics) outcomes(f factory) {
	type account = partition.Account
	i := f.counters("impressions_total", "Impressions that have ended, by how.", "outcome")
	m.impressions = []outcomeCounter{
		{i.WithLabelValues("paid"), func(a *account) int64 { return a.Impressions.Paid }},
		{i.WithLabelValues("expired"), func(a *account) int64 { return a.Impressions.Expired }},
		{i.WithLabelValues("defaulted"), func(a *account) int64 { return a.Impressions.Defaulted }},
		{i.WithLabelValues("unselected"), func(a *account) int64 { return a.Impressions.Unselected }},
		{i.WithLabelValues("duplicate"), func(a *account) int64 { return a.Impressions.Duplicate }},
		{i.WithLabelValues("rejected"), func(a *account) int64 { return a.Impressions.Rejected }},
	}
	s := f.counters("selections_total", "Selections that have ended, by how.", "outcome")
	m.selections = []outcomeCounter{
		{s.WithLabelValues("joined"), func(a *account) int64 { return a.Selections.Joined }},
		{s.WithLabelValues("duplicate"), func(a *account) int64 { return a.Selections.Duplicate }},
		{s.WithLabelValues("late"), func(a *account) int64 { return a.Selections.Late }},
		{s.WithLabelValues("orphan"), func(a *account) int64 { return a.Selections.Orphan }},
		{s.WithLabelValues("rejected"), func(a *account) int64 { return a.Selections.Rejected }},
	}
	p := f.counters("payoffs_total", "Payoffs that have ended, by how.", "outcome")
	m.payoffs = []outcomeCounter{
		{p.WithLabelValues("applied"), func(a *account) int64 { return a.Payoffs.Applied }},
		{p.WithLabelValues("duplicate"), func(a *account) int64 { return a.Payoffs.Duplicate }},
		{p.WithLabelValues("late"), func(a *account) int64 { return a.Payoffs.Late }},
		{p.WithLabelValues("orphan"), func(a *account) int64 { return a.Payoffs.Orphan }},
		{p.WithLabelValues("rejected"), func(a *account) int64 { return a.Payoffs.Rejected }},
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
	m.snapshots.Clear()
	clear(m.learners)
	clear(m.contexts.before)
	clear(m.experiments.seen)
}

// Observe adds partition p's events since the last call, and its status. A loop calls it a
// few times a second, so the hot path only appends to slices. It keeps nothing of s or o.
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
	for _, outcomes := range [...][]outcomeCounter{m.impressions, m.selections, m.payoffs} {
		for _, c := range outcomes {
			add(c.counter, c.of(&o.Account))
		}
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
	m.observeLearners(p, s)
	m.observeExperiments(p, s)
	m.totals.observe(o)
	m.snapshots.Publish(p, snapshotOf(s, now))
}

// observeLearners counts the increase since the last look. A learner's counts restart at 0 when its state is loaded.
func (m *Metrics) observeLearners(p int32, s *task.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range s.Learners {
		l := &s.Learners[i]
		if l.Gone {
			continue
		}
		k := learnerKey{p, l.Name}
		m.contexts.observe(k, l.Context)
		before, known := m.learners[k]
		now := learnerCounts{l.Holds, l.Ended, l.Unfed, l.Level.Changes, l.Personal.Fits, l.BurnIn, l.Contradictions, l.Unrated, l.Conduct.Blocked, l.Conduct.Rare, l.Conduct.RareExpected, ValueOf(l), l.Filled}
		if now == before && known {
			continue
		}
		m.learners[k] = now
		m.totals.rise(l, &before.value, &now.value)
		m.holds.WithLabelValues(l.Name).Add(float64(increase(before.holds, now.holds)))
		m.ended.WithLabelValues(l.Name).Add(float64(increase(before.ended, now.ended)))
		m.unfed.WithLabelValues(l.Name).Add(float64(increase(before.unfed, now.unfed)))
		m.blocked.WithLabelValues(l.Name).Add(float64(increase(before.blocked, now.blocked)))
		m.rare.WithLabelValues(l.Name).Add(float64(increase(before.rare, now.rare)))
		m.rareExpected.WithLabelValues(l.Name).Add(increase(before.rareExpected, now.rareExpected))
		m.filled.WithLabelValues(l.Name).Add(float64(increase(before.filled.Candidates, now.filled.Candidates)))
		m.incomplete.WithLabelValues(l.Name).Add(float64(increase(before.filled.Impressions, now.filled.Impressions)))
		if l.Level.Tracked {
			m.shifts.WithLabelValues(l.Name).Add(float64(increase(before.shifts, now.shifts)))
		}
		if l.Personal.Known {
			m.fits.WithLabelValues(l.Name).Add(float64(increase(before.fits, now.fits)))
		}
		if l.FindsUtilities {
			m.burnIn.WithLabelValues(l.Name).Add(float64(increase(before.burnIn, now.burnIn)))
			m.contradictions.WithLabelValues(l.Name).Add(float64(increase(before.contradictions, now.contradictions)))
			m.unrated.WithLabelValues(l.Name).Add(float64(increase(before.unrated, now.unrated)))
		}
	}
}

func (m *Metrics) observeExperiments(p int32, s *task.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.experiments.observe(p, s.Experiments)
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
	factory{reg}.gauges("build_info", "Version, revision and Go version of this program.", "version", "revision", "go_version").
		WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// RegisterConfigInfo adds ranker_config_info, one series whose value is always 1.
func RegisterConfigInfo(reg prometheus.Registerer, digest string) {
	factory{reg}.gauges("config_info", "Which settings of learners this worker has: the fingerprint of all of them.", "fingerprint").
		WithLabelValues(digest).Set(1)
}

var (
	// latencyBuckets reach from a fast local round trip to an outage, in seconds.
	// They are fine around the aims for impression-to-ranking: p50 5 ms, p99
	latencyBuckets = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	sizeBuckets    = prometheus.ExponentialBuckets(1, 4, 10) // 1 to 262,144
)

type factory struct{ reg prometheus.Registerer }

const namespace = "ranker"

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	f.reg.MustRegister(c)
	return c
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	f.reg.MustRegister(c)
	return c
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	f.reg.MustRegister(g)
	return g
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	f.reg.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
	f.reg.MustRegister(h)
	return h
}
