package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Resource is something that only so many faults may be at work on at a time.
type Resource string

// The resources, and how many faults may be at work on each at a time.
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

// Fault is a kind of fault. After it the group goes on by itself: Inject has brought back whatever it took away.
type Fault struct {
	Kind string
	Uses Resource
	Also []Resource // which nothing may be at work on beside it
	// Takes is about how long it takes. Near the end of a run no longer one begins.
	Takes time.Duration
	// Least is how long it takes in a short soak: Takes is at most four fifths of a soak's duration, and Least at least; 0: Takes stays.
	Least  time.Duration
	Inject func(ctx context.Context, s *Scene) error
}

// isApart tells whether a fault touches nothing that others go by, so that it may go on while the soak's group is checked.
func (f *Fault) isApart() bool {
	return (f.Uses == ownGroup || f.Uses == ownGroupLong || f.Uses == aPause) && len(f.Also) == 0
}

// Scene is where faults happen: one group on its cluster, and this fault's own random numbers.
type Scene struct {
	*Group
	rng   *rand.Rand
	takes time.Duration // about how long the fault should take
	quick bool          // wait as little as possible
	alone bool          // nothing else goes wrong
	free  chan *Worker
}

// errNotNow says that a fault could not be injected just now, which is no violation: nothing happened.
var errNotNow = errors.New("not now")

// between draws a duration.
func (s *Scene) between(from, to time.Duration) time.Duration {
	if s.quick {
		return from
	}
	return from + time.Duration(s.rng.Int64N(int64(to-from)+1))
}

// worker takes a worker that runs and that no other fault is at work on; back gives it back.
func (s *Scene) worker(ctx context.Context) (w *Worker, back func(), err error) {
	select {
	case w = <-s.free:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	back = func() { s.free <- w }
	if !w.Running() { // a failpoint of before, or a test's own
		if err := w.Start(); err != nil {
			back()
			return nil, nil, err
		}
	}
	return w, back, nil
}

// Faults are all kinds, in the order of docs/operations.md.
func Faults() []Fault {
	all := slices.Concat(workerFaults(), clockFaults(), stepFaults(), cutFaults(), redisFaults(), kafkaFaults(), upstreamFaults(), ownGroupFaults())
	for i := range all {
		if all[i].Takes == 0 {
			all[i].Takes = 5 * time.Second
		}
	}
	return all
}

// workerFaults happen to a worker as a whole.
func workerFaults() []Fault {
	return []Fault{
		{Kind: "worker killed", Uses: aWorker, Inject: func(ctx context.Context, s *Scene) error {
			return s.down(ctx, (*Worker).Kill)
		}},
		{Kind: "worker drained", Uses: aWorker, Inject: func(ctx context.Context, s *Scene) error {
			return s.down(ctx, (*Worker).Stop)
		}},
		{Kind: "zombie: worker frozen past the session timeout", Uses: aWorker, Takes: 6 * time.Second,
			Inject: func(ctx context.Context, s *Scene) error {
				w, back, err := s.worker(ctx)
				if err != nil {
					return err
				}
				defer back()
				if err := w.Pause(); err != nil {
					return err
				}
				pause(ctx, s.c.Session+s.between(time.Second, 4*time.Second))
				return w.Resume()
			}},
		{Kind: "rebalance storm", Uses: aWorker, Takes: 8 * time.Second, Inject: rebalanceStorm},
		{Kind: "fences repeated and new producer ids", Uses: aWorker, Takes: 10 * time.Second,
			Inject: restartedWith(map[string]string{"fence_interval": "700ms"})},
	}
}

// down ends a worker, and starts it again after up to two session timeouts.
func (s *Scene) down(ctx context.Context, end func(*Worker) error) error {
	w, back, err := s.worker(ctx)
	if err != nil {
		return err
	}
	defer back()
	if err := end(w); err != nil {
		return err
	}
	pause(ctx, s.between(0, 2*s.c.Session))
	return w.Start()
}

// rebalanceStorm lets a worker come and go, faster than the group settles.
func rebalanceStorm(ctx context.Context, s *Scene) error {
	w, back, err := s.worker(ctx)
	if err != nil {
		return err
	}
	defer back()
	for range 4 {
		end := (*Worker).Stop
		if s.rng.IntN(3) == 0 {
			end = (*Worker).Kill
		}
		if err := end(w); err != nil {
			return err
		}
		if err := w.Start(); err != nil {
			return err
		}
		pause(ctx, s.between(200*time.Millisecond, 2*time.Second))
	}
	return nil
}

// restartedWith lets a worker run with other settings for a while.
func restartedWith(settings map[string]string) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		w, back, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer back()
		if err := w.Stop(); err != nil {
			return err
		}
		if err := w.StartWith("", settings); err != nil {
			return err
		}
		pause(ctx, s.between(4*time.Second, 8*time.Second))
		if err := w.Kill(); err != nil {
			return err
		}
		return w.Start()
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

// atStep restarts a worker with a failpoint, waits until it has struck, and brings the worker back.
func atStep(point, action string, times int) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		w, back, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer back()
		// Killed, so that there is something to replay for the next owner.
		if err := w.Kill(); err != nil {
			return err
		}
		n := 1 + s.rng.IntN(times)
		if err := w.StartWith(fmt.Sprintf("%s=%s@%d", point, action, n), nil); err != nil {
			return err
		}
		if point == "before dead-letters" { // there is one for every partition
			if err := s.upset(ctx, "malformed records", 50); err != nil {
				return err
			}
		}
		struck := func() (bool, error) { return !w.Running(), nil }
		if action == "stop" {
			struck = func() (bool, error) { return w.Frozen(), nil }
		}
		if err := until(ctx, 20*time.Second, "the failpoint strikes", struck); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// The step did not come so often: nothing to expire, nothing to replay.
			return errors.Join(fmt.Errorf("%w: %s was not reached %d times", errNotNow, point, n), w.Kill(), w.Start())
		}
		if action == "stop" {
			pause(ctx, s.c.Session+s.between(time.Second, 3*time.Second))
			return w.Resume()
		}
		return w.Start()
	}
}

// says makes sure that the workers say what they wait for, in /readyz, metrics and log. Amid other faults there may be more to say.
func (s *Scene) says(ctx context.Context, why, logged string) error {
	if !s.alone {
		return nil
	}
	for _, w := range s.Slots {
		if err := w.AwaitReported(ctx, why, logged); err != nil && ctx.Err() == nil {
			return violated("%v", err)
		}
	}
	return ctx.Err()
}
