package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
)

// exported returns the export of the world's group.
func (w *world) exported(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	_, err := w.stateTool(t).Export(t.Context(), "", &file)
	require.NoError(t, err)
	return file.Bytes()
}

// fed returns the payoffs fed for each item, as exported.
func fed(l *admin.LearnerReport) map[string]int64 {
	all := map[string]int64{}
	for _, it := range l.Items {
		if it.Payoffs > 0 {
			all[it.Item] = it.Payoffs
		}
	}
	return all
}

// TestState_ImportBeginsAGroup that has never run: a new region begins with another's statistics,
// and reads from where kafka.start says at that moment. A group that has lost its state is refused.
func TestState_ImportBeginsAGroup(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		kind := map[string]string{"embedded": "bold", "real": "qpmd"}[env.Name]
		old := worldOf(t, env, 3, kind)
		old.played(t, 400, 31)
		file := old.exported(t)
		learned := old.inspect(t, old.stateTool(t), admin.InspectQuery{Partition: -1}).Learners[0].Payoffs
		for start, before := range map[string]int64{"earliest": 7, "latest": 0} {
			t.Run(start, func(t *testing.T) {
				s := plain(env, kinds[kind])
				if s.start = start; kind != "qpmd" {
					s.payoffs = "adversarial"
				}
				w := makeWorld(t, 2, s, s, os.LookupEnv)
				w.publish(t, w.impressions("before", 7)...)
				tool := w.stateTool(t)
				_, err := tool.Import(t.Context(), bytes.NewReader(file[:len(file)/2]), admin.ImportQuery{})
				require.ErrorIs(t, err, admin.ErrExport)
				require.Empty(t, w.keys(t, ""), "nothing was begun")
				done, err := tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
				require.NoError(t, err)
				require.Len(t, done.Partitions, 2)
				_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
				require.ErrorIs(t, err, admin.ErrImported)
				seen := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				require.Equal(t, learned, seen.Learners[0].Payoffs)
				require.Equal(t, "import", seen.Partitions[1].History[0].Done)
				w.publish(t, w.impressions("after", 5)...)
				c := &crowd{w, "new", 20}
				r := w.start(t)
				require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == before+5 }, deadline, 20*time.Millisecond)
				r.stop(t)
				c.enter(t)
				c.leave(t, before+5)
				require.EqualValues(t, learned+20, func() (n int64) {
					for _, one := range taken(&w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0]) {
						n += one
					}
					return n
				}())
				w.lawful(t)
				w.ranked(t, int(before)+5+20)
				w.lose(t)
				_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
				require.ErrorIs(t, err, admin.ErrLost)
				require.Empty(t, w.keys(t, ""))
			})
		}
	})
}

// TestState_ImportWhileAWorkerStarts: a worker that begins during an import takes partitions over, and
// loses some. Each partition has all of its import or nothing, and the repeated command adds the rest.
func TestState_ImportWhileAWorkerStarts(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		old := worldOf(t, env, 3, "qpmd")
		old.played(t, 200, 32)
		file := old.exported(t)
		want := fed(&old.inspect(t, old.stateTool(t), admin.InspectQuery{Partition: -1}).Learners[0])
		w := worldOf(t, env, 3, "qpmd")
		var worker *running
		tool, err := admin.New(w.cfg, admin.Options{Progress: func(text string) {
			if strings.HasPrefix(text, "partition 0") && strings.Contains(text, "imported") && worker == nil {
				worker = w.start(t)
				worker.awaitReady(t)
			}
		}})
		require.NoError(t, err)
		defer tool.Close()
		_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
		require.NotNil(t, worker)
		worker.awaitReady(t)
		worker.stop(t)
		if err != nil {
			require.ErrorIs(t, err, state.ErrFenced)
			_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
			require.NoError(t, err)
		}
		require.Equal(t, want, fed(&w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0]))
	})
}

// TestState_OnRedisCluster: all state commands where the partitions lie on three nodes.
func TestState_OnRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.OwnRedisCluster(t)
	s := plain(testenv.Env{Kafka: testenv.Kafka(t).Addr}, kinds["qpmd"])
	s.redis = fmt.Sprintf("addresses: [%s]\n  cluster: true", strings.Join(cluster.Addrs(), ", "))
	w := makeWorld(t, 3, s, s, os.LookupEnv)
	first := &crowd{w, "first", 60}
	first.enter(t)
	tool := w.stateTool(t)
	before, known := w.counts(t), taken(&w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0])
	nodes := 0
	for _, addr := range cluster.Addrs() { // a total loss
		client := redis.NewClient(&redis.Options{Addr: addr})
		n, err := client.DBSize(t.Context()).Result()
		require.NoError(t, err)
		if n > 0 {
			nodes++
		}
		require.NoError(t, client.FlushAll(t.Context()).Err())
		require.NoError(t, client.Close())
	}
	require.Greater(t, nodes, 1, "partitions lie on several nodes")
	r, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
	require.NoError(t, err)
	require.EqualValues(t, before["impressions.read"], r.Partitions[0].Adopted+r.Partitions[1].Adopted+r.Partitions[2].Adopted)
	worker := w.start(t)
	require.Eventually(t, func() bool {
		got := w.counts(t)
		return got["impressions.read"] == 60 && got["selections.read"] >= before["selections.read"] && got["payoffs.read"] >= before["payoffs.read"]
	}, deadline, 20*time.Millisecond)
	worker.stop(t)
	after := taken(&w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0])
	for item, n := range known {
		require.GreaterOrEqual(t, after[item], n, item)
	}
	first.leave(t, 0)
	w.sound(t, first)

	second := &crowd{w, "second", 60}
	second.enter(t)
	w.grow(t, 5)
	moved, err := tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
	require.NoError(t, err)
	require.True(t, moved.Done)
	second.leave(t, 0)
	w.sound(t, first, second)

	file := w.exported(t)
	want := w.inspect(t, tool, admin.InspectQuery{Learner: "feed", Partition: -1, Candidates: []admin.Candidate{{Item: "new-1", Utility: 1},
		{Item: "new-2", Utility: 2}}}).Learners[0]
	require.NotEmpty(t, want.Ranking.Candidates)
	reset, err := tool.Reset(t.Context(), "feed", true)
	require.NoError(t, err)
	require.Len(t, reset.Partitions, 5)
	require.Empty(t, w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0].Items)
	_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
	require.NoError(t, err)
	got := w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0]
	require.Equal(t, want.Payoffs, got.Payoffs)
	other := makeWorld(t, 4, s, s, os.LookupEnv)
	_, err = other.stateTool(t).Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
	require.NoError(t, err)
	require.Equal(t, want.Payoffs, other.inspect(t, other.stateTool(t), admin.InspectQuery{Partition: -1}).Learners[0].Payoffs)
}
