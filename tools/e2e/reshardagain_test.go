package e2e

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// at makes impressions whose ids belong to a partition.
func (w *world) at(name string, p, n int) (all []kafka.Message) {
	where, numbers := kafka.Murmur2Balancer{}, make([]int, w.partitions)
	for i := range numbers {
		numbers[i] = i
	}
	for i := 0; len(all) < n; i++ {
		for _, m := range w.impressions(fmt.Sprintf("%s-%d", name, i), 1) {
			if where.Balance(m, numbers...) == p {
				all = append(all, m)
			}
		}
	}
	return all
}

// answered lets a worker run until a partition has that many rankings.
func (w *world) answered(t *testing.T, p, n int) {
	t.Helper()
	worker := w.start(t)
	require.Eventually(t, func() bool { return len(w.rankings(t, p)) >= n }, deadline, 20*time.Millisecond)
	worker.stop(t)
}

// TestState_ImportCountsOnceUntilReset: an export that was imported is refused, also after the state was resharded, until the
// learner is reset: then nothing of it is left that could count twice.
func TestState_ImportCountsOnceUntilReset(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := worldOf(t, env, 2, "qpmd")
		w.played(t, 200, 41)
		file := w.exported(t)
		tool := w.stateTool(t)
		learned := func() map[string]int64 {
			return fed(&w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0])
		}
		want := learned()
		refused := func() {
			_, err := tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
			require.ErrorIs(t, err, admin.ErrImported)
			require.Equal(t, want, learned())
		}
		for range 2 {
			_, err := tool.Reset(t.Context(), "feed", true)
			require.NoError(t, err)
			_, err = tool.Import(t.Context(), bytes.NewReader(file), admin.ImportQuery{})
			require.NoError(t, err)
			refused()
		}
		w.grow(t, 3)
		_, err := tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.NoError(t, err)
		refused()
	})
}

// TestState_ReshardAdoptsWhatNewPartitionsDecided: partitions were added while
// workers ran, which began in the new ones. Their rankings there are not made again.
func TestState_ReshardAdoptsWhatNewPartitionsDecided(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := worldOf(t, env, 2, "qpmd")
		for p := range 2 {
			w.publish(t, w.at("before", p, 10)...)
			w.answered(t, p, 10)
		}
		w.grow(t, 3)
		w.publish(t, w.at("early", 2, 5)...)
		w.answered(t, 2, 5)
		r, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.NoError(t, err)
		require.True(t, r.Done)
		w.publish(t, w.at("late", 2, 5)...)
		w.answered(t, 2, 10)
		ranked := map[string]bool{}
		w.rankedOnce(t, ranked)
		require.Len(t, ranked, 30)
	})
}

// TestState_ReshardWhereAWorkerBegan: the command was killed after it had dropped an old partition, before the new one was in
// its place. A worker takes that for a beginning; the repeated command finishes, and the worker's rankings are not made again.
func TestState_ReshardWhereAWorkerBegan(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for _, p := range []int{0, 1} {
			t.Run(fmt.Sprintf("partition %d", p), func(t *testing.T) {
				w := worldOf(t, env, 2, "qpmd")
				w.played(t, 200, 42)
				want := taken(&w.inspect(t, w.stateTool(t), admin.InspectQuery{Partition: -1}).Learners[0])
				w.renamed(t, "-new", 2)
				w.cutOff(t, []string{"the move begins", "partition 0 of 2 is in its place"}[p])
				for _, key := range w.keys(t, fmt.Sprintf(":%d}", p)) {
					require.NoError(t, w.redis.Del(t.Context(), key).Err())
				}
				w.publish(t, w.at("early", p, 5)...)
				w.answered(t, p, 5)
				r, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
				require.NoError(t, err)
				require.True(t, r.Resumed && r.Done)
				require.Empty(t, w.keys(t, ":new"))
				w.publish(t, w.at("late", p, 5)...)
				w.answered(t, p, 10)
				require.Equal(t, want, taken(&w.inspect(t, w.stateTool(t), admin.InspectQuery{Partition: -1}).Learners[0]))
				ranked := map[string]bool{}
				w.rankedOnce(t, ranked)
				require.Len(t, ranked, 10)
			})
		}
	})
}

// TestState_ReshardReadsNothingTwice: topics with other names must be unread, and the rest of the old ones is read while they exist.
func TestState_ReshardReadsNothingTwice(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := worldOf(t, env, 2, "qpmd")
		for p := range 2 {
			w.publish(t, w.at("before", p, 10)...)
			w.answered(t, p, 10)
		}
		old := w.cfg
		w.renamed(t, "-new", 2)
		_, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Recreated: true, Yes: true})
		require.ErrorIs(t, err, admin.ErrNotRecreated)
		kept := *w.cfg
		kept.Kafka.Topics.Payoffs = old.Kafka.Topics.Payoffs
		w.cfg = &kept
		_, err = w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.ErrorIs(t, err, admin.ErrReadBefore)
	})
}
