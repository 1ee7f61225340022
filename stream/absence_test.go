package stream

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state/memstore"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestAbsence: a worker that is refused its partition says so, ends its generation for another worker, says that it stands by
// wherever it is asked, and joins again when the other has gone.
func TestAbsence(t *testing.T) {
	store := memstore.New(nil)
	var log strings.Builder
	metrics := NewMetrics(prometheus.NewRegistry())
	w := NewWorker(Options{Registry: store, Metrics: metrics, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Machine: partition.Config{Learners: []partition.LearnerConfig{{Name: "feed", Fingerprint: "new", New: func() delay.Learner { return delay.NewDirect(policy.NewGreedy(), delay.Silence{}) }}}}})
	ended := 0
	l := &loop{}
	w.member, w.loops, w.end = true, map[int32]*loop{3: l}, func() { ended++ }
	refusal := &partition.UnfitError{Learner: "feed", Configured: "new", Stored: map[string]string{"feed": "old"}}
	l.status.Store(&task.Status{Phase: task.Stopped, Reason: task.StopLearner, Err: fmt.Errorf("loading: %w", refusal)})

	w.announcer.announce(t.Context())
	require.Zero(t, ended, "nobody fits")
	require.Contains(t, w.Unready()[0], "partition 3: stopped (learner)")
	all, err := store.Workers(t.Context())
	require.NoError(t, err)
	require.True(t, all[0].Refuses)

	other := configuredAs("other", "old")
	_, err = store.Announce(t.Context(), other)
	require.NoError(t, err)
	require.False(t, w.announcer.lookAgain())
	w.announcer.announce(t.Context())
	require.Equal(t, 1, ended)
	why := `stands by: other workers of the group have learner "feed" as it is stored`
	require.Contains(t, w.Unready()[0], why)
	require.Contains(t, w.StandsBy(), why)
	require.InDelta(t, 1, testutil.ToFloat64(metrics.standingBy), 0)
	w.member, w.loops, w.end = false, nil, nil
	require.True(t, w.announcer.lookAgain(), "there is something new to say")
	w.announcer.announce(t.Context())
	all, err = store.Workers(t.Context())
	require.NoError(t, err)
	require.True(t, all[0].StandsBy || all[1].StandsBy)

	require.NoError(t, store.Withdraw(t.Context(), other.ID))
	w.announcer.announce(t.Context())
	require.NotEmpty(t, w.StandsBy(), "one that is restarted is waited for")
	over := w.away.over
	w.standby.seen -= standbyLinger
	w.announcer.announce(t.Context())
	<-over
	require.Empty(t, w.StandsBy())
	require.InDelta(t, 0, testutil.ToFloat64(metrics.standingBy), 0)
	require.Equal(t, 2, strings.Count(log.String(), "\n"), log.String())
}

// TestShareOf: what a partition's condition means to who may stand by.
func TestShareOf(t *testing.T) {
	used := task.Status{Phase: task.Running, Account: partition.Account{}}
	used.Account.Impressions.Pending = 1
	require.Equal(t, share{begins: true}, shareOf(nil))
	require.Equal(t, share{begins: true}, shareOf(&task.Status{Phase: task.Acquiring}))
	require.Equal(t, share{}, shareOf(&task.Status{Phase: task.Acquiring, Err: context.DeadlineExceeded}))
	require.Equal(t, share{}, shareOf(&task.Status{Phase: task.Stopped, Err: task.ErrGenerationOver}))
	require.Equal(t, share{served: true}, shareOf(&task.Status{Phase: task.Replaying}))
	require.Equal(t, share{served: true, used: true}, shareOf(&used))
}
