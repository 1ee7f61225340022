package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ownGroupFaults end a group, or leave marks in its topics: each has a group
// of its own. If a partition must stop, it must report the right reason.
func ownGroupFaults() []Fault {
	loud := func(kind, reason string, do func(ctx context.Context, s *isolated)) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Takes: 25 * time.Second, Inject: isolatedRun{do: do, end: expectStop(reason)}.runOn}
	}
	return append([]Fault{
		loud("topic recreated while read", "stopped (topic)|stopped (witness)", func(ctx context.Context, s *isolated) {
			s.recreate(ctx, event.Impressions)
		}),
		loud("topic recreated while nobody looks", "stopped (topic)|stopped (witness)", func(ctx context.Context, s *isolated) {
			s.meanwhile(func() { s.recreate(ctx, event.Payoffs) })
		}),
		loud("rankings recreated", "stopped (topic)|stopped (witness)|stopped (offsets)", func(ctx context.Context, s *isolated) {
			s.recreate(ctx, event.Rankings)
		}),
		loud("retention overtakes the worker", "stopped (topic)", func(ctx context.Context, s *isolated) {
			s.meanwhile(func() {
				pause(ctx, 2*time.Second) // more records, which nobody will have read
				s.truncate(ctx, event.Impressions)
			})
		}),
		loud("partitions added", "stopped (partitions)", func(ctx context.Context, s *isolated) { s.addPartitions(ctx) }),
		loud("topic made compacted", "is compacted", func(ctx context.Context, s *isolated) {
			s.meanwhile(func() { try(s.alter(ctx, s.Topics[event.Impressions], "cleanup.policy", "compact")) })
		}),
		loud("rankings with the producers' time", "lacks message.timestamp.type", func(ctx context.Context, s *isolated) {
			s.meanwhile(func() { try(s.alter(ctx, s.Topics[event.Rankings], "message.timestamp.type", "CreateTime")) })
		}),
		loud("redis emptied", "stopped (no_state)", func(ctx context.Context, s *isolated) { try(s.forget(ctx)) }),
		loud("learner's payoff range changed", "learner does not fit the stored state", func(ctx context.Context, s *isolated) {
			s.reconfigure("feed: {", "feed: {payoff_range: [0, 2], ")
		}),
		loud("candidates limited after a crash", "", func(ctx context.Context, s *isolated) {
			s.reconfigure("max_candidates: 30", "max_candidates: 2")
		}),
		{Kind: "redis set to evict keys", Uses: ownGroup, Takes: 20 * time.Second,
			Inject: onOwnStore("", func(ctx context.Context, s *isolated, r *Store) {
				try(r.config(ctx, "maxmemory-policy", "allkeys-lru"))
				expect(ctx, s.worker().AwaitReported(ctx, "which can delete state", "which can delete state"))
				pause(ctx, 2*time.Second)
				try(r.config(ctx, "maxmemory-policy", "noeviction"))
			})},
		{Kind: "redis has evicted keys", Uses: ownGroup, Takes: 20 * time.Second,
			Inject: onOwnStore("stopped (store)|stopped (no_state)", func(ctx context.Context, s *isolated, r *Store) {
				try(errors.Join(r.config(ctx, "maxmemory-policy", "allkeys-random"), r.config(ctx, "maxmemory", "1mb")))
			})},
		{Kind: "redis cluster: node killed and restarted", Uses: ownGroup, Takes: 25 * time.Second,
			Inject: onOwnCluster(func(ctx context.Context, s *isolated, rc *redisCluster) {
				_, node := rc.owner(ctx, s.key(0))
				try(rc.Nodes[node].Kill())
				pause(ctx, 4*time.Second)
				try(errors.Join(rc.Nodes[node].Start(ctx), rc.Await(ctx)))
			})},
		{Kind: "redis cluster: slots moved while written", Uses: ownGroup, Takes: 25 * time.Second,
			Inject: onOwnCluster(func(ctx context.Context, s *isolated, rc *redisCluster) {
				for p := range s.Partitions {
					rc.move(ctx, s.key(p))
					pause(ctx, time.Second)
				}
			})},
		{Kind: "epochs of a producer run out", Uses: ownGroupLong, Takes: 10 * time.Minute, Inject: isolatedRun{do: runOutOfEpochs}.runOn},
		withRegistry(),
		quietImpressions(),
	}, slices.Concat(uncleanElections(), coexistenceFaults())...)
}

// isolated is a group of its own, for one fault, with a worker or two and some traffic.
type isolated struct {
	*Group
	rng     *rand.Rand
	zombies int64 // the cluster's, when the run began
}

// unlessHung returns an error, or errNotNow about it if a broker has hung since the run began.
func (s *isolated) unlessHung(err error) error {
	if err != nil && s.c.hungSince(s.zombies) {
		return fmt.Errorf("%w: a broker hung beside it (%v)", errNotNow, err)
	}
	return err
}

func (s *isolated) key(p int) string { return fmt.Sprintf("{%s:%d}:meta", s.Name, p) }

func (s *isolated) worker() *Worker { return s.Slots[0] }

const stopPatience = 40 * time.Second

// isolatedRun is a run in a group of its own.
type isolatedRun struct {
	Settings
	cluster *Cluster                         // nil: the soak's own
	begin   func(context.Context, *isolated) // nil: all workers are started
	do      func(context.Context, *isolated)
	end     func(context.Context, *isolated) // nil: the group must go on and keep the laws
}

// startWith is a begin with an edited configuration.
func startWith(old, text string) func(context.Context, *isolated) {
	return func(ctx context.Context, s *isolated) {
		s.edit = strings.NewReplacer(old, text).Replace
		for _, w := range s.Slots {
			try(w.configure())
		}
		try(s.startAll(ctx))
	}
}

// expectStop is the end of a run in which a partition must stop for a reason, one of several between bars; "": none does.
// A worker that ended is started again, as a supervisor does: it ends if brokers know no topic for longer than a request may take.
func expectStop(reason string) func(context.Context, *isolated) {
	if reason == "" {
		return nil
	}
	return func(ctx context.Context, s *isolated) {
		text := ""
		if err := until(ctx, stopPatience, "a partition stops", func() (bool, error) {
			if !s.worker().Running() {
				return false, s.worker().Start()
			}
			_, text = s.worker().Ready(ctx)
			return slices.ContainsFunc(strings.Split(reason, "|"), func(r string) bool { return strings.Contains(text, r) }), nil
		}); err != nil {
			expect(ctx, fmt.Errorf("no partition stopped as it should, %s: /readyz says %q; the log ends with:\n%s", reason, text, s.worker().Log(20)))
		}
	}
}

// onOwnCluster runs a fault in a group with a Redis Cluster of its own.
func onOwnCluster(do func(context.Context, *isolated, *redisCluster)) func(context.Context, *Scene) {
	return func(ctx context.Context, scene *Scene) {
		rc := &redisCluster{get(redis.StartCluster(ctx, redis.Options{AppendOnly: true, Args: []string{"--appendfsync", "everysec"}}, 3))}
		defer undo(rc.Close)
		isolatedRun{Settings: Settings{Redis: rc}, do: func(ctx context.Context, s *isolated) { do(ctx, s, rc) }}.runOn(ctx, scene)
	}
}

// onOwnStore runs a fault in a group with a Redis of its own.
func onOwnStore(reason string, do func(context.Context, *isolated, *Store)) func(context.Context, *Scene) {
	return func(ctx context.Context, scene *Scene) {
		r := scene.store(ctx)
		defer undo(r.Close)
		isolatedRun{Settings: Settings{Redis: r}, do: func(ctx context.Context, s *isolated) { do(ctx, s, r) }, end: expectStop(reason)}.runOn(ctx, scene)
	}
}

func (s *Scene) store(ctx context.Context) *Store {
	return get(startStore(ctx, filepath.Join(s.c.dir, fmt.Sprintf("show-%x.rdb", s.rng.Uint64()))))
}

func (sc isolatedRun) runOn(ctx context.Context, scene *Scene) {
	seed, c := scene.rng.Uint64(), cmp.Or(sc.cluster, scene.c)
	set := sc.Settings
	set.Partitions, set.Seed = cmp.Or(set.Partitions, 2), seed
	set.Workers, set.Rate = cmp.Or(set.Workers, 1), cmp.Or(set.Rate, 200)
	set.Learners = cmp.Or(set.Learners, "\n  feed: {payoffs: stochastic, policy: elimination}\n")
	if set.Redis == nil {
		set.Redis = c.Calm
	}
	g := get(c.NewGroup(ctx, fmt.Sprintf("show-%x", seed), set))
	s := &isolated{Group: g, rng: scene.rng, zombies: c.zombies.Load()}
	defer undo(g.play(ctx))
	if sc.begin == nil {
		sc.begin = func(ctx context.Context, s *isolated) { try(s.startAll(ctx)) }
	}
	sc.begin(ctx, s)
	s.awaitRead(ctx)
	sc.do(ctx, s)
	if sc.end != nil {
		sc.end(ctx, s)
		return
	}
	pause(ctx, time.Second)
	s.keepsLaws(ctx)
}

// keepsLaws holds the traffic, lets the group settle, and checks all laws.
func (s *isolated) keepsLaws(ctx context.Context) {
	try(s.Traffic.Hold(ctx))
	expect(ctx, s.Settle(ctx, time.Minute))
	var found []string
	try(until(ctx, 2*time.Minute, "topics and state can be read", func() (bool, error) { // a broker may hang beside it
		short, cancel := context.WithTimeout(ctx, 40*time.Second)
		defer cancel()
		broken, _, err := s.Laws(short)
		if err != nil {
			return false, err
		}
		differences, err := s.Check(short)
		found = append(broken, differences...)
		return true, err
	}))
	expectNone(found)
}

// awaitRead waits until the state has some impressions, and each partition has payoffs: nothing else shows that a topic was recreated.
func (s *isolated) awaitRead(ctx context.Context) {
	try(s.unlessHung(until(ctx, time.Minute, "a group has begun", func() (bool, error) {
		metas, err := s.stored(ctx)
		if err != nil || slices.ContainsFunc(metas, func(meta map[string]string) bool { return cmp.Or(meta["offset.payoffs"], "0") == "0" }) {
			return false, err
		}
		account, err := s.Account(ctx)
		return account["impressions.read"] >= 300, err
	})))
}

// meanwhile calls do while the worker is down.
func (s *isolated) meanwhile(do func()) {
	try(s.worker().Kill())
	do()
	try(s.worker().Start())
}

func (s *isolated) recreate(ctx context.Context, t event.Topic) {
	get(s.c.admin.DeleteTopic(ctx, s.Topics[t]))
	try(until(ctx, 30*time.Second, "a topic is created again", func() (bool, error) { return true, s.createTopics(ctx) }))
}

// drop deletes the group's topics, if they exist.
func (g *Group) drop(ctx context.Context) {
	for t, topic := range g.Topics {
		_, _ = g.c.admin.DeleteTopic(ctx, topic)
		if event.Topic(t) != event.Rankings {
			_, _ = g.c.admin.DeleteTopic(ctx, topic+".dlq")
		}
	}
}

// truncate deletes all records of a topic.
func (s *isolated) truncate(ctx context.Context, t event.Topic) {
	all := kadm.Offsets{}
	for p := range s.Partitions {
		all.AddOffset(s.Topics[t], int32(p), -1, -1)
	}
	// Another fault may have a broker down just now.
	try(until(ctx, time.Minute, "records are deleted", func() (bool, error) {
		deleted, err := s.c.admin.DeleteRecords(ctx, all)
		return true, errors.Join(err, deleted.Error())
	}))
}

func (s *isolated) addPartitions(ctx context.Context) {
	added := get(s.c.admin.CreatePartitions(ctx, s.Partitions, s.Topics[:]...))
	try(added.Error())
}

func (g *Group) alter(ctx context.Context, topic, name, value string) error {
	altered, err := g.c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	for _, one := range altered {
		err = errors.Join(err, one.Err)
	}
	if err != nil {
		return fmt.Errorf("alter a topic: %w", err)
	}
	return nil
}

// forget deletes the group's keys in Redis.
func (s *isolated) forget(ctx context.Context) error {
	return s.redis.use(func(c goredis.UniversalClient) error {
		for p := range s.Partitions {
			keys := c.Scan(ctx, 0, fmt.Sprintf("{%s:%d}:*", s.Name, p), 1000).Iterator()
			var all []string
			for keys.Next(ctx) {
				all = append(all, keys.Val())
			}
			if err := keys.Err(); err != nil {
				return fmt.Errorf("list keys: %w", err)
			}
			if len(all) == 0 {
				continue
			}
			if err := c.Unlink(ctx, all...).Err(); err != nil {
				return fmt.Errorf("delete keys: %w", err)
			}
		}
		return nil
	})
}

func (s *isolated) reconfigure(old, text string) {
	before := get(s.Config())
	s.meanwhile(func() {
		s.earlier = append(s.earlier, before)
		s.edit = strings.NewReplacer(old, text).Replace
		try(s.worker().configure())
	})
}

// lastEpoch is the epoch after which the broker issues another producer id.
const lastEpoch = 32_766

// runOutOfEpochs raises the epoch of partition 0's producer to just below its end while the worker is down, as restarts
// over many years would. Each of the 32,000 calls waits for three copies, which takes many minutes on a busy machine.
func runOutOfEpochs(ctx context.Context, s *isolated) {
	client := get(s.c.client())
	defer client.Close()
	s.meanwhile(func() {
		id, epoch := int64(-1), int16(-1)
		for epoch < lastEpoch-4 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID = kmsg.StringPtr(s.Name + "-0")
			req.TransactionTimeoutMillis = 30_000
			req.ProducerID, req.ProducerEpoch = id, epoch
			res, err := req.RequestWith(ctx, client)
			if ctx.Err() != nil {
				fail(fmt.Errorf("%w: epoch %d of %d after all the time there was", errNotNow, epoch, lastEpoch))
			}
			if err != nil || res.ErrorCode != 0 {
				id, epoch = -1, -1 // a lost answer, or a coordinator that moves or is killed: begin as a new producer
				pause(ctx, 50*time.Millisecond)
				continue
			}
			id, epoch = res.ProducerID, res.ProducerEpoch
		}
	})
}
