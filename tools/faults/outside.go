package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

func redisFaults() []Fault {
	return append([]Fault{
		{Kind: "redis killed and restarted", Uses: theRedis, Inject: func(ctx context.Context, s *Scene) {
			try(s.c.Redis.Restart(ctx, s.between(time.Second, 4*time.Second)))
		}},
		{Kind: "redis frozen", Uses: theRedis, Inject: func(ctx context.Context, s *Scene) {
			r := s.c.Redis.primary
			try(r.Pause())
			pause(ctx, s.between(2*time.Second, 6*time.Second))
			try(r.Resume())
		}},
		{Kind: "redis rolled back to an older dump", Uses: theRedis, Takes: 8 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			try(s.c.Redis.Backup(ctx))
			pause(ctx, s.between(2*time.Second, 6*time.Second))
			try(s.c.Redis.RollBack(context.WithoutCancel(ctx)))
		}},
		{Kind: "redis failed over to a stalled replica", Uses: theRedis, Takes: 8 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			try(s.c.Redis.Stall(ctx))
			pause(ctx, s.between(time.Second, 4*time.Second))
			try(s.c.Redis.FailOver(context.WithoutCancel(ctx)))
		}},
		{Kind: "redis: one shard failed over to a stalled replica", Uses: theRedis, Takes: 4 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			shard := fmt.Sprintf("{%s:%d}:*", s.Name, s.rng.IntN(s.Partitions))
			stored := get(s.c.Redis.shard(ctx, shard))
			pause(ctx, s.between(time.Second, 3*time.Second))
			try(s.c.Redis.rollBackShard(context.WithoutCancel(ctx), shard, stored))
		}},
		{Kind: "redis: SCRIPT FLUSH", Uses: theRedis, Takes: time.Second, Inject: func(ctx context.Context, s *Scene) {
			try(s.c.Redis.use(func(c goredis.UniversalClient) error { return c.ScriptFlush(ctx).Err() }))
		}},
		{Kind: "redis out of memory", Uses: theRedis, Inject: func(ctx context.Context, s *Scene) {
			try(s.c.Redis.Fill(ctx, true))
			defer undo(func() error { return s.c.Redis.Fill(context.WithoutCancel(ctx), false) })
			s.says(ctx, "OOM", "OOM")
			pause(ctx, s.between(2*time.Second, 6*time.Second))
		}},
		{Kind: "redis: disk full", Uses: theRedis, Inject: func(ctx context.Context, s *Scene) {
			r := s.c.Redis.primary
			try(r.FillDisk(true))
			defer undo(func() error { return r.FillDisk(false) })
			s.says(ctx, "MISCONF", "MISCONF")
			pause(ctx, s.between(2*time.Second, 6*time.Second))
		}},
		{Kind: "redis away", Uses: redisNet, Takes: 8 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			during(ctx, s.between(4*time.Second, 12*time.Second), s.c.Redis.proxies.Refuse)
		}},
	}, netFaults("redis", redisNet, func(s *Scene) []proxies { return []proxies{s.c.Redis.proxies} })...)
}

// during does damage for a while.
func during(ctx context.Context, d time.Duration, damage func(on bool)) {
	damage(true)
	defer damage(false)
	pause(ctx, d)
}

// netFaults happen to all workers' connections with one server.
func netFaults(to string, uses Resource, servers func(*Scene) []proxies) []Fault {
	one := func(s *Scene) proxies { d := servers(s); return d[s.rng.IntN(len(d))] }
	return []Fault{
		{Kind: "connections to " + to + " cut", Uses: uses, Takes: 2 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			for range 5 {
				for _, d := range servers(s) {
					d.Cut(0.3+0.7*s.rng.Float64(), s.rng)
				}
				pause(ctx, s.between(50*time.Millisecond, 500*time.Millisecond))
			}
		}},
		{Kind: "connections to " + to + " half-open", Uses: uses, Inject: func(ctx context.Context, s *Scene) {
			during(ctx, s.between(2*time.Second, 8*time.Second), one(s).Silence)
		}},
		{Kind: to + " slowed to 200 ms", Uses: uses, Inject: func(ctx context.Context, s *Scene) {
			during(ctx, s.between(3*time.Second, 8*time.Second), slices.Concat(servers(s)...).Slow)
		}},
		{Kind: "replies of " + to + " lost", Uses: uses, Takes: 2 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			for range 5 {
				during(ctx, s.between(20*time.Millisecond, 300*time.Millisecond), one(s).Deafen)
				pause(ctx, s.between(100*time.Millisecond, 300*time.Millisecond))
			}
		}},
	}
}

func kafkaFaults() []Fault {
	return append([]Fault{
		{Kind: "broker killed and restarted", Uses: theKafka, Takes: 15 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			b := s.c.Kafka.Brokers[s.rng.IntN(brokers)]
			try(b.Kill())
			pause(ctx, s.between(time.Second, 5*time.Second))
			try(b.Start(context.WithoutCancel(ctx)))
		}},
		{Kind: "disk of a broker full", Uses: theKafka, Takes: 20 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			s.fillDisks(ctx, s.c.Kafka.Brokers[s.rng.IntN(brokers)])
		}},
		{Kind: "disks of all brokers full", Uses: theKafka, Also: []Resource{ownGroup, ownGroupLong, aPause}, Takes: 40 * time.Second,
			Inject: func(ctx context.Context, s *Scene) { s.fillDisks(ctx, s.c.Kafka.Brokers...) }},
		{Kind: "broker frozen", Uses: theKafka, Takes: 8 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			b := s.c.Kafka.Brokers[s.rng.IntN(brokers)]
			defer undo(func() error { return s.c.thaw(b) })
			try(s.c.freeze(b))
			pause(ctx, s.between(time.Second, 8*time.Second))
		}},
		{Kind: "leaders moved", Uses: theKafka, Inject: func(ctx context.Context, s *Scene) {
			s.elect(ctx, func() int { return s.rng.IntN(brokers) })
		}},
	}, netFaults("kafka", kafkaNet, func(s *Scene) []proxies { return s.c.proxies })...)
}

// fillDisks lets brokers run out of disk, which ends them, and starts them again with room.
func (s *Scene) fillDisks(ctx context.Context, full ...*kafka.Broker) {
	const patience = 30 * time.Second
	var filled errgroup.Group
	for _, b := range full {
		filled.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return b.FillDisk(ctx)
		})
	}
	defer undo(func() error {
		var back errgroup.Group // another: the first keeps its error
		for _, b := range full {
			back.Go(func() error { return errors.Join(b.Kill(), b.Start(context.WithoutCancel(ctx))) })
		}
		return back.Wait()
	})
	try(filled.Wait())
	if len(full) == brokers {
		s.says(ctx, "not a member of group", "cannot join the group yet")
	}
	pause(ctx, s.between(time.Second, 5*time.Second))
}

func upstreamFaults() []Fault {
	all := []Fault{
		{Kind: "upstream transaction left hanging", Uses: upstream, Takes: 4 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			try(s.Traffic.instruct(ctx, 1, instruction{hang: s.between(time.Second, 5*time.Second), make: func(rng *rand.Rand, p *producer) []*kgo.Record {
				return []*kgo.Record{badRecords["duplicate payoffs"](rng, p), badRecords["orphans"](rng, p)}
			}}))
		}},
		{Kind: "upstream held, then a burst", Uses: upstream, Takes: 4 * time.Second, Inject: func(ctx context.Context, s *Scene) {
			defer s.Traffic.Go()
			try(s.Traffic.Hold(ctx))
			pause(ctx, s.between(time.Second, 3*time.Second))
		}},
	}
	for _, kind := range slices.Sorted(maps.Keys(badRecords)) {
		all = append(all, Fault{Kind: kind, Uses: upstream, Takes: time.Second, Inject: func(ctx context.Context, s *Scene) {
			s.upset(ctx, kind, 1+s.rng.IntN(20))
		}})
	}
	return all
}

func (s *Scene) upset(ctx context.Context, kind string, n int) {
	try(s.Traffic.instruct(ctx, s.rng.IntN(2), instruction{make: func(rng *rand.Rand, p *producer) (batch []*kgo.Record) {
		for range n {
			batch = append(batch, badRecords[kind](rng, p))
		}
		return batch
	}}))
}
