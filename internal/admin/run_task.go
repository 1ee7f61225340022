package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// driver runs a partition's task as a worker does, without a group membership. It commits no offsets.
type driver struct {
	tool *Tool
	p    int32
	// generation is written with the token.
	generation int64
	// describe, if not nil, changes the facts that the task gets about the topics.
	describe func(*task.Description)
	// orderUnknown means that the topics lack records of the first decisions' steps.
	orderUnknown bool
	// anyProducer accepts decisions of every producer.
	anyProducer bool
	// elsewhere, if not nil, returns the partition of a key; the task counts keys of other partitions.
	elsewhere func(key []byte) int32
	// skips, if not nil, returns the reason to skip an unreadable record, "" not to. It is called by one request at a time for each topic.
	skips func(topic event.Topic, offset int64) string
	saves func(*state.Checkpoint) error
	// saved, if not nil, is called after a checkpoint is stored.
	saved func(*state.Checkpoint)
	// unread is set to the error of an unreadable record that must not be skipped.
	unread atomic.Pointer[error]
}

// errUnreadable returns the advice about an unreadable record.
func (d *driver) errUnreadable(topic event.Topic, u *broker.Unreadable) error {
	role := topicRoles[topic]
	return fmt.Errorf("offset %d of %s[%d] cannot be read: %w: if it stays unreadable, run `ranker-worker state skip "+
		"--partition %d --topic %s --offset %d --why …`", u.From, d.tool.broker.Topic(topic), d.p, u.Err, d.p, role, u.From)
}

// lookEvery is the interval of looks at the task's status.
const lookEvery = 50 * time.Millisecond

// runTask runs the task until its status satisfies until, and drains it, which saves its steps. It
// fails with the task's reason if the task stops. It returns the number of decisions adopted.
func (d *driver) runTask(ctx context.Context, until func(*task.Status) (bool, error)) (adopted int64, err error) {
	machine := d.tool.machine
	machine.Partition, machine.CheckCopartition = d.p, d.elsewhere
	t := task.New(task.Config{
		Group: d.tool.cfg.Kafka.Group, Partition: d.p, TopicNames: machine.TopicNames, HasSelections: machine.HasSelections,
		MaxRecordBytes: machine.MaxRecordBytes, AnyProducer: d.anyProducer, OrderUnknown: d.orderUnknown, OneClock: d.tool.oneClock,
		NewMachine: func(maxRankingBytes int) (*partition.Machine, error) {
			machine.MaxRankingBytes = maxRankingBytes
			return partition.New(machine)
		},
	})
	log := d.tool.broker.Partition(d.p) // it remembers the leader epochs of the batches that it has read
	replies := make(chan task.Reply)
	requests, cancel := context.WithCancel(ctx)
	var flying sync.WaitGroup
	defer func() {
		cancel()
		go func() {
			flying.Wait()
			close(replies)
		}()
		for range replies { // they are dropped
		}
	}()
	began := time.Now()
	now := func() task.Now {
		return task.Now{Mono: time.Since(began), Wall: event.Millis(d.tool.now().UnixMilli())}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	draining := false
	var obs task.Observations
	var shown time.Time
	for {
		asked, wake := t.Advance(now())
		for _, r := range asked {
			flying.Go(func() {
				limited, cancel := context.WithTimeout(requests, r.Timeout)
				defer cancel()
				replies <- r.Carry(shell{stream.Executor{Ctx: limited, Log: log, Store: d.tool.store, Partition: d.p}, d})
			})
		}
		phase := t.Phase()
		if over := phase == task.Stopped || phase == task.Done; over || time.Since(shown) >= lookEvery {
			shown = time.Now()
			t.Observe(&obs)
			adopted += obs.Adopted
			s := t.Status()
			if err := d.unread.Load(); err != nil {
				return adopted, *err
			}
			switch {
			case phase == task.Stopped:
				return adopted, fmt.Errorf("partition %d stopped (%s): %w", d.p, s.Reason, s.Err)
			case phase == task.Done:
				return adopted, nil
			case errors.Is(s.Err, state.ErrUnfit): // a worker would wait until the store is fit
				return adopted, fmt.Errorf("partition %d: %w", d.p, s.Err)
			case !draining:
				if draining, err = until(&s); err != nil {
					return adopted, err
				}
				if draining {
					t.Drain()
					continue
				}
			}
		}
		timer.Reset(min(wake, lookEvery))
		select {
		case r := <-replies:
			t.Handle(now(), r)
		case <-timer.C:
		case <-ctx.Done():
			return adopted, fmt.Errorf("partition %d: %w", d.p, ctx.Err())
		}
	}
}

// shell executes a request of a driver's task. Without a group it has no heartbeat and commits nothing.
type shell struct {
	stream.Executor
	d *driver
}

func (shell) Heartbeat() error { return nil }

func (shell) Commit(task.Commit) error { return nil }

func (s shell) Acquire(e task.Acquire) (state.Meta, error) {
	return s.Store.Acquire(s.Ctx, s.Partition, s.d.generation, true, e.Fresh)
}

func (s shell) Describe() (task.Description, error) {
	facts, err := s.Log.Describe(s.Ctx)
	if err == nil && s.d.describe != nil {
		s.d.describe(&facts)
	}
	return facts, err
}

func (s shell) Fetch(e task.Fetch) (task.Fetched, error) {
	f, err := s.Log.Fetch(s.Ctx, e)
	if e.Topic < event.Inputs && err != nil && broker.CannotBeRead(err) {
		return s.d.passOver(s.Ctx, e, err)
	}
	return f, err
}

func (s shell) Checkpoint(e task.Checkpoint) error {
	c := e.Checkpoint
	if s.d.saves != nil {
		if err := s.d.saves(c); err != nil {
			return err
		}
	}
	err := s.Store.Checkpoint(s.Ctx, s.Partition, c)
	if err == nil && s.d.saved != nil {
		s.d.saved(c)
	}
	return err
}

// passOver replaces an unreadable answer by the readable parts of its
// records, if they are to be skipped; otherwise it returns the fetch's error.
func (d *driver) passOver(ctx context.Context, e task.Fetch, failed error) (f task.Fetched, err error) {
	u, err := d.tool.broker.Partition(d.p).Unreadable(ctx, e.Topic, e.Offset)
	if err != nil || u == nil {
		return f, failed // the request is repeated
	}
	why := ""
	if d.skips != nil {
		why = d.skips(e.Topic, u.From)
	}
	switch {
	case why != "":
	case errors.Is(u.Err, broker.ErrContent): // it becomes a dead letter unless that passes
		return f, failed
	default:
		err := d.errUnreadable(e.Topic, u)
		d.unread.Store(&err)
		return f, failed
	}
	f = task.Fetched{Next: u.To, High: max(u.High, u.To), LogStart: u.LogStart}
	for offset := u.From; offset < u.To; offset++ {
		rec := partition.Record{Topic: e.Topic, Offset: offset, Skipped: why, Timestamp: min(max(u.Timestamp, 0), d.tool.now().UnixMilli())}
		if offset == u.From {
			rec.Value = u.Batch
		} else {
			rec.Skipped = fmt.Sprintf("%s (its remains are at offset %d)", why, u.From)
		}
		f.Records = append(f.Records, rec)
	}
	return f, nil
}
