package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// coexistenceFaults give a group of its own others' configurations, decisions and losses, or little room.
func coexistenceFaults() []Fault {
	inOwnGroup := func(kind string, takes time.Duration, sc isolatedRun) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Takes: takes, Inject: sc.runOn}
	}
	rollout := func(kind string, takes time.Duration, workers int, do func(context.Context, *isolated)) Fault {
		return inOwnGroup(kind, takes, isolatedRun{do: do, end: noDeadLetters,
			Settings: Settings{Partitions: 4, Workers: workers, Rate: 400, Tidy: true, Learners: staleLearners}})
	}
	return []Fault{
		rollout("mixed configurations", 40*time.Second, 2, mixConfigurations),
		rollout("one worker's learner changed", 40*time.Second, 2, changeOneWorker),
		rollout("one worker's credentials wrong", 30*time.Second, 3, spoilCredentials),
		rollout("one worker's credentials changed while it runs", 60*time.Second, 3, changeCredentials),
		inOwnGroup("foreign rankings", 30*time.Second, isolatedRun{do: writeForeign}),
		inOwnGroup("tight parking", 30*time.Second, isolatedRun{
			Settings: Settings{Rate: 400, Tidy: true}, begin: startWith("join: {", "join: {max_parked: 20, "), do: lagOneTopic, end: noOrphans}),
		{Kind: "forgetful coordinator", Uses: ownGroup, Takes: 40 * time.Second, Inject: forgetfulCoordinator},
	}
}

// staleLearners are a configuration's learners before a rollout, and freshLearner the new one.
const (
	staleLearners = "\n  feed: {payoffs: stochastic, policy: elimination, default: true}\n"
	freshLearner  = "learners:\n  fresh: {payoffs: stochastic, policy: greedy}\n"
)

// mixConfigurations lets one worker have a learner that the other lacks, while impressions come for it.
func mixConfigurations(ctx context.Context, s *isolated) {
	s.earlier = append(s.earlier, get(s.Config()))
	s.edit = strings.NewReplacer("learners:\n", freshLearner).Replace
	old, fresh := s.Slots[0], s.Slots[1]
	s.reload(ctx, fresh)
	expect(ctx, old.AwaitSaid(ctx, "other workers of the group have learners that this one lacks"))
	for round := range 2 {
		var waits error
		for again := range 10 { // a rebalance may move waiting records to the worker that has the learner
			try(s.Traffic.instruct(ctx, 0, instruction{make: s.forFresh(round, again)}))
			if waits = old.AwaitUnready(ctx, 6*time.Second, `learner "fresh" is not configured here, but it is at another worker of the group`); waits == nil {
				break
			}
		}
		expect(ctx, waits)
		try(old.Kill())
		// The other one takes over waiting records, and then must share again with a worker that is not announced.
		pause(ctx, s.c.Session)
		try(errors.Join(s.forgetWorkers(ctx), old.Start(), old.AwaitReady(ctx)))
	}
	s.reload(ctx, old)
}

// forgetWorkers deletes the workers' announcements, as a failover of that shard alone may.
func (s *isolated) forgetWorkers(ctx context.Context) error {
	return s.redis.use(func(c goredis.UniversalClient) error { return c.Unlink(ctx, "{"+s.Name+":workers}").Err() })
}

// changeOneWorker gives one worker a learner that does not fit the state. It stays outside of the group until it gets the learner back,
// also while the other one is killed and started again.
func changeOneWorker(ctx context.Context, s *isolated) {
	right, wrong := s.Slots[0], s.Slots[1]
	wrong.edit = strings.NewReplacer("feed: {", "feed: {payoff_range: [0, 2], ").Replace
	try(errors.Join(wrong.Stop(), wrong.configure(), wrong.Start()))
	const outside = `learner does not fit the stored state: "feed"`
	expect(ctx, errors.Join(wrong.AwaitUnready(ctx, stopPatience, outside), right.AwaitReady(ctx)))
	pause(ctx, 2*time.Second) // the other one ranks
	try(errors.Join(right.Kill(), right.Start()))
	expect(ctx, errors.Join(right.AwaitReady(ctx), wrong.AwaitUnready(ctx, stopPatience, outside)))
	wrong.edit = nil
	s.reload(ctx, wrong)
}

func (s *isolated) reload(ctx context.Context, w *Worker) {
	try(errors.Join(w.Stop(), w.configure(), w.Start()))
	try(w.AwaitReady(ctx))
}

// forFresh makes impressions, and the records that follow, for the learner that only some workers have.
func (s *isolated) forFresh(round, again int) func(*rand.Rand, *producer) []*kgo.Record {
	return func(_ *rand.Rand, p *producer) (batch []*kgo.Record) {
		for i := range 200 {
			id := fmt.Appendf(nil, "fresh-%d-%d-%d", round, again, i)
			im := event.Impression{ID: id, Learner: []byte("fresh"), HasUtilities: true,
				Candidates: []event.Candidate{{Item: []byte("a"), Utility: 2}, {Item: []byte("b"), Utility: 1}}}
			batch = append(batch, p.record(event.Impressions, id, event.AppendImpression(nil, &im)),
				p.record(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: id, Item: []byte("a")})),
				p.record(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: 0.5})))
		}
		return batch
	}
}

// noDeadLetters is an end at which no record has a dead letter.
func noDeadLetters(ctx context.Context, s *isolated) {
	s.keepsLaws(ctx)
	try(s.none(ctx, "rejected"))
}

// none checks that no record of any topic has an outcome.
func (s *isolated) none(ctx context.Context, outcome string) error {
	account, err := s.Account(ctx)
	for _, role := range roles {
		if n := account[role+"."+outcome]; n > 0 {
			return violated("%d %s are %s", n, role, outcome)
		}
	}
	return err
}

// foreignHeader marks our records in rankings.
const foreignHeader = "foreign"

// writeForeign writes decisions of the group that none of its workers has made: copies of the last,
// and of impressions without a ranking. The next owner reports them, and ranks these impressions.
func writeForeign(ctx context.Context, s *isolated) {
	for _, opts := range [][]kgo.Opt{nil, {kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks())}} {
		wrote := 0
		s.meanwhile(func() {
			pause(ctx, 2*time.Second) // impressions come
			wrote = s.forge(ctx, opts...)
		})
		try(s.worker().AwaitReady(ctx))
		expect(ctx, s.worker().AwaitSaid(ctx, "decisions in the log by other producers than this group's workers are ignored"))
		expect(ctx, s.worker().awaitCounted(ctx, "ranker_foreign_decisions_total", wrote))
		s.forge(ctx, opts...) // between those of a running worker
		pause(ctx, 2*time.Second)
	}
}

// forge writes decisions, and returns their number.
func (s *isolated) forge(ctx context.Context, opts ...kgo.Opt) int {
	last := make([][]byte, s.Partitions)
	try(s.readAll(ctx, event.Rankings, func(r *kgo.Record) {
		if r.Value != nil {
			last[r.Partition] = r.Value
		}
	}))
	dec := event.NewDecoder(event.Limits{})
	of := make([]event.Ranking, s.Partitions)
	var forged []*kgo.Record
	add := func(p int32, id, value []byte) {
		forged = append(forged, &kgo.Record{Topic: s.Topics[event.Rankings], Partition: p, Key: id, Value: value,
			Headers: []kgo.RecordHeader{{Key: foreignHeader}}})
	}
	for p, value := range last {
		try(dec.Ranking(&of[p], value))
		add(int32(p), of[p].ID, value)
		dec = event.NewDecoder(event.Limits{}) // the ranking is the decoder's memory
	}
	try(s.readAll(ctx, event.Impressions, func(r *kgo.Record) {
		if d := &of[r.Partition]; r.Offset > d.Decision.Offset {
			d.ID, d.Decision.Offset = r.Key, r.Offset
			add(r.Partition, r.Key, event.AppendRanking(nil, d))
		}
	}, kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	c := get(s.c.client(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...))
	defer c.Close()
	try(c.ProduceSync(ctx, forged...).FirstErr())
	return len(forged)
}

// AwaitSaid waits until the worker's log contains a text.
func (w *Worker) AwaitSaid(ctx context.Context, what string) error {
	return until(ctx, 30*time.Second, "the log says "+what, func() (bool, error) { return strings.Contains(w.Log(1000), what), nil })
}

// awaitCounted waits until a metric without labels is at least n.
func (w *Worker) awaitCounted(ctx context.Context, metric string, n int) error {
	line := regexp.MustCompile(`(?m)^` + metric + ` (\S+)$`)
	return until(ctx, 30*time.Second, fmt.Sprintf("%s is %d", metric, n), func() (bool, error) {
		_, text, err := w.get(ctx, "/metrics")
		if found := line.FindStringSubmatch(text); err == nil && found != nil {
			value, err := strconv.ParseFloat(found[1], 64)
			return value >= float64(n), err
		}
		return false, err
	})
}

// enoughPayoffs are far more than there is room for.
const enoughPayoffs = 200

// lagOneTopic lets a transaction hang on selections, so that more payoffs must wait than there is room for. Beside a broker that is down
// the transaction may fail, too few payoffs may be sent, or the worker waits for the broker.
func lagOneTopic(ctx context.Context, s *isolated) {
	t := s.Traffic
	failed, sent := t.Errors.Load(), t.Sent[event.Payoffs].Load()
	hanging, over := context.WithCancel(ctx)
	go func() {
		defer over()
		_ = t.instruct(ctx, 1, instruction{hang: 12 * time.Second, make: func(_ *rand.Rand, p *producer) (batch []*kgo.Record) { // fails with ctx
			for k := range 40 { // enough to reach every partition
				im := p.t.population.Impression(2 * k) // of the other producer, which sends these alone
				s := event.Selection{ID: []byte(im.ID), Item: []byte(im.Candidates[0].Item)}
				batch = append(batch, p.record(event.Selections, s.ID, event.AppendSelection(nil, &s)))
			}
			return batch
		}})
	}()
	err := s.worker().AwaitUnready(hanging, time.Minute, "parking is full")
	ready, _ := s.worker().Ready(ctx)
	<-hanging.Done()
	failed, sent = t.Errors.Load()-failed, t.Sent[event.Payoffs].Load()-sent
	if err != nil && (!ready || failed > 0 || sent < enoughPayoffs) {
		fail(fmt.Errorf("%w: %d batches failed meanwhile, %d payoffs were sent, ready: %t (%v)", errNotNow, failed, sent, ready, err))
	}
	expect(ctx, err)
}

// noOrphans is an end at which no record was dropped for lack of room or of its impression.
func noOrphans(ctx context.Context, s *isolated) {
	s.keepsLaws(ctx)
	try(s.unlessHung(s.none(ctx, "orphan")))
}

// forgetfulCoordinator has a broker lose its transaction coordinator's log, so that the next owner gets another
// producer id. It has its own cluster of one broker; its traffic has no transactions, which would hang for ever.
func forgetfulCoordinator(ctx context.Context, scene *Scene) {
	own := &Cluster{Calm: scene.c.Calm, Session: scene.c.Session, dir: scene.c.dir, binary: scene.c.binary, say: scene.c.say}
	defer undo(own.closeKafka)
	try(own.startKafka(ctx, 1, nil))
	isolatedRun{Settings: Settings{Tidy: true, Rate: 400}, cluster: own, do: func(ctx context.Context, s *isolated) {
		s.meanwhile(func() { own.forgetTransactions(ctx) })
		expect(ctx, s.worker().AwaitReady(ctx))
		expect(ctx, until(ctx, 30*time.Second, "all partitions have had another producer id", func() (bool, error) {
			metas, err := s.stored(ctx)
			for _, meta := range metas {
				if former := meta["former_producers"]; former == "" || former == "[]" {
					return false, err
				}
			}
			return true, err
		}))
	}}.runOn(ctx, scene)
}

// forgetTransactions restarts the only broker without its transaction coordinator's log.
func (c *Cluster) forgetTransactions(ctx context.Context) {
	b := c.Kafka.Brokers[0]
	try(b.Kill())
	logs := get(filepath.Glob(filepath.Join(b.Data(), "__transaction_state-*")))
	if len(logs) == 0 {
		fail(fmt.Errorf("no log of the transaction coordinator in %s", b.Data()))
	}
	for _, dir := range logs {
		try(os.RemoveAll(dir))
	}
	try(b.Start(ctx))
}
