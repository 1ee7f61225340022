package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// Generation is the time between two rebalances of the group. Its partitions do not change.
//
// Goroutines: kafka-go's heartbeats, the watch over partition counts, and the function given
// to Run. When one returns, the generation ends; the next is joined when all have returned.
type Generation struct {
	m          *Membership
	gen        *kafka.Generation
	partitions []int32
	done       <-chan struct{}
}

// begin makes a Generation and starts its watch.
func (m *Membership) begin(gen *kafka.Generation) *Generation {
	g := &Generation{m: m, gen: gen, partitions: m.assigned(gen)}
	m.balancer.Own(int64(gen.ID), g.partitions)
	m.mu.Lock()
	m.member = gen.MemberID
	m.mu.Unlock()
	done := make(chan (<-chan struct{}), 1)
	gen.Start(func(ctx context.Context) {
		done <- ctx.Done()
		m.watch(ctx)
	})
	g.done = <-done
	return g
}

// assigned returns the numbers assigned in every topic. With our balancer these are all numbers.
// Another one, from a leader of another version, cannot join its records and is ignored.
func (m *Membership) assigned(gen *kafka.Generation) []int32 {
	topics := make(map[string]map[int32]bool, len(m.cfg.Topics))
	seen := map[int32]bool{}
	for _, topic := range m.cfg.Topics {
		topics[topic] = map[int32]bool{}
		for _, p := range gen.Assignments[topic] {
			topics[topic][int32(p.ID)] = true
			seen[int32(p.ID)] = true
		}
	}
	numbers := commonNumbers(topics)
	if len(numbers) != len(seen) {
		m.log.Error("assigned partitions that are not the same of every topic; the odd ones are left alone",
			"assigned", gen.Assignments, "used", numbers)
	}
	return numbers
}

// watch returns when ctx has ended, or when a topic's partition count has changed, which ends the generation: new
// numbers need an owner, and tasks check the count. Missing topics are left to the tasks, which notice sooner.
func (m *Membership) watch(ctx context.Context) {
	tick := time.NewTicker(m.cfg.WatchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts, err := m.partitionCounts(ctx)
		if err != nil {
			if ctx.Err() == nil {
				m.log.Debug("cannot look at the topics' partitions", "error", err)
			}
			continue
		}
		m.mu.Lock()
		before := m.counts
		m.counts = counts
		m.mu.Unlock()
		if !maps.Equal(before, counts) {
			m.log.Warn("the number of partitions has changed; joining again", "before", before, "now", counts)
			return
		}
	}
}

// ID is the generation's number, which rises with each rebalance while the group exists.
func (g *Generation) ID() int64 { return int64(g.gen.ID) }

func (g *Generation) MemberID() string { return g.gen.MemberID }

// Partitions returns the numbers that we own, ascending. It may be empty.
func (g *Generation) Partitions() []int32 { return slices.Clone(g.partitions) }

// Done is closed when the generation ends. Others own nothing of ours before Run's function
// has returned, the rebalance timeout has passed, or we were silent for the session timeout.
func (g *Generation) Done() <-chan struct{} { return g.done }

// Run runs supervise and returns when it has returned. Its context ends with the generation, and it must return soon after. Until then no
// other member gets our partitions, and after the rebalance timeout we are no longer a member. If it returns earlier the generation goes on
// until Close or a rebalance. Run always calls it, if need be with an ended context, and must be called at most once.
//
// Heartbeats go on while supervise drains: kafka-go stops its own when the generation
// ends, and a drain longer than the session timeout would lose the membership.
func (g *Generation) Run(supervise func(ctx context.Context)) {
	finished, finish := context.WithCancel(context.Background())
	g.gen.Start(func(ctx context.Context) {
		beating := make(chan struct{})
		go func() {
			defer close(beating)
			g.beatWhileDraining(finished)
		}()
		func() {
			defer finish()
			supervise(ctx)
		}()
		<-beating
		<-ctx.Done() // returning would end the generation, and join the group again at once
	})
	<-finished.Done()
}

func (g *Generation) beatWhileDraining(finished context.Context) {
	select {
	case <-finished.Done():
		return
	case <-g.done:
	}
	tick := time.NewTicker(g.m.cfg.SessionTimeout / 6)
	defer tick.Stop()
	for {
		if err := g.beat(finished); mayHaveLostPartitions(err) { // after finished it fails at once
			g.m.log.Warn("lost the membership while finishing; others may own our partitions now", "error", err)
			return
		}
		select {
		case <-finished.Done():
			return
		case <-tick.C:
		}
	}
}

// Heartbeat asks the coordinator whether the generation lives. It fails with task.ErrGenerationOver if we are no longer a member,
// the generation is not the present one, or a rebalance has begun, so that starting anything is useless. Other errors are transient.
func (g *Generation) Heartbeat(ctx context.Context) error {
	select {
	case <-g.done:
		return fmt.Errorf("heartbeat of generation %d: %w", g.gen.ID, task.ErrGenerationOver)
	default:
	}
	err := g.beat(ctx)
	if err == nil {
		return nil
	}
	return fmt.Errorf("heartbeat of generation %d: %w", g.gen.ID, generationError(err))
}

// beat asks the coordinator. kafka-go's Client.Heartbeat (v0.4.51) asks any broker, and never fails: it reads the error code into the
// throttle time.
func (g *Generation) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.m.cfg.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = g.m.cfg.GroupID, g.gen.ID, g.gen.MemberID
	res, err := req.RequestWith(ctx, wire.Route{Transport: g.m.transport, Addr: g.m.client.Addr, To: wire.ToGroup(req.Group)})
	if err == nil && res.ErrorCode != 0 {
		err = kafka.Error(res.ErrorCode)
	}
	return err
}

// Commit sends offsets, by topic and partition, to the coordinator. It works after the generation has ended, as long
// as we are a member: a drain can commit. Then it fails with task.ErrGenerationOver; other errors are transient.
func (g *Generation) Commit(ctx context.Context, offsets map[string]map[int]int64) error {
	req := &kafka.OffsetCommitRequest{
		GroupID: g.m.cfg.GroupID, GenerationID: int(g.gen.ID), MemberID: g.gen.MemberID,
		Topics: make(map[string][]kafka.OffsetCommit, len(offsets)),
	}
	for topic, partitions := range offsets {
		for p, offset := range partitions {
			req.Topics[topic] = append(req.Topics[topic], kafka.OffsetCommit{Partition: p, Offset: offset})
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.m.cfg.RequestTimeout)
	defer cancel()
	res, err := g.m.client.OffsetCommit(ctx, req)
	if err != nil {
		return fmt.Errorf("committing offsets in generation %d: %w", g.gen.ID, generationError(err))
	}
	for topic, partitions := range res.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return fmt.Errorf("committing the offset of %s[%d] in generation %d: %w",
					topic, p.Partition, g.gen.ID, generationError(p.Error))
			}
		}
	}
	return nil
}

// generationError marks answers which mean that the generation is over.
func generationError(err error) error {
	if mayHaveLostPartitions(err) || errors.Is(err, kafka.RebalanceInProgress) {
		return fmt.Errorf("%w: %w", task.ErrGenerationOver, err)
	}
	return err
}

// mayHaveLostPartitions reports whether another member may own our partitions by the coordinator's answer.
func mayHaveLostPartitions(err error) bool {
	return errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.IllegalGeneration) ||
		errors.Is(err, kafka.FencedInstanceID)
}
