package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestBounds_AreTheBrokers: the task, which cannot import package broker, reckons with the sizes that it encodes by.
func TestBounds_AreTheBrokers(t *testing.T) {
	require.Equal(t, broker.BatchHeaderSize, task.BatchOverhead)
	require.Equal(t, broker.RecordOverhead, task.RecordOverhead)
	require.Equal(t, broker.HeaderOverhead, task.HeaderOverhead)
	for limit := 1 << 10; limit < 1<<30; limit *= 2 {
		room := task.BatchRoom(limit)
		require.LessOrEqual(t, broker.BatchHeaderSize+room+broker.CompressionOverhead(room), limit)
		require.Greater(t, room, limit*8/10-100)
	}
}
