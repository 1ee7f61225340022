package door

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// log is where a writer writes.
type log struct {
	mu      sync.Mutex
	batches [][]string
	gate    chan struct{} // nil: open
	err     func(batch []*record) error
}

func (l *log) produce(ctx context.Context, _ string, _ int, batch []*record) error {
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
	var keys []string
	for _, r := range batch {
		keys = append(keys, string(r.key))
	}
	l.batches = append(l.batches, keys)
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
	w := newWriter(l.produce, one)
	defer w.close()
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, w.write(t.Context(), "t", time.Time{}, records("first"))) })
	waiting := func(n int) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			lane := w.lanes[laneKey{"t", 0}]
			return lane != nil && len(lane.waiting) == n
		}
	}
	require.Eventually(t, waiting(0), time.Minute, time.Millisecond)
	for i := range 20 {
		wg.Go(func() { require.NoError(t, w.write(t.Context(), "t", time.Time{}, records(fmt.Sprint(i)))) })
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

// TestWriter_TriesAgain: what passes is tried again; what does not is said; and one record that is too large spoils no other.
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
	w := newWriter(l.produce, one)
	defer w.close()
	err := w.write(t.Context(), "t", time.Time{}, records("a", "large", "b"))
	require.ErrorIs(t, err, kafka.MessageSizeTooLarge)
	require.Equal(t, [][]string{{"a"}, {"b"}}, l.batches)
	failures, l.err = 0, func([]*record) error { return kafka.TopicAuthorizationFailed }
	require.ErrorIs(t, w.write(t.Context(), "t", time.Time{}, records("a")), kafka.TopicAuthorizationFailed)
}

func TestWriter_GivesUpInTime(t *testing.T) {
	away := errors.New("away")
	batch := records("old", "new")
	done := make(chan error, 1)
	batch[0].done, batch[0].deadline = done, time.Now().Add(-time.Second)
	batch[1].deadline = time.Now().Add(time.Hour)
	require.Equal(t, batch[1:], unexpired(batch, away))
	require.ErrorIs(t, <-done, away)
}

func TestWriter_IsBounded(t *testing.T) {
	l := &log{gate: make(chan struct{})}
	w := newWriter(l.produce, one)
	large := func() []*record { return []*record{{key: []byte("k"), value: make([]byte, mostQueued/2)}} }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.write(ctx, "t", time.Time{}, large()), context.Canceled)
	require.Eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.queued == 0 }, time.Minute, time.Millisecond, "it is under way")
	require.ErrorIs(t, w.write(ctx, "t", time.Time{}, large()), context.Canceled)
	require.ErrorIs(t, w.write(t.Context(), "t", time.Time{}, large()), errQueueFull)
	w.close()
	require.ErrorIs(t, w.write(t.Context(), "t", time.Time{}, records("a")), errQueueFull)
	require.ErrorIs(t, newWriter(l.produce, func() int { return 0 }).write(t.Context(), "t", time.Time{}, records("a")), errNoTopics)
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
