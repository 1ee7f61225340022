package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cutFaults cut one worker off from one server, while all other connections work.
func cutFaults() []Fault {
	return []Fault{
		{Kind: "worker cut off from the group's coordinator", Uses: aWorker, Takes: 10 * time.Second,
			Inject: func(ctx context.Context, s *Scene) error {
				coordinator, err := s.coordinator(ctx)
				if err != nil {
					return err
				}
				// It leads none of the topics' partitions, so that nothing else is cut.
				if err := s.elect(ctx, func() int { return (coordinator + 1 + s.rng.IntN(brokers-1)) % brokers }); err != nil {
					return err
				}
				return s.cutOff(ctx, s.c.proxies[coordinator], "not a member of group")
			}},
		{Kind: "worker cut off from the leader of its partitions", Uses: aWorker, Takes: 12 * time.Second,
			Inject: func(ctx context.Context, s *Scene) error {
				coordinator, err := s.coordinator(ctx)
				if err != nil {
					return err
				}
				leader := (coordinator + 1 + s.rng.IntN(brokers-1)) % brokers
				if err := s.elect(ctx, func() int { return leader }); err != nil {
					return err
				}
				return s.cutOff(ctx, s.c.proxies[leader], "fetching ")
			}},
		{Kind: "worker cut off from redis", Uses: aWorker, Takes: 10 * time.Second,
			Inject: func(ctx context.Context, s *Scene) error {
				return s.cutOff(ctx, s.c.Redis.proxies, " in Redis: ")
			}},
	}
}

// cutOff cuts a worker's proxy to a server: connections are refused, or not answered. Without other faults, the worker must report it.
func (s *Scene) cutOff(ctx context.Context, server proxies, says string) error {
	w, back, err := s.worker(ctx)
	if err != nil {
		return err
	}
	defer back()
	door := server.of(w.slot)
	shut := door.Refuse
	if s.rng.IntN(2) == 0 {
		shut = door.Silence
	}
	shut(true)
	defer shut(false)
	if s.alone {
		if err := must(ctx, w.AwaitUnready(ctx, 30*time.Second, says)); err != nil {
			return err
		}
	}
	pause(ctx, s.between(s.c.Session, 3*s.c.Session))
	return ctx.Err()
}

// coordinator returns the broker that coordinates the group.
func (g *Group) coordinator(ctx context.Context) (int, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = g.Name, []string{g.Name}
	res, err := request[*kmsg.FindCoordinatorResponse](ctx, g.c.Admin, req)
	if err != nil {
		return 0, err
	}
	node, code := res.NodeID, res.ErrorCode
	if len(res.Coordinators) > 0 {
		node, code = res.Coordinators[0].NodeID, res.Coordinators[0].ErrorCode
	}
	if code != 0 || node < 1 {
		return 0, fmt.Errorf("%w: the group has no coordinator just now: error code %d", errNotNow, code)
	}
	return int(node) - 1, nil
}

// elect makes brokers, of which first returns one per partition, the leaders of the group's topics: it reorders
// replicas, and calls an election. Single partitions may refuse it: the leader is there already, or a replica is behind.
func (g *Group) elect(ctx context.Context, first func() int) error {
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	vote := kmsg.NewPtrElectLeadersRequest()
	vote.TimeoutMillis, move.TimeoutMillis = 10_000, 10_000
	for _, topic := range g.Topics {
		to := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		to.Topic = topic
		of := kmsg.NewElectLeadersRequestTopic()
		of.Topic = topic
		for p := range g.Partitions {
			one := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			one.Partition = int32(p)
			f := first()
			for i := range brokers {
				one.Replicas = append(one.Replicas, int32((f+i)%brokers+1))
			}
			to.Partitions = append(to.Partitions, one)
			of.Partitions = append(of.Partitions, int32(p))
		}
		move.Topics = append(move.Topics, to)
		vote.Topics = append(vote.Topics, of)
	}
	if _, err := request[*kmsg.AlterPartitionAssignmentsResponse](ctx, g.c.Admin, move); err != nil {
		return err
	}
	pause(ctx, 500*time.Millisecond)
	_, err := request[*kmsg.ElectLeadersResponse](ctx, g.c.Admin, vote)
	return err
}

// partitionsOf returns the leaders, copies and in-sync copies of a topic's partitions.
func (g *Group) partitionsOf(ctx context.Context, topic string) ([]kmsg.MetadataResponseTopicPartition, error) {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, one)
	res, err := request[*kmsg.MetadataResponse](ctx, g.c.Admin, req)
	if err != nil {
		return nil, err
	}
	return res.Topics[0].Partitions, codeError("ask for a topic's leaders", res.Topics[0].ErrorCode)
}
