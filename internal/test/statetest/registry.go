package statetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// RunRegistry runs the suite of a state.Registry, which must be the Subject's stores, with Later and Note set.
func RunRegistry(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(w *world, one, other state.Registry)
	}{
		{"AnnouncedIsSeenByAll", announcedIsSeenByAll},
		{"AnnouncedCountsForAWhile", announcedCountsForAWhile},
		{"AnnouncedUntilWithdrawn", announcedUntilWithdrawn},
		{"AnnouncedByOtherVersions", announcedByOtherVersions},
		{"AnnouncedByManyIsBounded", announcedByManyIsBounded},
		{"AnnouncedAtLengthIsBounded", announcedAtLengthIsBounded},
		{"ShownIsSeenByAll", shownIsSeenByAll},
		{"ShownByManyIsBounded", shownByManyIsBounded},
		{"MemoryUsedIsAShare", memoryUsedIsAShare},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			one, ok := s.Store.(state.Registry)
			other, too := s.Other.(state.Registry)
			require.True(t, ok && too, "the store is not a state.Registry")
			require.NotNil(t, s.Later)
			require.NotNil(t, s.Note)
			c.test(newWorld(t, s), one, other)
		})
	}
}

func (w *world) announce(r state.Registry, self state.WorkerInfo) map[string]state.WorkerInfo {
	w.Helper()
	all, err := r.Announce(w.ctx, self)
	require.NoError(w, err)
	w.hook()
	byID := map[string]state.WorkerInfo{}
	for i, one := range all {
		require.NotZero(w, one.At)
		one.At = 0
		require.True(w, i == 0 || all[i-1].ID < one.ID, "ordered by id, each once")
		byID[one.ID] = one
	}
	require.Equal(w, self, byID[self.ID])
	return byID
}

// workers returns the announcements that count, for a reader without one.
func (w *world) workers(r state.Registry) []state.WorkerInfo {
	w.Helper()
	all, err := r.Workers(w.ctx)
	require.NoError(w, err)
	for i := range all {
		require.NotZero(w, all[i].At)
		all[i].At = 0
	}
	return all
}

func worker(id string) state.WorkerInfo {
	return state.WorkerInfo{ID: id, Version: "v of " + id, Layout: len(id), Outside: len(id) > 1,
		Learners: map[string]string{"feed": "stochastic range=0..1", `odd "name" \ {}`: "\x00ü%s"}}
}

func announcedIsSeenByAll(w *world, one, other state.Registry) {
	a, b, bare := worker("a"), worker("bb"), state.WorkerInfo{ID: "a worker that says nothing %d"}
	require.Equal(w, map[string]state.WorkerInfo{"a": a}, w.announce(one, a))
	require.Equal(w, map[string]state.WorkerInfo{"a": a, "bb": b}, w.announce(other, b))
	w.announce(other, bare)
	a.Version, a.Learners = "later", map[string]string{"front": "adversarial"}
	require.Equal(w, map[string]state.WorkerInfo{"a": a, "bb": b, bare.ID: bare}, w.announce(one, a), "the last that it said")
	require.Len(w, w.workers(other), 3)
	_, err := one.Announce(w.ctx, state.WorkerInfo{})
	require.Error(w, err, "nobody")
	w.begin(0)
	require.Len(w, w.announce(one, a), 3, "partitions have nothing to do with it")
}

func announcedCountsForAWhile(w *world, one, other state.Registry) {
	w.announce(one, worker("a"))
	w.Later(w.T, state.WorkerCounts-5*time.Second)
	require.Len(w, w.announce(other, worker("b")), 2)
	require.Equal(w, []state.WorkerInfo{worker("a"), worker("b")}, w.workers(other))
	w.Later(w.T, 10*time.Second)
	require.Equal(w, []state.WorkerInfo{worker("b")}, w.workers(one), "a is too old for who only looks")
	require.Len(w, w.announce(other, worker("b")), 2, "and kept for who goes by a clock of its own")
	w.Later(w.T, -time.Minute)
	require.Len(w, w.announce(one, worker("a")), 2, "whatever happens to the store's")
	require.Len(w, w.workers(one), 1, "but nobody counts for being from the future")
	w.Later(w.T, state.WorkerKept+2*time.Minute)
	require.Len(w, w.announce(one, worker("a")), 1)
}

func announcedUntilWithdrawn(w *world, one, other state.Registry) {
	w.announce(one, worker("a"))
	w.announce(other, worker("b"))
	for range 2 {
		require.NoError(w, other.Withdraw(w.ctx, "b"))
		w.hook()
		require.Len(w, w.announce(one, worker("a")), 1)
	}
	require.NoError(w, one.Withdraw(w.ctx, "nobody"))
}

// announcedByOtherVersions: known members are read, malformed entries ignored.
func announcedByOtherVersions(w *world, one, other state.Registry) {
	w.Note(w.T, map[string]string{
		"next":  `{"id":"next","regions":{"eu":[1,2]},"learners":{"feed":"f","front":"g"},"layout":9,"version":"2"}`,
		"array": `{"id":"array","learners":["feed"]}`, "nobody": `{"layout":1}`, "cut": `{"id":"cut`,
		"long": `{"id":"long","version":"` + strings.Repeat("x", state.MaxWorkerBytes) + `"}`,
	})
	require.Equal(w, map[string]state.WorkerInfo{
		"a":    worker("a"),
		"next": {ID: "next", Version: "2", Layout: 9, Learners: map[string]string{"feed": "f", "front": "g"}},
	}, w.announce(one, worker("a")))
	require.Len(w, w.workers(other), 2)
	require.Len(w, w.announce(other, worker("b")), 3)
}

func announcedByManyIsBounded(w *world, one, other state.Registry) {
	many := map[string]string{}
	for i := range 3 * state.MaxWorkers {
		id := fmt.Sprint("worker-", i)
		many[id] = fmt.Sprintf(`{"id":%q}`, id)
	}
	w.Note(w.T, many)
	w.Later(w.T, time.Second)
	w.announce(one, worker("a"))
	all := w.announce(other, worker("b"))
	require.Len(w, all, state.MaxWorkers)
	require.Contains(w, all, "a", "the latest are kept")
}

func announcedAtLengthIsBounded(w *world, one, other state.Registry) {
	long := func(id string, bytes int) state.WorkerInfo {
		return state.WorkerInfo{ID: id, Learners: map[string]string{"l": strings.Repeat("x", bytes)}}
	}
	most := state.MaxWorkerBytes - 100
	n := state.MaxWorkersBytes / most
	says := map[string]string{}
	for i := range n + 5 {
		self := long(fmt.Sprint("worker-", i), most)
		b, err := self.Encode()
		require.NoError(w, err)
		says[self.ID] = string(b)
	}
	w.Note(w.T, says)
	w.Later(w.T, time.Second)
	w.announce(one, long("latest", most))
	all := w.announce(one, worker("last"))
	require.Greater(w, len(all), n-5)
	require.LessOrEqual(w, len(all), n+1)
	require.Contains(w, all, "latest")

	_, err := other.Announce(w.ctx, long("too long", state.MaxWorkerBytes))
	require.Error(w, err)
	require.NotContains(w, w.announce(one, worker("last")), "too long")
}

// show stores page data, and returns the members "says" of all workers' data, sorted.
func (w *world) show(r state.Registry, id, says string) []string {
	w.Helper()
	all, err := r.Show(w.ctx, id, fmt.Appendf(nil, `{"says":%q}`, says))
	require.NoError(w, err)
	var seen []string
	for i, one := range all {
		var shows struct{ Says string }
		require.NoError(w, json.Unmarshal(one, &shows))
		require.True(w, i > 0 || shows.Says == says, "its own is the latest")
		seen = append(seen, shows.Says)
	}
	slices.Sort(seen)
	return seen
}

func shownIsSeenByAll(w *world, one, other state.Registry) {
	require.Equal(w, []string{"1"}, w.show(one, "a", "1"))
	require.Equal(w, []string{"1", "<b> \"%d"}, w.show(other, "b", "<b> \"%d"))
	require.Equal(w, []string{"2", "<b> \"%d"}, w.show(one, "a", "2"), "the last that it showed")
	require.Empty(w, w.announce(one, worker("a"))["b"], "who shows something has not announced itself")
	require.NoError(w, other.Withdraw(w.ctx, "b"))
	require.Equal(w, []string{"3"}, w.show(one, "a", "3"))
	for _, faulty := range []string{"", "{}", "[1]", `{"says":1`, `{"says":"` + strings.Repeat("x", state.MaxShownBytes) + `"}`} {
		_, err := one.Show(w.ctx, "a", []byte(faulty))
		require.Error(w, err, "%.20q", faulty)
	}
	_, err := one.Show(w.ctx, "", []byte(`{"says":1}`))
	require.Error(w, err, "nobody")
	require.Equal(w, []string{"4"}, w.show(one, "a", "4"))
}

func shownByManyIsBounded(w *world, one, other state.Registry) {
	long := strings.Repeat("x", state.MaxShownBytes/2)
	for k := range state.MaxShown + 5 {
		_, err := one.Show(w.ctx, fmt.Sprint("w-", k), fmt.Appendf(nil, `{"says":%q}`, long))
		require.NoError(w, err)
	}
	require.Len(w, w.show(other, "last", "short"), state.MaxShown)
}

func memoryUsedIsAShare(w *world, one, _ state.Registry) {
	share, err := one.MemoryUsed(w.ctx)
	require.NoError(w, err)
	require.GreaterOrEqual(w, share, 0.0)
	require.LessOrEqual(w, share, 1.0)
}
