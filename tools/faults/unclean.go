package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// uncleanElections lose the tail of a topic under a worker that has read it, and replace it by other records.
func uncleanElections() []Fault {
	lost := func(kind string, queued bool) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Also: []Resource{theKafka}, Takes: 60 * time.Second,
			Inject: func(ctx context.Context, scene *Scene) {
				e := election{store: scene.store(ctx), queued: queued}
				defer undo(e.store.Close)
				isolatedRun{Settings: Settings{Redis: e.store}, do: e.lose, end: e.judge}.runOn(ctx, scene)
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
func (e *election) lose(ctx context.Context, s *isolated) {
	e.topic = event.Topic(s.rng.IntN(event.Inputs))
	if e.queued {
		e.topic = event.Selections + event.Topic(s.rng.IntN(2)) // impressions do not wait
	}
	// The third broker coordinates the group, so that the worker stays a member and keeps its queue.
	coordinator, leader := s.coordinator(ctx, s.rng)
	follower := brokers - coordinator - leader
	s.uncleanly(ctx, e.topic, leader, follower)
	awake, dying := s.c.Kafka.Brokers[follower], s.c.Kafka.Brokers[leader]
	thaw := sync.OnceValue(func() error { return s.c.thaw(awake) })
	defer undo(thaw)
	try(s.c.freeze(awake))
	s.awaitReplicas(ctx, e.topic, "a leader is left alone", func(p kadm.PartitionDetail) bool {
		return slices.Equal(p.ISR, []int32{int32(leader + 1)})
	})
	// The group's log had a copy on the paused broker: until that copy is out of sync, no heartbeat is answered.
	try(s.worker().AwaitReady(ctx))
	defer s.Traffic.Go()
	e.tail(ctx, s)
	try(errors.Join(dying.Kill(), thaw()))
	defer undo(func() error { return dying.Start(context.WithoutCancel(ctx)) })
	s.awaitReplicas(ctx, e.topic, "the follower leads", func(p kadm.PartitionDetail) bool { return p.Leader == int32(follower+1) })
	try(until(ctx, time.Minute, "all partitions have leaders", func() (bool, error) {
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
	}))
	s.Traffic.Go()
	pause(ctx, 2*time.Second)
	e.store.proxies.Refuse(false)
	e.stopsWhere(ctx, s)
}

func (s *isolated) generations() int { return strings.Count(s.worker().Log(1000), "generation begins") }

// tail waits until the records that are to be lost have come, and were fetched or stored.
func (e *election) tail(ctx context.Context, s *isolated) {
	try(until(ctx, time.Minute, "a worker has caught up", func() (bool, error) {
		lag, err := s.Lag(ctx)
		return lag < 1000, err
	}))
	e.store.proxies.Refuse(e.queued)
	pause(ctx, 2*time.Second)
	try(s.Traffic.Hold(ctx))
	pause(ctx, time.Second)
	if e.queued {
		e.awaitQueued(ctx, s)
	} else {
		expect(ctx, s.Settle(ctx, time.Minute))
	}
	ends := get(s.ends(ctx))
	metas := get(s.stored(ctx))
	e.records = get(s.records(ctx, e.topic))
	e.before, e.stored, e.generations = ends[e.topic], make([]int64, s.Partitions), s.generations()
	for p, meta := range metas {
		e.stored[p], _ = strconv.ParseInt(meta["offset."+roles[e.topic]], 10, 64) // none: 0
	}
}

// awaitQueued waits until the worker has fetched records of each partition that cannot be stored. One whose last fetch failed, or whose
// leader sends nothing, has none to lose.
func (e *election) awaitQueued(ctx context.Context, s *isolated) {
	line := regexp.MustCompile(`(?m)^ranker_lag\{partition="\d+",topic="` + roles[e.topic] + `"\} [1-9]`)
	err := until(ctx, 20*time.Second, "records wait in the worker", func() (bool, error) {
		_, text, err := s.worker().get(ctx, "/metrics")
		return len(line.FindAllString(text, -1)) == s.Partitions, err
	})
	if err != nil {
		fail(fmt.Errorf("%w: %v", errNotNow, err))
	}
}

// stopsWhere waits until each partition has stopped that has stored lost records, or holds them in memory.
func (e *election) stopsWhere(ctx context.Context, s *isolated) {
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
			fail(err)
		case !e.stillThere(ctx, s, p):
			fail(violated("partition %d has not stopped, although its %s ended at offset %d and then at %d, with those up to %d stored: "+
				"/readyz says %q", p, roles[e.topic], e.before[p], e.after[p], e.stored[p], text))
		}
	}
	if !lost {
		fail(fmt.Errorf("%w: nothing was lost", errNotNow))
	}
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
	of := make([]map[int64]string, s.Partitions)
	for p := range of {
		of[p] = map[int64]string{}
	}
	return of, s.readWithMarkers(ctx, t, func(r *kgo.Record) {
		of[r.Partition][r.Offset] = fmt.Sprintf("%d %s %s", r.Timestamp.UnixMilli(), r.Key, r.Value)
	})
}

// stoppedAt reports whether a partition has stopped, or waits behind a transaction whose end its topic has lost: Kafka sends no record behind
// the beginning of one.
func stoppedAt(readyz string, partition int) bool {
	return regexp.MustCompile(fmt.Sprintf(`(?m)^partition %d: (stopped \((topic|witness)\)|.*%v)`, partition, task.ErrNothingRead)).MatchString(readyz)
}

// judge compares partitions that go on with the present log: nothing may come from lost records.
func (e *election) judge(ctx context.Context, s *isolated) {
	text := ""
	err := until(ctx, stopPatience, "every partition goes on or has stopped", func() (bool, error) {
		var ready bool
		ready, text = s.worker().Ready(ctx)
		lines := strings.Count(strings.TrimSpace(text), "\n")
		return ready || lines > 0 && strings.Count(text, ": stopped (")+strings.Count(text, task.ErrNothingRead.Error()) == lines, nil
	})
	if err != nil {
		expect(ctx, fmt.Errorf("%w: /readyz says %q", err, text))
	}
	pause(ctx, 2*time.Second)
	s.c.say("%s ended at %v and then at %v, stored were %v, and the worker says: %s", roles[e.topic], e.before, e.after, e.stored,
		strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	for p := range s.Partitions {
		if !stoppedAt(text, p) {
			expectNone(get(s.Check(ctx, int32(p))))
		}
	}
}

// uncleanly gives a topic two copies, of which one suffices to write, and either may lead.
func (s *isolated) uncleanly(ctx context.Context, t event.Topic, leader, follower int) {
	for name, value := range map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"} {
		try(s.alter(ctx, s.Topics[t], name, value))
	}
	want := []int32{int32(leader + 1), int32(follower + 1)}
	var move kadm.AlterPartitionAssignmentsReq
	var vote kadm.TopicsSet
	for p := range int32(s.Partitions) {
		move.Assign(s.Topics[t], p, want)
		vote.Add(s.Topics[t], p)
	}
	get(s.c.admin.AlterPartitionAssignments(ctx, move))
	s.awaitReplicas(ctx, t, "a topic has two copies", func(p kadm.PartitionDetail) bool {
		if p.Leader != want[0] {
			_, _ = s.c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, vote)
		}
		return p.Leader == want[0] && slices.Equal(p.Replicas, want) && len(p.ISR) == len(want)
	})
}

func (s *isolated) awaitReplicas(ctx context.Context, t event.Topic, what string, is func(kadm.PartitionDetail) bool) {
	try(until(ctx, time.Minute, what, func() (bool, error) {
		now, err := s.c.admin.Metadata(ctx, s.Topics[t])
		of := now.Topics[s.Topics[t]]
		for _, p := range of.Partitions {
			if !is(p) {
				return false, errors.Join(err, of.Err)
			}
		}
		return len(of.Partitions) > 0, errors.Join(err, of.Err)
	}))
}
