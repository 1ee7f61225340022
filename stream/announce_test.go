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

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// announcing is an announcer of a worker with some learners, and its log.
func announcing(registry state.Registry, learners ...string) (*announcer, *strings.Builder) {
	var log strings.Builder
	opt := &Options{Registry: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, name := range learners {
		opt.Machine.Learners = append(opt.Machine.Learners, partition.LearnerConfig{Name: name, Fingerprint: "of " + name})
	}
	return newAnnouncer(opt), &log
}

// TestAnnouncer_KnowsWhatOthersAreConfiguredWith: learners that only other workers have are known while these workers
// live, are withdrawn with them, and stay for a while if they were killed. Learners that all have are not reported.
func TestAnnouncer_KnowsWhatOthersAreConfiguredWith(t *testing.T) {
	store, now := memstore.New(nil), time.Unix(1_800_000_000, 0)
	store.SetClock(func() time.Time { return now })
	old, log := announcing(store, "feed")
	fresh, quiet := announcing(store, "feed", "front")
	old.announce(t.Context())
	require.Empty(t, old.elsewhere.Load().Learners)
	fresh.announce(t.Context())
	old.announce(t.Context())
	require.Equal(t, map[string]bool{"front": true}, old.elsewhere.Load().Learners)
	require.Empty(t, fresh.elsewhere.Load().Learners)
	require.Contains(t, log.String(), "[front]")
	require.Empty(t, quiet.String())

	fresh.withdraw(t.Context())
	until(t, old, func() { passes(old, announceEvery) })

	fresh.announce(t.Context())
	step := func() { passes(old, announceEvery); now = now.Add(announceEvery) }
	until(t, old, step) // it was killed
	for left := state.WorkerKept; left >= 0; left -= announceEvery {
		step()
		old.announce(t.Context())
		require.Empty(t, old.elsewhere.Load().Learners, "the store returns it for %v yet", left)
	}
	require.Empty(t, old.others, "the store has dropped it")
}

// passes has time pass for an announcer.
func passes(a *announcer, d time.Duration) {
	at := a.clock() + d
	a.clock = func() time.Duration { return at }
}

// until announces, with a step behind each, until a worker with another learner is not waited for any more, which takes WorkerCounts.
func until(t *testing.T, a *announcer, step func()) {
	t.Helper()
	a.announce(t.Context())
	for waited := time.Duration(0); waited < state.WorkerCounts; waited += announceEvery {
		require.NotEmpty(t, a.elsewhere.Load().Learners, "after %v", waited)
		step()
		a.announce(t.Context())
	}
	step()
	a.announce(t.Context())
	require.Empty(t, a.elsewhere.Load().Learners)
}

// forgetful is a registry that fails over: to a server that knows no worker, or to one with another clock.
type forgetful struct{ state.Registry }

// TestAnnouncer_Failover: in a rollout a worker goes on waiting for others' learners when Redis fails over. The new server does not know
// the others, or has another clock, and this worker announces itself first. It waits however long Redis did not answer. Also one that has
// just started waits for those that it finds there, whatever their time.
func TestAnnouncer_Failover(t *testing.T) {
	for name, fail := range map[string]func(r *forgetful, now *time.Time){
		"nobody is known":          func(r *forgetful, _ *time.Time) { r.Registry = memstore.New(nil) },
		"the clock is 40 s behind": func(_ *forgetful, now *time.Time) { *now = now.Add(-40 * time.Second) },
		"the clock is 40 s ahead":  func(_ *forgetful, now *time.Time) { *now = now.Add(40 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_800_000_000, 0)
			store := memstore.New(nil)
			store.SetClock(func() time.Time { return now })
			registry := &forgetful{store}
			old, _ := announcing(registry, "feed")
			fresh, _ := announcing(registry, "feed", "front")
			fresh.announce(t.Context())
			old.announce(t.Context())
			require.NotEmpty(t, old.elsewhere.Load().Learners)

			passes(old, time.Minute) // without an answer
			fail(registry, &now)
			for range 3 {
				old.announce(t.Context())
				require.Equal(t, map[string]bool{"front": true}, old.elsewhere.Load().Learners)
				passes(old, announceEvery)
			}
			if name != "nobody is known" {
				begun, _ := announcing(registry, "feed")
				begun.announce(t.Context())
				require.Equal(t, map[string]bool{"front": true}, begun.elsewhere.Load().Learners)
			}
			fresh.announce(t.Context())
			passes(old, announceEvery)
			until(t, old, func() { passes(old, announceEvery) })
		})
	}
}

// TestAnnouncer_JoinsWithoutTheOthers: a worker joins right after the store has lost the others' announcements. It takes any learner for
// known to one of them, until all had the time to announce theirs. Where the store does not answer, it does so for a while, and not at all
// where the store refuses to.
func TestAnnouncer_JoinsWithoutTheOthers(t *testing.T) {
	registry := &forgetful{memstore.New(nil)}
	fresh, _ := announcing(registry, "feed", "front")
	fresh.announce(t.Context())
	registry.Registry = memstore.New(nil)
	old, _ := announcing(registry, "feed")
	require.False(t, old.elsewhere.Load().Partial, "it is no member")
	old.join(t.Context())
	require.Equal(t, partition.Elsewhere{Learners: map[string]bool{}, Partial: true}, *old.elsewhere.Load())
	passes(old, announceEvery)
	require.False(t, old.news())
	fresh.announce(t.Context())
	old.announce(t.Context())
	require.Equal(t, partition.Elsewhere{Learners: map[string]bool{"front": true}, Partial: true}, *old.elsewhere.Load())
	passes(old, announceTimeout)
	require.True(t, old.news())
	old.announce(t.Context())
	require.Equal(t, partition.Elsewhere{Learners: map[string]bool{"front": true}}, *old.elsewhere.Load())
	require.False(t, old.news())
	old.join(t.Context())
	require.False(t, old.elsewhere.Load().Partial, "it has been answered all the time")

	away := &unwilling{err: errors.New("away")}
	begun, _ := announcing(away, "feed")
	begun.join(t.Context())
	for waited := time.Duration(0); waited < state.WorkerCounts; waited += announceEvery {
		require.True(t, begun.elsewhere.Load().Partial, "after %v", waited)
		passes(begun, announceEvery)
		begun.announce(t.Context())
	}
	require.False(t, begun.elsewhere.Load().Partial)

	begun, _ = announcing(away, "feed") // it is answered at last: not before, however long ago it asked first
	begun.join(t.Context())
	passes(begun, 2*announceEvery)
	begun.registry = memstore.New(nil)
	begun.announce(t.Context())
	passes(begun, announceEvery)
	begun.announce(t.Context())
	require.True(t, begun.elsewhere.Load().Partial)
	passes(begun, announceEvery)
	begun.announce(t.Context())
	require.False(t, begun.elsewhere.Load().Partial)

	forbidden, _ := announcing(&unwilling{err: fmt.Errorf("%w: NOPERM", state.ErrForbidden)}, "feed")
	forbidden.join(t.Context())
	require.False(t, forbidden.elsewhere.Load().Partial)

	alone, _ := announcing(nil, "feed")
	alone.join(t.Context())
	require.False(t, alone.elsewhere.Load().Partial)
}

// TestAnnouncer_ReportsOtherSettings once when they begin to differ, and once when they are the same again.
func TestAnnouncer_ReportsOtherSettings(t *testing.T) {
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
	a.compare(0, of("a", "a", ""))
	require.Empty(t, said())
	a.compare(0, of("a", "b", "c", "b"))
	require.Contains(t, said(), "fingerprint=a others=b,c workers=4")
	a.compare(0, of("a", "c"))
	require.Empty(t, said())
	a.compare(0, of("a", "a"))
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

func (u *unwilling) MemoryUsed(context.Context) (float64, error) { return 0, u.err }

// TestAnnouncer_GoesOnWithoutTheStore: the last known learners stay, and one line reports the failure.
func TestAnnouncer_GoesOnWithoutTheStore(t *testing.T) {
	for _, err := range []error{errors.New("away"), fmt.Errorf("%w: NOPERM", state.ErrForbidden)} {
		u := &unwilling{err: err}
		a, log := announcing(u, "feed")
		a.compare(0, []state.WorkerInfo{{ID: "other", Learners: map[string]string{"front": "f"}}})
		a.announce(t.Context())
		a.announce(t.Context())
		a.withdraw(t.Context())
		require.Equal(t, 2, u.calls)
		require.Equal(t, map[string]bool{"front": true}, a.elsewhere.Load().Learners)
		require.Equal(t, 3, strings.Count(log.String(), "\n"), log) // with the learners found, and without a withdrawal
	}
}
