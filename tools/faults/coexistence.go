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
		return Fault{Kind: kind, Uses: ownGroup, Takes: takes, Inject: func(ctx context.Context, scene *Scene) error {
			return runIsolated(ctx, scene, sc)
		}}
	}
	return []Fault{
		inOwnGroup("mixed configurations", 40*time.Second, isolatedRun{
			Settings: Settings{Partitions: 4, Workers: 2, Rate: 400, Tidy: true, Learners: staleLearners},
			do:       mixConfigurations, end: noDeadLetters}),
		inOwnGroup("one worker's learner changed", 40*time.Second, isolatedRun{
			Settings: Settings{Partitions: 4, Workers: 2, Rate: 400, Tidy: true, Learners: staleLearners},
			do:       changeOneWorker, end: noDeadLetters}),
		inOwnGroup("one worker's credentials wrong", 30*time.Second, isolatedRun{
			Settings: Settings{Partitions: 4, Workers: 3, Rate: 400, Tidy: true, Learners: staleLearners},
			do:       spoilCredentials, end: noDeadLetters}),
		inOwnGroup("one worker's credentials changed while it runs", 60*time.Second, isolatedRun{
			Settings: Settings{Partitions: 4, Workers: 3, Rate: 400, Tidy: true, Learners: staleLearners},
			do:       changeCredentials, end: noDeadLetters}),
		inOwnGroup("foreign rankings", 30*time.Second, isolatedRun{do: writeForeign}),
		inOwnGroup("tight parking", 30*time.Second, isolatedRun{
			Settings: Settings{Rate: 400, Tidy: true}, begin: withLittleRoom, do: lagOneTopic, end: noOrphans}),
		{Kind: "forgetful coordinator", Uses: ownGroup, Takes: 40 * time.Second, Inject: forgetfulCoordinator},
	}
}

// staleLearners are a configuration's learners before a rollout, and freshLearner the new one.
const (
	staleLearners = "\n  feed: {payoffs: stochastic, policy: elimination, default: true}\n"
	freshLearner  = "learners:\n  fresh: {payoffs: stochastic, policy: greedy}\n"
)

// mixConfigurations lets one worker have a learner that the other lacks, while impressions come for it.
func mixConfigurations(ctx context.Context, s *isolated) error {
	before, err := s.Config()
	if err != nil {
		return err
	}
	s.earlier = append(s.earlier, before)
	s.edit = strings.NewReplacer("learners:\n", freshLearner).Replace
	old, fresh := s.Slots[0], s.Slots[1]
	if err := s.reload(ctx, fresh); err != nil {
		return err
	}
	if err := must(ctx, old.AwaitSaid(ctx, "other workers of the group have learners that this one lacks")); err != nil {
		return err
	}
	for round := range 2 {
		if err := s.Traffic.instruct(ctx, 0, instruction{make: s.forFresh(round)}); err != nil {
			return err
		}
		waits := `learner "fresh" is not configured here, but it is at another worker of the group`
		if err := must(ctx, old.AwaitUnready(ctx, 30*time.Second, waits)); err != nil {
			return err
		}
		if err := old.Kill(); err != nil {
			return err
		}
		// The other one takes over waiting records, and then must share again with a worker that is not announced.
		pause(ctx, s.c.Session)
		if err := errors.Join(s.forgetWorkers(ctx), old.Start(), old.AwaitReady(ctx)); err != nil {
			return err
		}
	}
	return s.reload(ctx, old)
}

// forgetWorkers deletes the workers' announcements, as a failover of that shard alone may.
func (s *isolated) forgetWorkers(ctx context.Context) error {
	return s.redis.use(func(c goredis.UniversalClient) error { return c.Unlink(ctx, "{"+s.Name+":workers}").Err() })
}

// changeOneWorker gives one worker a learner that does not fit the state. It stays outside of the group until it gets the learner back,
// also while the other one is killed and started again.
func changeOneWorker(ctx context.Context, s *isolated) error {
	right, wrong := s.Slots[0], s.Slots[1]
	wrong.edit = strings.NewReplacer("feed: {", "feed: {payoff_range: [0, 2], ").Replace
	if err := errors.Join(wrong.Stop(), wrong.configure(), wrong.Start()); err != nil {
		return err
	}
	const outside = `learner does not fit the stored state: "feed"`
	if err := must(ctx, errors.Join(wrong.AwaitUnready(ctx, stopPatience, outside), right.AwaitReady(ctx))); err != nil {
		return err
	}
	pause(ctx, 2*time.Second) // the other one ranks
	if err := errors.Join(right.Kill(), right.Start()); err != nil {
		return err
	}
	if err := must(ctx, errors.Join(right.AwaitReady(ctx), wrong.AwaitUnready(ctx, stopPatience, outside))); err != nil {
		return err
	}
	wrong.edit = nil
	return s.reload(ctx, wrong)
}

func (s *isolated) reload(ctx context.Context, w *Worker) error {
	if err := errors.Join(w.Stop(), w.configure(), w.Start()); err != nil {
		return err
	}
	return w.AwaitReady(ctx)
}

// forFresh makes impressions, and the records that follow, for the learner that only some workers have.
func (s *isolated) forFresh(round int) func(*rand.Rand, *producer) []*kgo.Record {
	return func(_ *rand.Rand, p *producer) (batch []*kgo.Record) {
		for i := range 200 {
			id := fmt.Appendf(nil, "fresh-%d-%d", round, i)
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
func noDeadLetters(ctx context.Context, s *isolated) error {
	if err := s.keepsLaws(ctx); err != nil {
		return err
	}
	return s.none(ctx, "rejected")
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
func writeForeign(ctx context.Context, s *isolated) error {
	for _, opts := range [][]kgo.Opt{nil, {kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks())}} {
		wrote := 0
		if err := s.meanwhile(ctx, func() (err error) {
			pause(ctx, 2*time.Second) // impressions come
			wrote, err = s.forge(ctx, opts...)
			return err
		}); err != nil {
			return err
		}
		if err := s.worker().AwaitReady(ctx); err != nil {
			return err
		}
		said := s.worker().AwaitSaid(ctx, "decisions in the log by other producers than this group's workers are ignored")
		counted := s.worker().awaitCounted(ctx, "ranker_foreign_decisions_total", wrote)
		if err := must(ctx, errors.Join(said, counted)); err != nil {
			return err
		}
		if _, err := s.forge(ctx, opts...); err != nil { // between those of a running worker
			return err
		}
		pause(ctx, 2*time.Second)
	}
	return nil
}

// forge writes decisions, and returns their number.
func (s *isolated) forge(ctx context.Context, opts ...kgo.Opt) (int, error) {
	last := make([][]byte, s.Partitions)
	rankings, err := s.client(ctx, event.Rankings)
	if err != nil {
		return 0, err
	}
	if err := s.readAll(ctx, rankings, event.Rankings, func(r *kgo.Record) {
		if r.Value != nil {
			last[r.Partition] = r.Value
		}
	}); err != nil {
		return 0, err
	}
	dec := event.NewDecoder(event.Limits{})
	of := make([]event.Ranking, s.Partitions)
	var forged []*kgo.Record
	add := func(p int32, id, value []byte) {
		forged = append(forged, &kgo.Record{Topic: s.Topics[event.Rankings], Partition: p, Key: id, Value: value,
			Headers: []kgo.RecordHeader{{Key: foreignHeader}}})
	}
	for p, value := range last {
		if err := dec.Ranking(&of[p], value); err != nil {
			return 0, fmt.Errorf("read a ranking: %w", err)
		}
		add(int32(p), of[p].ID, value)
		dec = event.NewDecoder(event.Limits{}) // the ranking is the decoder's memory
	}
	impressions, err := s.client(ctx, event.Impressions, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return 0, err
	}
	if err := s.readAll(ctx, impressions, event.Impressions, func(r *kgo.Record) {
		if d := &of[r.Partition]; r.Offset > d.Decision.Offset {
			d.ID, d.Decision.Offset = r.Key, r.Offset
			add(r.Partition, r.Key, event.AppendRanking(nil, d))
		}
	}); err != nil {
		return 0, err
	}
	c, err := s.c.client(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return len(forged), c.ProduceSync(ctx, forged...).FirstErr()
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

// withLittleRoom starts the workers with room for a few parked records.
func withLittleRoom(ctx context.Context, s *isolated) error {
	s.edit = strings.NewReplacer("join: {", "join: {max_parked: 20, ").Replace
	for _, w := range s.Slots {
		if err := w.configure(); err != nil {
			return err
		}
	}
	return s.startAll(ctx)
}

// enoughPayoffs are far more than withLittleRoom has room for.
const enoughPayoffs = 200

// lagOneTopic lets a transaction hang on selections, so that more payoffs must wait than there is room for. Beside a broker that is down
// the transaction may fail, too few payoffs may be sent, or the worker waits for the broker.
func lagOneTopic(ctx context.Context, s *isolated) error {
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
		return fmt.Errorf("%w: %d batches failed meanwhile, %d payoffs were sent, ready: %t (%v)", errNotNow, failed, sent, ready, err)
	}
	return must(ctx, err)
}

// noOrphans is an end at which no record was dropped for lack of room or of its impression.
func noOrphans(ctx context.Context, s *isolated) error {
	if err := s.keepsLaws(ctx); err != nil {
		return err
	}
	return s.unlessHung(s.none(ctx, "orphan"))
}

// forgetfulCoordinator has a broker lose its transaction coordinator's log, so that the next owner gets another
// producer id. It has its own cluster of one broker; its traffic has no transactions, which would hang for ever.
func forgetfulCoordinator(ctx context.Context, scene *Scene) (err error) {
	own := &Cluster{Calm: scene.c.Calm, Session: scene.c.Session, dir: scene.c.dir, binary: scene.c.binary, say: scene.c.say}
	defer func() { err = errors.Join(err, own.closeKafka()) }()
	if err := own.startKafka(ctx, 1, nil); err != nil {
		return err
	}
	sc := isolatedRun{Settings: Settings{Tidy: true, Rate: 400}, cluster: own}
	sc.do = func(ctx context.Context, s *isolated) error {
		if err := s.meanwhile(ctx, func() error { return own.forgetTransactions(ctx) }); err != nil {
			return err
		}
		if err := must(ctx, s.worker().AwaitReady(ctx)); err != nil {
			return err
		}
		return must(ctx, until(ctx, 30*time.Second, "all partitions have had another producer id", func() (bool, error) {
			metas, err := s.stored(ctx)
			for _, meta := range metas {
				if former := meta["former_producers"]; former == "" || former == "[]" {
					return false, err
				}
			}
			return true, err
		}))
	}
	return runIsolated(ctx, scene, sc)
}

// forgetTransactions restarts the only broker without its transaction coordinator's log.
func (c *Cluster) forgetTransactions(ctx context.Context) error {
	b := c.Kafka.Brokers[0]
	if err := b.Kill(); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(b.Data(), "__transaction_state-*"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("%d logs of the transaction coordinator in %s: %w", len(logs), b.Data(), err)
	}
	for _, dir := range logs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a log of the transaction coordinator: %w", err)
		}
	}
	return b.Start(ctx)
}
