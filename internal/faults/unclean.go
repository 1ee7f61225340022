package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// uncleanElections lose the tail of a topic under a worker that has read it, and go on with other records in its place.
func uncleanElections() []Fault {
	show := func(kind string, queued bool) Fault {
		return Fault{Kind: kind, Uses: aSideShow, Also: []Resource{theKafka}, Weight: 1, Takes: 45 * time.Second,
			Inject: func(ctx context.Context, scene *Scene) error {
				return withStore(ctx, scene, func(r *Store) error {
					return play(ctx, scene, script{Settings: Settings{Redis: r}, reason: "stopped (topic)|stopped (witness)",
						do: func(ctx context.Context, s *show) error { return s.loseTail(ctx, r, queued) }})
				})
			}}
	}
	return []Fault{
		show("tail of a topic lost in an unclean election", false),
		show("tail of a topic lost while it waits in the worker", true),
	}
}

// loseTail has a topic's follower sleep while records are written and fetched; then the leader dies, and the follower leads.
// Where records wait in the worker they wait for Redis, which comes back when others stand in their place. Each partition
// whose records were lost has to stop.
func (s *show) loseTail(ctx context.Context, r *Store, queued bool) (err error) {
	t := event.Topic(s.rng.IntN(event.Inputs))
	if queued {
		t = event.Selections + event.Topic(s.rng.IntN(2)) // impressions wait for nothing
	}
	coordinator, err := s.coordinator(ctx)
	if err != nil {
		return err
	}
	// The third broker coordinates the group, so that the worker stays a member, and keeps what waits in it.
	leader := (coordinator + 1 + s.rng.IntN(brokers-1)) % brokers
	follower := brokers - coordinator - leader
	if err := s.uncleanly(ctx, t, leader, follower); err != nil {
		return err
	}
	awake, dying := s.c.Kafka.Brokers[follower], s.c.Kafka.Brokers[leader]
	thaw := sync.OnceValue(func() error { return s.c.thaw(awake) })
	defer func() { err = errors.Join(err, thaw()) }()
	if err := s.c.freeze(awake); err != nil {
		return err
	}
	if err := s.awaitReplicas(ctx, t, "a leader is left alone", func(p *kmsg.MetadataResponseTopicPartition) bool {
		return slices.Equal(p.ISR, []int32{int32(leader + 1)})
	}); err != nil {
		return err
	}
	defer s.Traffic.Go()
	r.doors.Refuse(queued)
	pause(ctx, 2*time.Second)
	if err := s.Traffic.Hold(ctx); err != nil {
		return err
	}
	pause(ctx, time.Second) // to be fetched
	before, err := s.ends(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(dying.Kill(), thaw()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dying.Start(context.WithoutCancel(ctx))) }()
	if err := s.awaitReplicas(ctx, t, "the follower leads", func(p *kmsg.MetadataResponseTopicPartition) bool {
		return p.Leader == int32(follower+1)
	}); err != nil {
		return err
	}
	var after [event.Topics][]int64
	if err := until(ctx, time.Minute, "all partitions have leaders", func() (bool, error) {
		after, err = s.ends(ctx)
		return err == nil, err
	}); err != nil {
		return err
	}
	s.Traffic.Go()
	pause(ctx, 2*time.Second)
	r.doors.Refuse(false)
	return s.stopsWhere(ctx, before[t], after[t])
}

// stopsWhere waits until each partition has stopped that has lost records.
func (s *show) stopsWhere(ctx context.Context, before, after []int64) error {
	lost := 0
	for p := range before {
		if after[p] >= before[p] {
			continue
		}
		lost++
		text := ""
		err := until(ctx, stopPatience, "a partition stops", func() (bool, error) {
			_, text = s.worker().Ready(ctx)
			return strings.Contains(text, fmt.Sprintf("partition %d: stopped (topic)", p)) ||
				strings.Contains(text, fmt.Sprintf("partition %d: stopped (witness)", p)), nil
		})
		if err != nil && ctx.Err() == nil {
			return violated("partition %d has not stopped, although its topic ended at offset %d and then at %d: /readyz says %q", p,
				before[p], after[p], text)
		}
		if err != nil {
			return err
		}
	}
	if lost == 0 {
		return fmt.Errorf("%w: nothing was lost", errUnfit)
	}
	return nil
}

// uncleanly leaves a topic two copies, of which one is enough to write, and either may lead.
func (s *show) uncleanly(ctx context.Context, t event.Topic, leader, follower int) error {
	for name, value := range map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"} {
		if err := s.alter(ctx, s.Topics[t], name, value); err != nil {
			return err
		}
	}
	want := []int32{int32(leader + 1), int32(follower + 1)}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.TimeoutMillis = 10_000
	to := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	to.Topic = s.Topics[t]
	vote := kmsg.NewPtrElectLeadersRequest()
	vote.TimeoutMillis = 10_000
	of := kmsg.NewElectLeadersRequestTopic()
	of.Topic = s.Topics[t]
	for p := range s.Partitions {
		one := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		one.Partition, one.Replicas = int32(p), want
		to.Partitions, of.Partitions = append(to.Partitions, one), append(of.Partitions, int32(p))
	}
	move.Topics, vote.Topics = append(move.Topics, to), append(vote.Topics, of)
	if _, err := request[*kmsg.AlterPartitionAssignmentsResponse](ctx, s.c.Admin, move); err != nil {
		return err
	}
	return s.awaitReplicas(ctx, t, "a topic has two copies", func(p *kmsg.MetadataResponseTopicPartition) bool {
		if p.Leader != want[0] {
			_, _ = request[*kmsg.ElectLeadersResponse](ctx, s.c.Admin, vote)
		}
		return p.Leader == want[0] && slices.Equal(p.Replicas, want) && len(p.ISR) == len(want)
	})
}

// awaitReplicas waits until all partitions of a topic are as they should be.
func (s *show) awaitReplicas(ctx context.Context, t event.Topic, what string, is func(*kmsg.MetadataResponseTopicPartition) bool) error {
	return until(ctx, time.Minute, what, func() (bool, error) {
		all, err := s.partitionsOf(ctx, s.Topics[t])
		if err != nil {
			return false, err
		}
		for i := range all {
			if !is(&all[i]) {
				return false, nil
			}
		}
		return len(all) > 0, nil
	})
}
