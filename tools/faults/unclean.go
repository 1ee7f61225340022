package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// uncleanElections lose the tail of a topic under a worker that has read it, and replace it by other records.
func uncleanElections() []Fault {
	lost := func(kind string, queued bool) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Also: []Resource{theKafka}, Takes: 60 * time.Second,
			Inject: func(ctx context.Context, scene *Scene) error {
				return withStore(ctx, scene, func(r *Store) error {
					e := election{store: r, queued: queued}
					return runIsolated(ctx, scene, isolatedRun{Settings: Settings{Redis: r}, do: e.lose, end: e.judge})
				})
			}}
	}
	return []Fault{
		lost("tail of a topic lost in an unclean election", false),
		lost("tail of a topic lost while it waits in the worker", true),
	}
}

type election struct {
	store  *Store
	queued bool // records wait in the worker, for Redis, when they are lost
	topic  event.Topic
	// By partition: the topic's end before and after, and the stored state's position.
	before, after, stored []int64
	records               []map[int64]string // the topic's before, by partition and offset
	generations           int                // of the worker's membership, when records waited: the next one reads them again
}

// lose pauses a topic's follower while records are written and fetched; then the leader dies, and the follower
// leads. With queued, records wait in the worker for Redis, which comes back once other records are in their place.
func (e *election) lose(ctx context.Context, s *isolated) (err error) {
	e.topic = event.Topic(s.rng.IntN(event.Inputs))
	if e.queued {
		e.topic = event.Selections + event.Topic(s.rng.IntN(2)) // impressions do not wait
	}
	coordinator, err := s.coordinator(ctx)
	if err != nil {
		return err
	}
	// The third broker coordinates the group, so that the worker stays a member and keeps its queue.
	leader := (coordinator + 1 + s.rng.IntN(brokers-1)) % brokers
	follower := brokers - coordinator - leader
	if err := s.uncleanly(ctx, e.topic, leader, follower); err != nil {
		return err
	}
	awake, dying := s.c.Kafka.Brokers[follower], s.c.Kafka.Brokers[leader]
	thaw := sync.OnceValue(func() error { return s.c.thaw(awake) })
	defer func() { err = errors.Join(err, thaw()) }()
	if err := s.c.freeze(awake); err != nil {
		return err
	}
	if err := s.awaitReplicas(ctx, e.topic, "a leader is left alone", func(p kadm.PartitionDetail) bool {
		return slices.Equal(p.ISR, []int32{int32(leader + 1)})
	}); err != nil {
		return err
	}
	// The group's log had a copy on the paused broker: until that copy is out of sync, no heartbeat is answered.
	if err := s.worker().AwaitReady(ctx); err != nil {
		return err
	}
	defer s.Traffic.Go()
	if err := e.tail(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(dying.Kill(), thaw()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dying.Start(context.WithoutCancel(ctx))) }()
	if err := s.awaitReplicas(ctx, e.topic, "the follower leads", func(p kadm.PartitionDetail) bool {
		return p.Leader == int32(follower+1)
	}); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "all partitions have leaders", func() (bool, error) {
		ends, err := s.endsNow(ctx)
		if err != nil {
			return false, err
		}
		// A new leader's high watermark, which is the end that clients see, reaches the end of its log some time after the election.
		settled := slices.Equal(e.after, ends[e.topic])
		e.after = ends[e.topic]
		if !settled {
			pause(ctx, time.Second)
		}
		return settled, nil
	}); err != nil {
		return err
	}
	s.Traffic.Go()
	pause(ctx, 2*time.Second)
	e.store.proxies.Refuse(false)
	return e.stopsWhere(ctx, s)
}

func (s *isolated) generations() int { return strings.Count(s.worker().Log(1000), "generation begins") }

// tail waits until the records that are to be lost have come, and were fetched or stored.
func (e *election) tail(ctx context.Context, s *isolated) error {
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	e.store.proxies.Refuse(e.queued)
	pause(ctx, 2*time.Second)
	if err := s.Traffic.Hold(ctx); err != nil {
		return err
	}
	pause(ctx, time.Second)
	if !e.queued {
		if err := s.Settle(ctx, time.Minute); err != nil {
			return violated("%v", err)
		}
	}
	ends, err := s.ends(ctx)
	if err != nil {
		return err
	}
	metas, err := s.stored(ctx)
	if err != nil {
		return err
	}
	if e.records, err = s.records(ctx, e.topic); err != nil {
		return err
	}
	e.before, e.stored, e.generations = ends[e.topic], make([]int64, s.Partitions), s.generations()
	for p, meta := range metas {
		e.stored[p], _ = strconv.ParseInt(meta["offset."+roles[e.topic]], 10, 64) // none: 0
	}
	return nil
}

func (s *isolated) caughtUp(ctx context.Context) error {
	return until(ctx, time.Minute, "a worker has caught up", func() (bool, error) {
		lag, err := s.Lag(ctx)
		return lag < 1000, err
	})
}

// stopsWhere waits until each partition has stopped that has stored lost records, or holds them in memory.
func (e *election) stopsWhere(ctx context.Context, s *isolated) error {
	lost := false
	for p := range e.before {
		if e.after[p] >= e.before[p] {
			continue
		}
		text := ""
		err := until(ctx, stopPatience, "a partition stops", func() (bool, error) {
			_, text = s.worker().Ready(ctx)
			restarted := e.stored[p] <= e.after[p] && s.generations() > e.generations
			return stoppedAt(text, p) || restarted, nil
		})
		switch {
		case err == nil:
			lost = true
		case ctx.Err() != nil:
			return err
		case !e.stillThere(ctx, s, p):
			return violated("partition %d has not stopped, although its %s ended at offset %d and then at %d, with those up to %d stored: "+
				"/readyz says %q", p, roles[e.topic], e.before[p], e.after[p], e.stored[p], text)
		}
	}
	if !lost {
		return fmt.Errorf("%w: nothing was lost", errNotNow)
	}
	return nil
}

// stillThere reports whether a partition has all its records from before, so that none was lost: the new leader reported its high watermark
// of then, longer than we waited.
func (e *election) stillThere(ctx context.Context, s *isolated, p int) bool {
	now, err := s.records(ctx, e.topic)
	if err != nil {
		return false
	}
	for offset, record := range e.records[p] {
		if now[p][offset] != record {
			return false
		}
	}
	s.c.say("%s of partition %d ended at offset %d, then seemed to end at %d, and all are there", roles[e.topic], p, e.before[p], e.after[p])
	return true
}

// records returns a topic's records, markers included, as text, by partition and offset.
func (s *isolated) records(ctx context.Context, t event.Topic) ([]map[int64]string, error) {
	c, err := s.client(ctx, t)
	if err != nil {
		return nil, err
	}
	of := make([]map[int64]string, s.Partitions)
	for p := range of {
		of[p] = map[int64]string{}
	}
	return of, s.readWithMarkers(ctx, c, t, func(r *kgo.Record) {
		of[r.Partition][r.Offset] = fmt.Sprintf("%d %s %s", r.Timestamp.UnixMilli(), r.Key, r.Value)
	})
}

func stoppedAt(readyz string, partition int) bool {
	at := fmt.Sprintf("partition %d: stopped ", partition)
	return strings.Contains(readyz, at+"(topic)") || strings.Contains(readyz, at+"(witness)")
}

// judge compares partitions that go on with the present log: nothing may come from lost records.
func (e *election) judge(ctx context.Context, s *isolated) error {
	text := ""
	if err := must(ctx, until(ctx, stopPatience, "every partition goes on or has stopped", func() (bool, error) {
		var ready bool
		ready, text = s.worker().Ready(ctx)
		lines := strings.Count(strings.TrimSpace(text), "\n")
		return ready || lines > 0 && strings.Count(text, ": stopped (") == lines, nil
	})); err != nil {
		return fmt.Errorf("%w: /readyz says %q", err, text)
	}
	pause(ctx, 2*time.Second)
	s.c.say("%s ended at %v and then at %v, stored were %v, and the worker says: %s", roles[e.topic], e.before, e.after, e.stored,
		strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	for p := range s.Partitions {
		if stoppedAt(text, p) {
			continue
		}
		found, err := s.Check(ctx, int32(p))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return violated("%s", strings.Join(found, "; "))
		}
	}
	return nil
}

// uncleanly gives a topic two copies, of which one suffices to write, and either may lead.
func (s *isolated) uncleanly(ctx context.Context, t event.Topic, leader, follower int) error {
	for name, value := range map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"} {
		if err := s.alter(ctx, s.Topics[t], name, value); err != nil {
			return err
		}
	}
	want := []int32{int32(leader + 1), int32(follower + 1)}
	var move kadm.AlterPartitionAssignmentsReq
	var vote kadm.TopicsSet
	for p := range int32(s.Partitions) {
		move.Assign(s.Topics[t], p, want)
		vote.Add(s.Topics[t], p)
	}
	if _, err := s.c.admin.AlterPartitionAssignments(ctx, move); err != nil {
		return fmt.Errorf("move a topic: %w", err)
	}
	return s.awaitReplicas(ctx, t, "a topic has two copies", func(p kadm.PartitionDetail) bool {
		if p.Leader != want[0] {
			_, _ = s.c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, vote)
		}
		return p.Leader == want[0] && slices.Equal(p.Replicas, want) && len(p.ISR) == len(want)
	})
}

func (s *isolated) awaitReplicas(ctx context.Context, t event.Topic, what string, is func(kadm.PartitionDetail) bool) error {
	return until(ctx, time.Minute, what, func() (bool, error) {
		now, err := s.c.admin.Metadata(ctx, s.Topics[t])
		of := now.Topics[s.Topics[t]]
		for _, p := range of.Partitions {
			if !is(p) {
				return false, errors.Join(err, of.Err)
			}
		}
		return len(of.Partitions) > 0, errors.Join(err, of.Err)
	})
}
