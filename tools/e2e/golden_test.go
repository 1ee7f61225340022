package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/statetool"
	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestGolden: what earlier versions, and this one, have left in Redis is read, says what it said then, is worked on, and stored
// in the present layout. A version that changes what is stored adds a copy, with -write-golden, and leaves the others alone.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/layout-*.json")
	require.NoError(t, err)
	require.Len(t, files, task.StateLayout, "one of each layout")
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var g golden
			require.NoError(t, json.Unmarshal(text, &g))
			testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
				readGolden(t, addr, &g, i+1)
			})
			rankings(t, &g, i+1)
		})
	}
}

func readGolden(t *testing.T, addr string, g *golden, layout int) {
	ctx := t.Context()
	raw := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	restore(t, raw, g)
	cfg := goldenFile(t, g.Group, testenv.Env{Kafka: "127.0.0.1:1", Redis: addr})
	tool, err := statetool.New(cfg, statetool.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, tool.Close()) }()
	report := func() string {
		r, err := tool.Inspect(ctx, statetool.InspectQuery{Partition: -1})
		require.NoError(t, err)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		return string(b)
	}
	var then, now any
	require.NoError(t, json.Unmarshal(g.Report, &then))
	require.NoError(t, json.Unmarshal([]byte(report()), &now))
	// How many more selections the order takes is no state: each version judges that by its own rules.
	for _, l := range then.(map[string]any)["learners"].([]any) {
		if order, finds := l.(map[string]any)["order"].(map[string]any); finds {
			delete(order, "expected_selections")
		}
	}
	require.Empty(t, missing("report", then, now))

	store, err := app.NewStore(cfg)
	require.NoError(t, err)
	defer store.Close()
	at, sums, err := store.Sums(ctx, 0, []string{"moss:items"})
	require.NoError(t, err)
	require.NotEmpty(t, sums)
	meta, err := store.Acquire(ctx, 0, 99, false, nil)
	require.NoError(t, err)
	require.Equal(t, layout, meta.Layout)
	m := goldenMachine(t, cfg, store)
	before := m.Counts()
	require.EqualValues(t, len(g.Parked), before["payoffs.parked"])

	// Everything that is pending is paid, and what was paid is a duplicate.
	var out partition.Output
	pay := func(id string, offset int) {
		places := m.Places(nil, state.IDOf([]byte(id)))
		require.Len(t, places, 1, id)
		_, found, err := store.LookUp(ctx, 0, places, math.MaxInt64)
		require.NoError(t, err)
		require.NotNil(t, found[0], id)
		rec := partition.Record{Topic: event.Payoffs, Offset: meta.Inputs[event.Payoffs].Offset + int64(offset), Timestamp: 1,
			Key: []byte(id), Value: fmt.Appendf(nil, `{"impression_id":%q,"payoff":1}`, id)}
		require.NoError(t, m.Step(&partition.Input{Record: &rec, Found: partition.Found{Page: places[0].Page, Value: found[0]}, Now: math.MaxInt64 / 2, Latest: math.MaxInt64 / 2}, &out))
	}
	all := append(append([]string{}, g.Pending...), g.Paid...)
	for i, id := range all {
		pay(id, i)
	}
	require.Empty(t, out.DeadLetters)
	after := m.Counts()
	require.EqualValues(t, len(g.Pending), after["payoffs.applied"]-before["payoffs.applied"])
	require.EqualValues(t, len(g.Paid), after["payoffs.duplicate"]-before["payoffs.duplicate"])

	c := &state.Checkpoint{Fence: meta.Fence, ID: "next", Meta: meta}
	c.Meta.Layout = task.StateLayout
	m.Seal(&c.Changes)
	require.NoError(t, store.Checkpoint(ctx, 0, c))
	again, _, err := store.View(ctx, 0, nil)
	require.NoError(t, err)
	require.Equal(t, task.StateLayout, again.Layout)
	m = goldenMachine(t, cfg, store)
	require.Equal(t, after, m.Counts())
	silenceBegan(t, store, layout)

	// And others, who had read the whole before, follow it.
	deltas, err := store.Deltas(ctx, 0, at)
	require.NoError(t, err)
	require.Len(t, deltas, 1)
	require.NotEmpty(t, deltas[0].Fields)
}

// silenceBegan sees that selections which were in flight before silence meant anything, so that nobody knows when they began, are in
// flight no longer once they were paid, and count as paid.
func silenceBegan(t *testing.T, store state.Store, layout int) {
	t.Helper()
	want := 3
	if layout > 2 { // those that were paid before count as well
		want = 9
	}
	for _, learner := range []string{"moss", "egreedy", "social"} {
		fields, err := store.Load(t.Context(), 0, []string{learner + ":flights", learner + ":settled"})
		require.NoError(t, err)
		paid := 0
		for _, f := range fields {
			require.NotEqual(t, learner+":flights", f.Hash, "%q is in flight: %s", f.Field, f.Value)
			if f.Hash != learner+":settled" {
				continue
			}
			var n, unpaid int
			_, err := fmt.Sscanf(string(f.Value), "%d %d", &n, &unpaid)
			require.NoError(t, err)
			require.Zero(t, unpaid)
			paid += n
		}
		require.Equal(t, want, paid, learner)
	}
}

// goldenMachine is a machine that a worker would go on with.
func goldenMachine(t *testing.T, cfg *config.Config, store state.Store) *partition.Offline {
	t.Helper()
	c, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	c.Group, c.MaxRankingBytes = cfg.Kafka.Group, 1<<20
	m, err := partition.NewOffline(c)
	require.NoError(t, err)
	fields, err := store.Load(t.Context(), 0, m.Hashes())
	require.NoError(t, err)
	for _, f := range fields {
		require.NoError(t, m.Load(f), "%s %q", f.Hash, f.Field)
	}
	require.NoError(t, m.Loaded(0))
	for cursor := uint64(0); ; {
		pages, next, err := store.KnownIDs(t.Context(), 0, cursor)
		require.NoError(t, err)
		for i := range pages {
			m.AddKnown(&pages[i])
		}
		if cursor = next; next == 0 {
			m.KnownComplete()
			return m
		}
	}
}

// restore puts a copy into Redis, where nothing of it is yet.
func restore(t *testing.T, raw *redis.Client, g *golden) {
	t.Helper()
	clear := func() {
		keys, err := raw.Keys(context.Background(), "{"+g.Group+":0}:*").Result()
		require.NoError(t, err)
		if len(keys) > 0 {
			require.NoError(t, raw.Del(context.Background(), keys...).Err())
		}
	}
	clear()
	t.Cleanup(clear)
	putBack(t, raw, g.Store)
}

// missing lists what stands in then and not in now, where what is new in now does not matter.
func missing(path string, then, now any) (all []string) {
	switch then := then.(type) {
	case map[string]any:
		other, _ := now.(map[string]any)
		for name, value := range then {
			all = append(all, missing(path+"."+name, value, other[name])...)
		}
		return all
	case []any:
		other, _ := now.([]any)
		if len(other) != len(then) {
			return []string{fmt.Sprintf("%s: %d instead of %d", path, len(other), len(then))}
		}
		for i := range then {
			all = append(all, missing(fmt.Sprintf("%s[%d]", path, i), then[i], other[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(then, now) {
		return []string{fmt.Sprintf("%s: %v instead of %v", path, now, then)}
	}
	return nil
}

// rankings of a copy can be read, as a replay would read them.
func rankings(t *testing.T, g *golden, layout int) {
	t.Helper()
	d := event.NewDecoder(event.Limits{})
	require.NotEmpty(t, g.Rankings)
	for i := range g.Rankings {
		one := &g.Rankings[i]
		var r event.Ranking
		require.NoError(t, d.Ranking(&r, []byte(one.Value)), one.Value)
		require.Equal(t, min(layout, 2), r.Decision.Layout)
		require.EqualValues(t, i, r.Decision.Offset)
		require.Equal(t, layout > 1, one.Steps != nil)
		if one.Steps != nil {
			_, _, err := partition.ParseSteps(nil, one.Steps)
			require.NoError(t, err)
		}
	}
}
