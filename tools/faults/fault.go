package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Resource is shared by faults; only so many may use it at a time.
type Resource string

// The resources, and how many faults may use each at a time.
const (
	aWorker      Resource = "worker"
	allWorkers   Resource = "all workers"
	theKafka     Resource = "kafka"
	kafkaNet     Resource = "network to kafka"
	theRedis     Resource = "redis"
	redisNet     Resource = "network to redis"
	upstream     Resource = "upstream"
	ownGroup     Resource = "a group of its own"
	ownGroupLong Resource = "a group of its own, for minutes"
	aPause       Resource = "a group of its own, whose impressions pause"
)

var capacity = map[Resource]int{aWorker: 2, allWorkers: 1, theKafka: 1, kafkaNet: 1, theRedis: 1, redisNet: 1, upstream: 2, ownGroup: 2, ownGroupLong: 1,
	aPause: 1}

// Fault is a kind of fault. After Inject, which restores its damage, the group goes on by itself.
type Fault struct {
	Kind string
	Uses Resource
	Also []Resource // resources that no other fault may use meanwhile
	// Takes is its approximate duration. Near the end of a run no longer fault begins.
	Takes time.Duration
	// Least is its least duration in a short soak, where Takes is at most four fifths of the soak; 0: Takes stays.
	Least  time.Duration
	Inject func(ctx context.Context, s *Scene) // a script
}

// isApart reports whether a fault touches nothing shared, so that it may go on while the soak's group is checked.
func (f *Fault) isApart() bool {
	return (f.Uses == ownGroup || f.Uses == ownGroupLong || f.Uses == aPause) && len(f.Also) == 0
}

// Scene is a fault's place: one group on its cluster, and its own random numbers.
type Scene struct {
	*Group
	rng   *rand.Rand
	takes time.Duration // approximate duration of the fault
	quick bool          // wait as little as possible
	alone bool          // there are no other faults
	free  chan *Worker
}

// errNotNow means that a fault could not be injected just now, which is no violation.
var errNotNow = errors.New("not now")

func (s *Scene) between(from, to time.Duration) time.Duration {
	if s.quick {
		return from
	}
	return from + time.Duration(s.rng.Int64N(int64(to-from)+1))
}

// onWorker gives a fault a running worker that no other fault uses meanwhile.
func onWorker(do func(context.Context, *Scene, *Worker)) func(context.Context, *Scene) {
	return func(ctx context.Context, s *Scene) {
		select {
		case w := <-s.free:
			defer func() { s.free <- w }()
			if !w.Running() { // an earlier failpoint, or a test's own
				try(w.Start())
			}
			do(ctx, s, w)
		case <-ctx.Done():
		}
	}
}

// Faults returns all kinds, in the order of docs/runbooks/faults.md.
func Faults() []Fault {
	all := slices.Concat(workerFaults(), clockFaults(), stepFaults(), cutFaults(), redisFaults(), kafkaFaults(), upstreamFaults(), ownGroupFaults())
	for i := range all {
		if all[i].Takes == 0 {
			all[i].Takes = 5 * time.Second
		}
	}
	return all
}

func workerFaults() []Fault {
	return []Fault{
		{Kind: "worker killed", Uses: aWorker, Inject: down((*Worker).Kill)},
		{Kind: "worker drained", Uses: aWorker, Inject: down((*Worker).Stop)},
		{Kind: "zombie: worker frozen past the session timeout", Uses: aWorker, Takes: 6 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) {
				try(w.Pause())
				pause(ctx, s.c.Session+s.between(time.Second, 4*time.Second))
				try(w.Resume())
			})},
		{Kind: "rebalance storm", Uses: aWorker, Takes: 8 * time.Second, Inject: onWorker(rebalanceStorm)},
		{Kind: "fences repeated and new producer ids", Uses: aWorker, Takes: 10 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) {
				try(w.Stop())
				try(w.StartWith("", map[string]string{"fence_interval": "700ms"}))
				pause(ctx, s.between(4*time.Second, 8*time.Second))
				try(w.Kill())
				try(w.Start())
			})},
	}
}

// down ends a worker, and starts it again after up to two session timeouts.
func down(end func(*Worker) error) func(context.Context, *Scene) {
	return onWorker(func(ctx context.Context, s *Scene, w *Worker) {
		try(end(w))
		pause(ctx, s.between(0, 2*s.c.Session))
		try(w.Start())
	})
}

// rebalanceStorm lets a worker come and go, faster than the group settles.
func rebalanceStorm(ctx context.Context, s *Scene, w *Worker) {
	for range 4 {
		end := (*Worker).Stop
		if s.rng.IntN(3) == 0 {
			end = (*Worker).Kill
		}
		try(end(w))
		try(w.Start())
		pause(ctx, s.between(200*time.Millisecond, 2*time.Second))
	}
}

// stepFaults kill or freeze a worker at a named step of the protocol.
func stepFaults() []Fault {
	kill := func(kind, point string, times int) Fault {
		return Fault{Kind: "worker killed " + kind, Uses: aWorker, Takes: 8 * time.Second, Inject: atStep(point, "kill", times)}
	}
	freeze := func(kind, point string, times int) Fault {
		return Fault{Kind: "zombie: worker frozen " + kind, Uses: aWorker, Takes: 12 * time.Second, Inject: atStep(point, "stop", times)}
	}
	return []Fault{
		kill("between step and produce", "before produce", 15),
		kill("between produce and ack", "after produce", 15),
		kill("between ack and checkpoint", "before checkpoint", 10),
		kill("between checkpoint and commit", "after checkpoint", 10),
		kill("after the commit", "after commit", 3),
		kill("between look-up and step", "after look-up", 10),
		kill("while expiring", "after due", 1),
		kill("with a dead letter on its way", "before dead-letters", 1),
		kill("before taking the state over", "before acquire", 1),
		kill("with the state taken over", "after acquire", 1),
		kill("with the epoch raised", "after init-producer", 1),
		kill("with rankings in a transaction", "after add-partition", 1),
		kill("with the transaction aborted", "after abort-txn", 1),
		kill("with the epoch raised again", "after init-producer-again", 1),
		kill("with the topics checked", "after describe", 1),
		kill("with the state loaded", "after load", 1),
		kill("while ids are read", "after known-ids", 1),
		kill("in the replay", "after replay", 3),
		freeze("between step and produce", "before produce", 15),
		freeze("between produce and checkpoint", "before checkpoint", 10),
		freeze("between produce and ack", "after produce", 15),
		freeze("in the fence", "after add-partition", 1),
		freeze("in the replay", "after replay", 3),
	}
}

// atStep restarts a worker with a failpoint, waits until it is hit, and restores the worker.
func atStep(point, action string, times int) func(context.Context, *Scene) {
	return onWorker(func(ctx context.Context, s *Scene, w *Worker) {
		// Killed, so that the next owner has records to replay.
		try(w.Kill())
		n := 1 + s.rng.IntN(times)
		try(w.StartWith(fmt.Sprintf("%s=%s@%d", point, action, n), nil))
		if point == "before dead-letters" { // there is one for every partition
			s.upset(ctx, "malformed records", 50)
		}
		struck := func() (bool, error) { return !w.Running(), nil }
		if action == "stop" {
			struck = func() (bool, error) { return w.Frozen(), nil }
		}
		if err := until(ctx, 20*time.Second, "the failpoint strikes", struck); err != nil {
			try(ctx.Err())
			// The step did not come so often: nothing to expire, nothing to replay.
			fail(errors.Join(fmt.Errorf("%w: %s was not reached %d times", errNotNow, point, n), w.Kill(), w.Start()))
		}
		if action == "stop" {
			pause(ctx, s.c.Session+s.between(time.Second, 3*time.Second))
			try(w.Resume())
			return
		}
		try(w.Start())
	})
}

// says checks that the workers report a wait in /readyz, metrics and log. With other faults there may be more reports.
func (s *Scene) says(ctx context.Context, why, logged string) {
	if s.alone {
		for _, w := range s.Slots {
			expect(ctx, w.AwaitReported(ctx, why, logged))
		}
	}
}
