package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/memstore"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// announcing is an announcer of a worker with some learners, and what it logs.
func announcing(registry state.Registry, learners ...string) (*announcer, *strings.Builder) {
	var log strings.Builder
	opt := &Options{Registry: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, name := range learners {
		opt.Machine.Learners = append(opt.Machine.Learners, partition.LearnerConfig{Name: name, Fingerprint: "of " + name})
	}
	return newAnnouncer(opt), &log
}

// TestAnnouncer_KnowsWhatOthersAreConfiguredWith: learners of other workers that this one lacks are known while these workers
// are there, are withdrawn with them, and count for a while where they were killed. What all have is no news.
func TestAnnouncer_KnowsWhatOthersAreConfiguredWith(t *testing.T) {
	store, now := memstore.New(nil), time.Unix(1_800_000_000, 0)
	store.SetClock(func() time.Time { return now })
	old, log := announcing(store, "feed")
	fresh, quiet := announcing(store, "feed", "front")
	old.announce(t.Context())
	require.Empty(t, *old.elsewhere.Load())
	fresh.announce(t.Context())
	old.announce(t.Context())
	require.Equal(t, map[string]bool{"front": true}, *old.elsewhere.Load())
	require.Empty(t, *fresh.elsewhere.Load())
	require.Contains(t, log.String(), "[front]")
	require.Empty(t, quiet.String())

	fresh.withdraw(t.Context())
	old.announce(t.Context())
	require.Empty(t, *old.elsewhere.Load())

	fresh.announce(t.Context())
	now = now.Add(state.WorkerCounts)
	old.announce(t.Context())
	require.NotEmpty(t, *old.elsewhere.Load())
	now = now.Add(time.Millisecond)
	old.announce(t.Context())
	require.Empty(t, *old.elsewhere.Load())
}

// TestAnnouncer_TellsOfOtherSettings once when they begin to differ, and once when they are the same again.
func TestAnnouncer_TellsOfOtherSettings(t *testing.T) {
	a, log := announcing(memstore.New(nil), "feed")
	a.self.Digest = "a"
	said := func() string {
		defer log.Reset()
		return log.String()
	}
	of := func(digests ...string) (all []state.WorkerInfo) {
		for i, d := range digests {
			all = append(all, state.WorkerInfo{ID: fmt.Sprint(i), Digest: d, Learners: a.self.Learners})
		}
		return all
	}
	a.compare(of("a", "a", ""))
	require.Empty(t, said())
	a.compare(of("a", "b", "c", "b"))
	require.Contains(t, said(), "fingerprint=a others=b,c workers=4")
	a.compare(of("a", "c"))
	require.Empty(t, said())
	a.compare(of("a", "a"))
	require.Contains(t, said(), "the same settings of learners again")
}

// unwilling is a registry that fails.
type unwilling struct {
	err   error
	calls int
}

func (u *unwilling) Announce(context.Context, state.WorkerInfo) ([]state.WorkerInfo, error) {
	u.calls++
	return nil, u.err
}

func (u *unwilling) Workers(context.Context) ([]state.WorkerInfo, error) { return nil, u.err }

func (u *unwilling) Show(context.Context, string, []byte) ([][]byte, error) { return nil, u.err }

func (u *unwilling) Withdraw(context.Context, string) error { return u.err }

// TestAnnouncer_GoesOnWithoutTheStore: what was last known stays, and one line tells of a failure.
func TestAnnouncer_GoesOnWithoutTheStore(t *testing.T) {
	for _, err := range []error{errors.New("away"), fmt.Errorf("%w: NOPERM", state.ErrForbidden)} {
		u := &unwilling{err: err}
		a, log := announcing(u, "feed")
		a.compare([]state.WorkerInfo{{ID: "other", Learners: map[string]string{"front": "f"}}})
		a.announce(t.Context())
		a.announce(t.Context())
		a.withdraw(t.Context())
		require.Equal(t, 2, u.calls)
		require.Equal(t, map[string]bool{"front": true}, *a.elsewhere.Load())
		require.Equal(t, 2, strings.Count(log.String(), "\n"), log)
	}
}
