package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// cutFaults cut one worker off from one server, while all other connections work.
func cutFaults() []Fault {
	return []Fault{
		{Kind: "worker cut off from the group's coordinator", Uses: aWorker, Takes: 10 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) {
				coordinator, leader := s.coordinator(ctx, s.rng)
				s.elect(ctx, func() int { return leader }) // so that nothing else is cut
				s.cutOff(ctx, w, s.c.proxies[coordinator], "not a member of group")
			})},
		{Kind: "worker cut off from the leader of its partitions", Uses: aWorker, Takes: 12 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) {
				_, leader := s.coordinator(ctx, s.rng)
				s.elect(ctx, func() int { return leader })
				s.cutOff(ctx, w, s.c.proxies[leader], "fetching ")
			})},
		{Kind: "worker cut off from redis", Uses: aWorker, Takes: 10 * time.Second,
			Inject: onWorker(func(ctx context.Context, s *Scene, w *Worker) {
				s.cutOff(ctx, w, s.c.Redis.proxies, " in Redis: ")
			})},
	}
}

// cutOff cuts a worker's proxy to a server: connections are refused, or not answered. Without other faults, the worker must report it.
func (s *Scene) cutOff(ctx context.Context, w *Worker, server proxies, says string) {
	link := server.of(w.slot)
	shut := link.Refuse
	if s.rng.IntN(2) == 0 {
		shut = link.Silence
	}
	shut(true)
	defer shut(false)
	if s.alone {
		expect(ctx, w.AwaitUnready(ctx, 30*time.Second, says))
	}
	pause(ctx, s.between(s.c.Session, 3*s.c.Session))
}

// coordinator returns the broker that coordinates the group, and any other.
func (g *Group) coordinator(ctx context.Context, rng *rand.Rand) (coordinator, other int) {
	found := g.c.admin.FindGroupCoordinators(ctx, g.Name)[g.Name]
	if found.Err != nil || found.NodeID < 1 {
		fail(fmt.Errorf("%w: the group has no coordinator just now: %v", errNotNow, found.Err))
	}
	coordinator = int(found.NodeID) - 1
	return coordinator, (coordinator + 1 + rng.IntN(brokers-1)) % brokers
}

// elect makes brokers, of which first returns one per partition, the leaders of the group's topics: it reorders
// replicas, and calls an election. Single partitions may refuse it: the leader is there already, or a replica is behind.
func (g *Group) elect(ctx context.Context, first func() int) {
	var move kadm.AlterPartitionAssignmentsReq
	var vote kadm.TopicsSet
	for _, topic := range g.Topics {
		for p := range int32(g.Partitions) {
			f := first()
			replicas := make([]int32, brokers)
			for i := range replicas {
				replicas[i] = int32((f+i)%brokers + 1)
			}
			move.Assign(topic, p, replicas)
			vote.Add(topic, p)
		}
	}
	get(g.c.admin.AlterPartitionAssignments(ctx, move))
	pause(ctx, 500*time.Millisecond)
	get(g.c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, vote))
}
