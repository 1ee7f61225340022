package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var (
	errRefused = fmt.Errorf("%w: WRONGPASS", state.ErrForbidden)
	errAway    = errors.New("connection refused")
	errLearner = &partition.UnfitError{Learner: "feed", Configured: "new", Stored: map[string]string{"feed": "old"}}
)

// TestFitness_Leaves: when a member leaves its group, and that it keeps all that it ranks while the store is away.
func TestFitness_Leaves(t *testing.T) {
	running, full := task.Status{Phase: task.Running, Err: errAway}, task.Status{Phase: task.Running, Full: true}
	failing, taking := task.Status{Phase: task.Acquiring, Err: errAway}, task.Status{Phase: task.Acquiring}
	stopped := task.Status{Phase: task.Stopped, Err: errLearner}
	const never = time.Duration(-1)
	for name, c := range map[string]struct {
		statuses []task.Status
		err      error
		after    time.Duration
	}{
		"all is ranked, without the store":           {[]task.Status{running, running}, errAway, never},
		"all is ranked, without a right":             {[]task.Status{running, running}, errRefused, never},
		"all is being taken over":                    {[]task.Status{taking, taking}, errRefused, never},
		"nothing is owned":                           {nil, errRefused, never},
		"nothing is served, and the store is fit":    {[]task.Status{failing, stopped, full}, nil, never},
		"nothing can be taken over without a right":  {[]task.Status{failing, taking}, errRefused, unfitOwn},
		"all have stopped for their learners":        {[]task.Status{stopped, stopped}, errLearner, unfitOwn},
		"all have stopped for their experiments":     {[]task.Status{stopped, stopped}, partition.ErrExperiment, unfitOwn},
		"nothing can be taken over in an outage":     {[]task.Status{failing, failing}, errAway, unfitOutage},
		"no room is left in an outage":               {[]task.Status{full, full}, errAway, unfitOutage},
		"one cannot be taken over, others are at it": {[]task.Status{failing, running}, errRefused, unfitOutage},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[int32]task.Status{}
			for p, s := range c.statuses {
				all[int32(p)] = s
			}
			var f fitness
			left := never
			for now := time.Hour; now <= time.Hour+10*time.Minute && left == never; now += time.Second {
				if f.leaves(now, shareOf(all), c.err) {
					left = now - time.Hour
				}
			}
			require.Equal(t, c.after, left)
		})
	}
	var f fitness
	unserved := share{unserved: true}
	for now := time.Duration(0); now < time.Hour; now += unfitOutage - time.Second { // it comes back each time
		require.False(t, f.leaves(now, unserved, errAway))
		require.False(t, f.leaves(now+unfitOutage-2*time.Second, unserved, errAway))
		require.False(t, f.leaves(now+unfitOutage-time.Second, unserved, nil))
	}
	f = fitness{}
	for now := time.Duration(0); now < unfitOwn; now += 4 * time.Second { // rebalances come faster than a member may leave
		require.False(t, f.leaves(now, unserved, errRefused))
		require.False(t, f.leaves(now+2*time.Second, share{}, nil))
	}
	require.True(t, f.leaves(unfitOwn+time.Second, unserved, errRefused))
	f = fitness{}
	require.False(t, f.leaves(0, unserved, errRefused))
	require.False(t, f.leaves(time.Second, share{works: true}, nil), "it has worked meanwhile")
	require.False(t, f.leaves(unfitOwn, unserved, errRefused))
}

// TestUnfit: which stored learners a worker does not fit.
func TestUnfit(t *testing.T) {
	learners := []partition.LearnerConfig{{Name: "feed", Fingerprint: "f"}, {Name: "front", Fingerprint: "g"}}
	line := func(name, fingerprint string) state.Field {
		return state.Field{Hash: state.MetaHash, Field: []byte("learner." + name), Value: fmt.Appendf(nil, `{"no":0,"fingerprint":%q}`, fingerprint)}
	}
	for name, c := range map[string]struct {
		stored []state.Field
		unfit  string
	}{
		"nothing":                    {nil, ""},
		"the same":                   {[]state.Field{line("feed", "f"), line("front", "g")}, ""},
		"one that is gone":           {[]state.Field{line("feed", "f"), line("old", "o")}, ""},
		"one that decisions name":    {[]state.Field{line("feed", "")}, ""},
		"another":                    {[]state.Field{line("feed", "f"), line("front", "other")}, "front"},
		"what is no learner of ours": {[]state.Field{{Hash: state.MetaHash, Field: []byte("salt"), Value: []byte("x")}}, ""},
	} {
		refusal, err := partition.Unfit(learners, nil, c.stored)
		require.NoError(t, err)
		require.Equal(t, c.unfit == "", refusal == nil, name)
		if refusal != nil {
			var got *partition.UnfitError
			require.ErrorAs(t, refusal, &got)
			require.Equal(t, c.unfit, got.Learner)
		}
	}
	_, err := partition.Unfit(learners, nil, []state.Field{{Hash: state.MetaHash, Field: []byte("learner.feed"), Value: []byte("{")}})
	require.Error(t, err)
}

// unfitStore is a store that is not fit.
type unfitStore struct {
	state.AdminStore
	err error
}

func (s *unfitStore) Fit(context.Context, int) error { return s.err }

// TestLeave: a worker that leaves ends its generation, and reports why it is outside wherever it is asked. One line logs it, every 30 s.
func TestLeave(t *testing.T) {
	var log strings.Builder
	metrics := NewMetrics(prometheus.NewRegistry())
	membership, err := NewMembership(MembershipConfig{Brokers: []string{"127.0.0.1:1"}, GroupID: "g", Topics: []string{"t"}})
	require.NoError(t, err)
	defer membership.Close(context.Background())
	store := &unfitStore{memstore.New(nil), errRefused}
	w := NewWorker(Options{Group: "g", Membership: membership, Store: store, Metrics: metrics, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.ErrorIs(t, w.lookWhetherFit(t.Context()), state.ErrForbidden)
	ended := 0
	w.leave(errRefused)
	require.Empty(t, w.Outside(), "it is no member")
	w.member, w.end = true, func() { ended++ }
	w.leave(errRefused)
	require.Equal(t, 1, ended)
	w.member, w.end = false, nil
	require.True(t, w.leftGroup(t.Context()))
	require.Contains(t, w.Unready()[0], "stays outside of group g until it is fit to work: ")
	require.Contains(t, w.Outside(), "WRONGPASS")
	require.True(t, w.announcer.outside() != "")
	for range 1000 {
		w.stayOutside(errRefused, fitPause)
	}
	require.InDelta(t, 1, testutil.ToFloat64(metrics.unfit), 0)
	w.start = w.start.Add(-waitAgain)
	for range 1000 {
		w.stayOutside(errRefused, fitPause)
	}
	w.stayOutside(nil, 0)
	require.Empty(t, w.Outside())
	require.False(t, w.leftGroup(t.Context()))
	require.InDelta(t, 0, testutil.ToFloat64(metrics.unfit), 0)
	require.Equal(t, 4, strings.Count(log.String(), "\n"), log.String())
	store.err = nil
	require.NoError(t, w.lookWhetherFit(t.Context()))
}

// changing is a store whose partitions another worker changes during each Load.
type changing struct{ state.AdminStore }

func (changing) Fit(context.Context, int) error { return nil }
func (changing) Load(context.Context, int32, []string) ([]state.Field, error) {
	return nil, errors.New("a scan returned 1 of 2 fields")
}

// TestCheckFit_OthersChangeThePartition: a fitness check looks at a partition that another worker owns.
func TestCheckFit_OthersChangeThePartition(t *testing.T) {
	membership, err := NewMembership(MembershipConfig{Brokers: []string{"127.0.0.1:1"}, GroupID: "g", Topics: []string{"t"}})
	require.NoError(t, err)
	defer membership.Close(context.Background())
	membership.counts = map[string]int{"t": 1}
	store := changing{memstore.New(func() string { return "token" })}
	_, err = store.Acquire(t.Context(), 0, 1, false, &state.Meta{Inputs: make([]state.Position, 3)})
	require.NoError(t, err)
	w := NewWorker(Options{Group: "g", Membership: membership, Store: store, Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, w.lookWhetherFit(t.Context()))
}

// moving is a store that moves partition 0.
type moving struct{ state.AdminStore }

func (moving) Fit(context.Context, int) error { return nil }
func (s moving) View(ctx context.Context, p int32, hashes []string) (m state.Meta, _ []state.Field, err error) {
	if p == 0 {
		return m, nil, errors.New("TRYAGAIN Multiple keys request during rehashing of slot")
	}
	return s.AdminStore.View(ctx, p, hashes)
}

// TestCheckFit_OneCannotBeRead: a worker that can serve another partition is fit.
func TestCheckFit_OneCannotBeRead(t *testing.T) {
	membership, err := NewMembership(MembershipConfig{Brokers: []string{"127.0.0.1:1"}, GroupID: "g", Topics: []string{"t"}})
	require.NoError(t, err)
	defer membership.Close(context.Background())
	store := moving{memstore.New(func() string { return "token" })}
	_, err = store.Acquire(t.Context(), 1, 1, false, &state.Meta{Inputs: make([]state.Position, 3)})
	require.NoError(t, err)
	w := NewWorker(Options{Group: "g", Membership: membership, Store: store, Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	membership.counts = map[string]int{"t": 1}
	require.ErrorContains(t, w.lookWhetherFit(t.Context()), "TRYAGAIN")
	membership.counts = map[string]int{"t": 2}
	require.NoError(t, w.lookWhetherFit(t.Context()))
}
