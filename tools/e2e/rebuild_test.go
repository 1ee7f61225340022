package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ends are where the topics end, by topic and partition.
func (w *world) ends(t *testing.T) (all [event.Topics][]int64) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	for p := range w.partitions {
		d, err := b.Partition(int32(p)).Describe(t.Context())
		require.NoError(t, err)
		for topic := range all {
			all[topic] = append(all[topic], d.Topics[topic].End)
		}
	}
	return all
}

// forget deletes records from the beginning of a topic, as retention does.
func (w *world) forget(t *testing.T, topic event.Topic, upTo []int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.access.Kafka.Brokers...))
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	one := kmsg.NewDeleteRecordsRequestTopic()
	one.Topic = app.TopicNames(w.cfg)[topic]
	for p, offset := range upTo {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = int32(p), offset
		one.Partitions = append(one.Partitions, part)
	}
	req.Topics = append(req.Topics, one)
	for _, shard := range client.RequestSharded(t.Context(), req) {
		require.NoError(t, shard.Err)
		for _, topic := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range topic.Partitions {
				require.Zero(t, p.ErrorCode)
			}
		}
	}
}

// TestState_RebuildOfWhatRetentionLeft: retention has deleted ended records, and then Redis is lost. Rebuild lists the loss, and with
// --partial makes the state of the remaining records. Account and payoffs of each item are the same, and every pending impression can still
// be paid.
func TestState_RebuildOfWhatRetentionLeft(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		kind := map[string]string{"embedded": "qpmd", "real": "bold"}[env.Name]
		w := worldOf(t, env, 2, kind)
		gone := &crowd{w, "gone", 40}
		gone.enter(t)
		gone.leave(t, 0)
		tool := w.stateTool(t)
		before, early := w.counts(t), w.inspect(t, tool, admin.InspectQuery{Partition: -1})
		cut := w.ends(t)
		left := &crowd{w, "left", 60}
		left.enter(t)
		r := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 100 }, deadline, 20*time.Millisecond)
		r.stop(t)
		after, late := w.counts(t), w.inspect(t, tool, admin.InspectQuery{Partition: -1})
		for topic := range event.Topic(event.Topics) {
			w.forget(t, topic, cut[topic])
		}
		w.lose(t)
		refused, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
		require.ErrorIs(t, err, admin.ErrRetention)
		require.ErrorContains(t, err, "decisions before that of the impression")
		require.Empty(t, refused.Partitions)
		require.Empty(t, w.keys(t, ""), "nothing was stored")
		done, err := tool.Rebuild(t.Context(), admin.RebuildQuery{Partial: true})
		require.NoError(t, err)
		require.EqualValues(t, 60, done.Partitions[0].Adopted+done.Partitions[1].Adopted)
		for _, p := range done.Partitions {
			require.NotEmpty(t, p.Missing)
		}
		r = w.start(t)
		require.Eventually(t, func() bool {
			return w.counts(t)["selections.read"] == after["selections.read"]-before["selections.read"]
		},
			deadline, 20*time.Millisecond)
		r.stop(t)
		got := w.counts(t)
		for name, n := range after {
			if name != "parked_bytes" {
				require.Equal(t, n-before[name], got[name], "%s of %v", name, got)
			}
		}
		want := taken(&late.Learners[0])
		for item, n := range taken(&early.Learners[0]) {
			if want[item] -= n; want[item] == 0 {
				delete(want, item)
			}
		}
		now := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
		require.Equal(t, want, taken(&now.Learners[0]))
		require.Contains(t, now.Partitions[0].History[0].Detail, "without: ")
		left.leave(t, 0)
		w.sound(t, left)
	})
}

// TestState_RebuildWithoutDecisions: retention has eaten all decisions. They cannot be rebuilt, which is said, and no
// impression that had one is ranked a second time.
func TestState_RebuildWithoutDecisions(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, kinds["qpmd"])
		c := &crowd{w, "all", 40}
		c.enter(t)
		r := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 40 }, deadline, 20*time.Millisecond)
		r.stop(t)
		w.forget(t, event.Rankings, w.ends(t)[event.Rankings])
		w.lose(t)
		tool := w.stateTool(t)
		_, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
		require.ErrorIs(t, err, admin.ErrRetention)
		require.ErrorContains(t, err, "no decision of this group is left")
		done, err := tool.Rebuild(t.Context(), admin.RebuildQuery{Partial: true})
		require.NoError(t, err)
		require.Zero(t, done.Partitions[0].Adopted+done.Partitions[1].Adopted)
		r = w.start(t)
		r.awaitReady(t)
		w.publish(t, w.impressions("new", 10)...)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
		r.stop(t)
		client, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.ConsumeTopics(w.cfg.Kafka.Topics.Rankings),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err)
		defer client.Close()
		for n := 0; n < 10; {
			for _, m := range client.PollFetches(t.Context()).Records() {
				require.Contains(t, string(m.Key), "new-")
				n++
			}
		}
	})
}

// TestState_RebuildAfterTopicsWereRecreated: with Redis lost and the topics gone there is nothing to rebuild from; the group
// begins afresh.
func TestState_RebuildAfterTopicsWereRecreated(t *testing.T) {
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, kinds["qpmd"])
		c := &crowd{w, "all", 20}
		c.enter(t)
		w.lose(t)
		w.recreated(t, 2)
		_, err := w.stateTool(t).Rebuild(t.Context(), admin.RebuildQuery{Partial: true})
		require.ErrorContains(t, err, "has never run: nothing to rebuild")
		next := &crowd{w, "next", 20}
		next.enter(t)
		next.leave(t, 0)
		w.sound(t, next)
	})
}

// TestState_RebuildWithoutALearner: the log names a learner that the configuration lacks. That
// is refused before anything is dropped; --partial rebuilds the others, and names the rest.
func TestState_RebuildWithoutALearner(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: greedy")
		w.publish(t, w.impressions("i", 10)...)
		worker := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
		worker.stop(t)
		w.lose(t)
		whole := w.cfg
		cfg := *w.cfg
		cfg.Learners = slices.Clone(cfg.Learners)
		cfg.Learners[0].Name = "other"
		w.cfg = &cfg
		_, err := w.stateTool(t).Rebuild(t.Context(), admin.RebuildQuery{})
		require.ErrorIs(t, err, admin.ErrStrangers)
		require.ErrorContains(t, err, `[0]: 10 decisions of learner "feed"`)
		r, err := w.stateTool(t).Rebuild(t.Context(), admin.RebuildQuery{Partial: true})
		require.NoError(t, err)
		require.EqualValues(t, 10, r.Partitions[0].Adopted)
		require.Len(t, r.Partitions[0].Missing, 1)
		w.cfg = whole
		r, err = w.stateTool(t).Rebuild(t.Context(), admin.RebuildQuery{Replace: true, Yes: true})
		require.NoError(t, err)
		require.Empty(t, r.Partitions[0].Missing)
	})
}
