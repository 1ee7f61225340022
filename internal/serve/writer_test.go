package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// log is where a writer writes. Like a broker it drops a batch that it has of the same producer and sequence.
type log struct {
	mu        sync.Mutex
	batches   [][]string
	gate      chan struct{} // nil: open
	err       func(batch []*record) error
	lost      func() error // the answer to a batch that was appended; nil: that it was
	producers int64
	seen      map[[2]int64]int
}

func (l *log) producer(context.Context) (task.Producer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers++
	return task.Producer{ID: l.producers}, nil
}

func (l *log) produce(ctx context.Context, _ laneKey, p task.Producer, sequence int32, batch []*record) error {
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		if err := l.err(batch); err != nil {
			return err
		}
	}
	at := [2]int64{p.ID, int64(sequence)}
	if n, ok := l.seen[at]; ok {
		if n != len(batch) {
			return fmt.Errorf("%w: another batch of this sequence", task.ErrSequence)
		}
		return nil
	}
	if l.seen == nil {
		l.seen = map[[2]int64]int{}
	}
	l.seen[at] = len(batch)
	var keys []string
	for _, r := range batch {
		keys = append(keys, string(r.key))
	}
	l.batches = append(l.batches, keys)
	if l.lost != nil {
		return l.lost()
	}
	return nil
}

func records(keys ...string) (all []*record) {
	for _, k := range keys {
		all = append(all, &record{key: []byte(k), value: []byte("v")})
	}
	return all
}

func one() int { return 1 }

// TestWriter_WhatComesMeanwhileIsTheNextBatch.
func TestWriter_WhatComesMeanwhileIsTheNextBatch(t *testing.T) {
	l := &log{gate: make(chan struct{})}
	w := newWriter(l, one)
	defer w.close()
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records("first"))) })
	waiting := func(n int) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			lane := w.lanes[laneKey{event.Payoffs, 0}]
			return lane != nil && len(lane.waiting) == n
		}
	}
	require.Eventually(t, waiting(0), time.Minute, time.Millisecond)
	for i := range 20 {
		wg.Go(func() { require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records(fmt.Sprint(i)))) })
	}
	require.Eventually(t, waiting(20), time.Minute, time.Millisecond)
	close(l.gate)
	wg.Wait()
	require.Len(t, l.batches, 2)
	require.Len(t, l.batches[1], 20)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Zero(t, w.queued)
}

// TestWriter_TriesAgain: transient errors are retried, others reported, and a record that is too large spoils no other.
func TestWriter_TriesAgain(t *testing.T) {
	failures := 3
	l := &log{err: func(batch []*record) error {
		if failures > 0 {
			failures--
			return kafka.NotLeaderForPartition
		}
		for _, r := range batch {
			if string(r.key) == "large" {
				return fmt.Errorf("writing: %w", kafka.MessageSizeTooLarge)
			}
		}
		return nil
	}}
	w := newWriter(l, one)
	defer w.close()
	err := w.write(t.Context(), event.Payoffs, 0, records("a", "large", "b"))
	require.ErrorIs(t, err, kafka.MessageSizeTooLarge)
	require.Equal(t, [][]string{{"a"}, {"b"}}, l.batches)
	failures, l.err = 0, func([]*record) error { return kafka.TopicAuthorizationFailed }
	require.ErrorIs(t, w.write(t.Context(), event.Payoffs, 0, records("a")), kafka.TopicAuthorizationFailed)
}

// TestWriter_WritesOnce: a batch whose answer was lost is sent again as it was, with the same producer and sequence. It stands in the log
// once, also where the time of some of its records is over meanwhile.
func TestWriter_WritesOnce(t *testing.T) {
	lost := 3
	l := &log{lost: func() error { lost--; return errors.New("the connection broke") }}
	w := newWriter(l, one)
	defer w.close()
	require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records("a", "b")))
	l.mu.Lock()
	l.lost = nil
	l.mu.Unlock()
	require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records("c")))
	require.Equal(t, [][]string{{"a", "b"}, {"c"}}, l.batches)
	require.EqualValues(t, 1, l.producers)

	batch := records("old", "new")
	gone := &log{lost: func() error {
		batch[0].deadline = time.Now().Add(-time.Second)
		return errors.New("the connection broke")
	}}
	late := newWriter(gone, one)
	defer late.close()
	done := make(chan error, 2)
	for _, r := range batch {
		r.done, r.deadline = done, time.Now().Add(time.Hour)
	}
	late.send(&lane{laneKey: laneKey{event.Payoffs, 0}}, batch)
	require.ErrorContains(t, <-done, "not written within")
	require.NoError(t, <-done)
	require.Equal(t, [][]string{{"old", "new"}}, gone.batches)
}

// TestWriter_ForgottenProducer: where a broker has forgotten the producer, a batch that it cannot have is sent by another one.
func TestWriter_ForgottenProducer(t *testing.T) {
	l := &log{}
	w := newWriter(l, one)
	defer w.close()
	require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records("a")))
	forgotten := true
	l.mu.Lock()
	l.err = func([]*record) error {
		if forgotten {
			forgotten = false
			return fmt.Errorf("%w: %w", task.ErrSequence, kafka.UnknownProducerId)
		}
		return nil
	}
	l.mu.Unlock()
	require.NoError(t, w.write(t.Context(), event.Payoffs, 0, records("b")))
	require.Equal(t, [][]string{{"a"}, {"b"}}, l.batches)
	require.EqualValues(t, 2, l.producers)
}

func TestWriter_GivesUpInTime(t *testing.T) {
	away := errors.New("away")
	batch := records("old", "new")
	done := make(chan error, 2)
	batch[0].done, batch[0].deadline = done, time.Now().Add(-time.Second)
	batch[1].done, batch[1].deadline = done, time.Now().Add(time.Hour)
	require.False(t, expired(batch, away))
	require.ErrorIs(t, <-done, away)
	batch[1].deadline = time.Now().Add(-time.Second)
	require.True(t, expired(batch, away))
	require.ErrorIs(t, <-done, away)
	require.Empty(t, done, "each is answered once")
}

// TestWriter_BehindAHangingBroker: each record ends with its own time, and is not written later.
func TestWriter_BehindAHangingBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine may be late by the records' time
		l := &log{gate: make(chan struct{})}
		w := newWriter(l, one)
		defer w.close()
		late, done := make(chan error, 2), make(chan error, 1)
		all := records("first", "late", "in time")
		all[0].value = make([]byte, batchBytes) // a batch of its own
		for _, r := range all {
			r.done, r.deadline = late, time.Now().Add(200*time.Millisecond)
		}
		all[2].done, all[2].deadline = done, time.Now().Add(time.Hour)
		start := time.Now()
		require.NoError(t, w.enqueue(all))
		require.ErrorIs(t, <-late, context.DeadlineExceeded)
		require.ErrorIs(t, <-late, errQueueSlow)
		require.Less(t, time.Since(start), writeAttempt)
		close(l.gate)
		require.NoError(t, <-done)
		require.Equal(t, [][]string{{"in time"}}, l.batches)
	})
}

func TestWriter_IsBounded(t *testing.T) {
	l := &log{gate: make(chan struct{})}
	w := newWriter(l, one)
	large := func() []*record { return []*record{{key: []byte("k"), value: make([]byte, mostQueued/2)}} }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.write(ctx, event.Payoffs, 0, large()), context.Canceled)
	require.Eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.queued == 0 }, time.Minute, time.Millisecond, "it is under way")
	require.ErrorIs(t, w.write(ctx, event.Payoffs, 0, large()), context.Canceled)
	require.ErrorIs(t, w.write(t.Context(), event.Payoffs, 0, large()), errQueueFull)
	w.close()
	require.ErrorIs(t, w.write(t.Context(), event.Payoffs, 0, records("a")), errQueueFull)
	require.ErrorIs(t, newWriter(l, func() int { return 0 }).write(t.Context(), event.Payoffs, 0, records("a")), errNoTopics)
}

// TestPartitions: keys lie where Kafka's own clients put them. The hashes are those that Kafka's own tests have for these keys.
func TestPartitions(t *testing.T) {
	w := newWriter(nil, func() int { return 1000 })
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536} {
		got, ok := w.partitionOf([]byte(key))
		require.True(t, ok)
		require.EqualValues(t, (hash&0x7fffffff)%1000, got, key)
	}
}
