package stream

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestRefusalsAreSampled: the first of each topic and reason is said at once, then one line in 30 s with a count, and none where there
// are no more.
func TestRefusalsAreSampled(t *testing.T) {
	var log strings.Builder
	var r refusals
	logger, names := slog.New(slog.NewTextHandler(&log, nil)), [event.Topics]string{"i", "s", "p", "r"}
	said := func() string {
		defer log.Reset()
		return log.String()
	}
	refusal := func(topic event.Topic, reason string, offset int64) task.Refusal {
		return task.Refusal{Topic: topic, Reason: reason, Offset: offset, Detail: "why"}
	}
	r.note(logger, names, time.Second, 3, []task.Refusal{refusal(event.Payoffs, "wrong_type", 7), refusal(event.Payoffs, "wrong_type", 8)})
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, said(), "topic=p reason=wrong_type records=1 partition=3 offset=7 detail=why")
	r.note(logger, names, 2*time.Second, 3, []task.Refusal{refusal(event.Payoffs, "not_finite", 9), refusal(event.Selections, "wrong_type", 1)})
	require.Equal(t, 2, strings.Count(said(), "\n"), "others at once")
	r.look(logger, names, 20*time.Second)
	require.Empty(t, said())
	r.note(logger, names, 20*time.Second, 4, []task.Refusal{refusal(event.Payoffs, "wrong_type", 5)})
	r.look(logger, names, 31*time.Second)
	require.Contains(t, said(), "reason=wrong_type records=2 partition=4 offset=5")
	r.look(logger, names, time.Hour)
	require.Empty(t, said())
}
