package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// stateTool opens the state commands on the world's configuration.
func (w *world) stateTool(t *testing.T) *admin.Tool {
	t.Helper()
	tool, err := admin.New(w.cfg, admin.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tool.Close()) })
	return tool
}

// announces has a worker announced for as long as do takes.
func (w *world) announces(t *testing.T, worker state.WorkerInfo, do func()) {
	t.Helper()
	store, err := app.NewStore(w.cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	_, err = store.Announce(t.Context(), worker)
	require.NoError(t, err)
	do()
	require.NoError(t, store.Withdraw(t.Context(), worker.ID))
}

// played lets a worker rank and learn from a few thousand impressions, and ends when all is read and stored.
func (w *world) played(t *testing.T, impressions int, seed uint64) platform.Progress {
	t.Helper()
	r := w.start(t)
	p, done := w.play(t, impressions, seed, nil)
	require.NoError(t, <-done)
	w.await(t, p.sent)
	r.stop(t)
	return p.sent
}

// list are candidates of the simulated catalogue, in utilities of their own.
func list(r *admin.Report, n int) []admin.Candidate {
	var all []admin.Candidate
	for i, it := range r.Learners[0].Items[:n] {
		all = append(all, admin.Candidate{Item: it.Item, Utility: float64(i*7%n) / float64(n)})
	}
	return all
}

func (w *world) inspect(t *testing.T, tool *admin.Tool, q admin.InspectQuery) *admin.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r, err := tool.Inspect(ctx, q)
	require.NoError(t, err)
	return r
}

// kinds are the learners that the state commands are tried with.
var kinds = map[string]string{
	"qpmd": "policy: elimination",
	"bold": "policy: ftrl\n    delay: bold\n    max_instances: 8",
	"one":  "policy: ftrl\n    delay: bold\n    max_instances: 1",
}

// worldOf makes a world with one learner of a kind.
func worldOf(t *testing.T, env testenv.Env, partitions int, kind string) *world {
	t.Helper()
	s := plain(env, kinds[kind])
	if kind == "bold" || kind == "one" {
		s.payoffs = "adversarial"
	}
	return makeWorld(t, partitions, s, s, os.LookupEnv)
}

// TestState_InspectShowsWhatIsStored while a worker runs: sums and counts that agree with the account, and a ranking
// whose reasons hold together.
func TestState_InspectShowsWhatIsStored(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				w := worldOf(t, env, 2, kind)
				tool := w.stateTool(t)
				_, err := tool.Inspect(t.Context(), admin.InspectQuery{Partition: -1})
				require.ErrorIs(t, err, admin.ErrNothing)
				w.played(t, 600, 5)
				worker := w.start(t)
				worker.awaitReady(t)
				counts := w.counts(t)
				r := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				require.Len(t, r.Partitions, 2)
				l := r.Learners[0]
				var fed, waiting int64
				for _, it := range l.Items {
					fed += it.Payoffs
					waiting += it.Waiting
				}
				require.Equal(t, counts["payoffs.applied"], fed+waiting)
				require.Equal(t, l.Payoffs, fed)
				r = w.inspect(t, tool, admin.InspectQuery{Learner: "feed", Partition: -1, Candidates: list(r, 8)})
				require.NotEmpty(t, r.Learners[0].Ranking.Rule)
				w.reasonable(t, r.Learners[0].Ranking, kind)
				one := w.inspect(t, tool, admin.InspectQuery{Learner: "feed", Partition: 1, Candidates: list(r, 8)})
				require.Less(t, one.Learners[0].Payoffs, fed)
				require.EqualValues(t, 1, one.Learners[0].Ranking.Partition)
				worker.stop(t)
				_, err = tool.Inspect(t.Context(), admin.InspectQuery{Learner: "nobody", Partition: -1})
				require.ErrorContains(t, err, "nobody")
				_, err = tool.Inspect(t.Context(), admin.InspectQuery{Partition: 99})
				require.ErrorContains(t, err, "no partition 99: the group has 2, from 0 to 1")
			})
		}
	})
}

// reasonable holds a ranking against its own reasons.
func (w *world) reasonable(t *testing.T, r *admin.Ranking, kind string) {
	t.Helper()
	leader := ""
	top := -1.0
	var sum float64
	for _, c := range r.Candidates {
		if c.Leads {
			require.Empty(t, c.BeatenBy)
			require.Greater(t, c.Utility, top, "leaders rise in utility")
			leader, top = c.Item, c.Utility
			require.Empty(t, c.BlockedBy)
		} else {
			require.Equal(t, leader, c.BlockedBy)
			require.Less(t, c.Utility, top)
		}
		if kind != "qpmd" {
			require.NotNil(t, c.Propensity)
			sum += *c.Propensity
		}
	}
	if kind != "qpmd" {
		require.InDelta(t, 1, sum, 1e-9)
		require.NotNil(t, r.Instance)
	}
}

// TestState_ALaterLayoutIsNotShown: nor exported, for it would be misread.
func TestState_ALaterLayoutIsNotShown(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: greedy")
		w.publish(t, w.impressions("i", 10)...)
		worker := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
		worker.stop(t)
		require.NoError(t, w.redis.HSet(t.Context(), "{"+w.group+":0}:meta", "layout", 9).Err())
		_, err := w.stateTool(t).Inspect(t.Context(), admin.InspectQuery{Partition: -1})
		require.ErrorContains(t, err, "the stored state has layout 9")
		_, err = w.stateTool(t).Export(t.Context(), "", io.Discard)
		require.ErrorContains(t, err, "the stored state has layout 9")
	})
}

// TestState_ResetRemovesStatistics: the learner has no statistics afterwards, in any partition; pending impressions
// end like a removed learner's, with every record accounted for; and the history records the reset.
func TestState_ResetRemovesStatistics(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				t.Parallel() // each waits: a record of an unknown learner is refused seconds later
				w := worldOf(t, env, 2, kind)
				topics := w.cfg.Kafka.Topics
				w.played(t, 400, 6)
				worker := w.start(t)
				id := []byte("pending")
				w.publish(t, kafka.Message{Topic: topics.Impressions, Key: id, Value: []byte(
					`{"impression_id":"pending","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`)})
				require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 401 }, deadline, 20*time.Millisecond)
				tool := w.stateTool(t)
				_, err := tool.Reset(t.Context(), "feed", true)
				require.ErrorIs(t, err, admin.ErrLive)
				worker.stop(t)
				w.announces(t, state.WorkerInfo{ID: "away", Outside: true}, func() {
					_, err := tool.Reset(t.Context(), "feed", true)
					require.ErrorIs(t, err, admin.ErrLive)
					require.ErrorContains(t, err, "outside")
				})
				before := w.counts(t)
				r, err := tool.Reset(t.Context(), "feed", false)
				require.ErrorIs(t, err, admin.ErrConfirm)
				require.Equal(t, before, w.counts(t))
				require.Len(t, r.Partitions, 2)
				require.NotZero(t, r.Partitions[0].Payoffs)
				_, err = tool.Reset(t.Context(), "nobody", true)
				require.ErrorIs(t, err, partition.ErrNotStored)
				_, err = tool.Reset(t.Context(), "feed", true)
				require.NoError(t, err)
				seen := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				require.Empty(t, seen.Learners[0].Items)
				require.Equal(t, []string{"feed@0", "feed"}, seen.Partitions[0].Learners)
				require.Equal(t, "reset", seen.Partitions[1].History[0].Done)
				require.Equal(t, "feed", seen.Partitions[1].History[0].Learner)
				require.Equal(t, seen.Partitions[1].Offsets, seen.Partitions[1].History[0].Offsets)

				worker = w.start(t)
				w.publish(t, kafka.Message{Topic: topics.Selections, Key: id, Value: []byte(`{"impression_id":"pending","item":"a"}`)},
					kafka.Message{Topic: topics.Impressions, Key: []byte("new"), Value: []byte(
						`{"impression_id":"new","candidates":[{"item":"b","utility":1}]}`)},
					kafka.Message{Topic: topics.Selections, Key: []byte("new"), Value: []byte(`{"impression_id":"new","item":"b"}`)},
					kafka.Message{Topic: topics.Payoffs, Key: []byte("new"), Value: []byte(`{"impression_id":"new","payoff":1}`)})
				require.Eventually(t, func() bool {
					got := w.counts(t)
					return got["selections.rejected"] == 1 && got["payoffs.applied"] == before["payoffs.applied"]+1
				}, deadline, 20*time.Millisecond)
				worker.stop(t)
				seen = w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				require.EqualValues(t, 1, seen.Learners[0].Payoffs)
				require.Len(t, seen.Learners[0].Items, 1)
				require.Equal(t, before["impressions.pending"], w.counts(t)["impressions.pending"])
			})
		}
	})
}

// TestState_ExportResetImportRanksTheSame: each candidate has the same weight afterwards, to the last bit, and so the same ranking. Work in
// progress is not exported, so the comparison is with a second such round. A second import is refused, and so are truncated streams.
func TestState_ExportResetImportRanksTheSame(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				w := worldOf(t, env, 2, kind)
				w.played(t, 800, 7)
				tool := w.stateTool(t)
				before := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				ask := func() *admin.LearnerReport {
					return &w.inspect(t, tool, admin.InspectQuery{Learner: "feed", Partition: -1, Candidates: list(before, 12)}).Learners[0]
				}
				want := ask()
				first := w.carry(t, tool, ask)
				require.Equal(t, want.Payoffs, first.Payoffs)
				require.Equal(t, want.Windows, first.Windows)
				require.Equal(t, instances(want), instances(first))
				if kind != "bold" { // the instance that decides is another, for none waits any more
					require.Equal(t, weighed(want.Ranking), weighed(first.Ranking))
				}
				require.Equal(t, first.Ranking, w.carry(t, tool, ask).Ranking)
				require.Equal(t, "import", w.inspect(t, tool, admin.InspectQuery{Partition: 1}).Partitions[0].History[1].Done)

				worker := w.start(t) // takes it up
				worker.awaitReady(t)
				worker.stop(t)
				require.Equal(t, first.Ranking, ask().Ranking)
			})
		}
	})
}

// carry exports, resets and imports, and returns the resulting report.
func (w *world) carry(t *testing.T, tool *admin.Tool, ask func() *admin.LearnerReport) *admin.LearnerReport {
	t.Helper()
	var file bytes.Buffer
	r, err := tool.Export(t.Context(), "", &file)
	require.NoError(t, err)
	require.Equal(t, []string{"feed"}, r.Learners)
	_, err = tool.Reset(t.Context(), "feed", true)
	require.NoError(t, err)
	require.Empty(t, ask().Items)
	_, err = tool.Import(t.Context(), bytes.NewReader(file.Bytes()[:file.Len()*2/3]), admin.ImportQuery{})
	require.ErrorIs(t, err, admin.ErrExport)
	done, err := tool.Import(t.Context(), bytes.NewReader(file.Bytes()), admin.ImportQuery{})
	require.NoError(t, err)
	require.Len(t, done.Partitions, 2)
	_, err = tool.Import(t.Context(), bytes.NewReader(file.Bytes()), admin.ImportQuery{})
	require.ErrorIs(t, err, admin.ErrImported)
	return ask()
}

// instances returns BOLD's instances, without outstanding decisions.
func instances(l *admin.LearnerReport) map[int32]map[int32]int64 {
	all := map[int32]map[int32]int64{}
	for _, p := range l.Parts {
		all[p.Partition] = map[int32]int64{}
		for _, i := range p.Instances {
			if i.Rounds > 0 {
				all[p.Partition][i.Number] = i.Rounds
			}
		}
	}
	return all
}

// weighed returns the candidates' weights.
func weighed(r *admin.Ranking) map[string]admin.RankedCandidate {
	all := map[string]admin.RankedCandidate{}
	for _, c := range r.Candidates {
		c.InFlight, c.Leads, c.BlockedBy, c.BeatenBy = 0, false, "", ""
		all[c.Item] = c
	}
	return all
}

// taken returns the statistics that do not depend on the topics' interleaving.
func taken(l *admin.LearnerReport) map[string]int64 {
	all := map[string]int64{}
	for _, it := range l.Items {
		if n := it.Payoffs + it.Waiting; n > 0 {
			all[it.Item] = n
		}
	}
	return all
}

// TestState_RebuildAfterATotalLoss: with Redis emptied, workers stop and name the command; afterwards
// account, payoffs per item and pending impressions are as before, and no impression is ranked again.
func TestState_RebuildAfterATotalLoss(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for _, kind := range []string{"qpmd", "bold"} {
			t.Run(kind, func(t *testing.T) {
				w := worldOf(t, env, 2, kind)
				sent := w.played(t, 600, 9)
				tool := w.stateTool(t)
				before, counts := w.inspect(t, tool, admin.InspectQuery{Partition: -1}), w.counts(t)
				w.lose(t)
				worker := w.start(t)
				worker.awaitUnready(t, "ranker-worker state rebuild")
				_, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
				require.ErrorIs(t, err, admin.ErrLive)
				worker.stop(t)
				r, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
				require.NoError(t, err)
				require.Len(t, r.Partitions, 2)
				require.EqualValues(t, 600, r.Partitions[0].Adopted+r.Partitions[1].Adopted)
				require.Empty(t, r.Partitions[0].Missing)
				again, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
				require.NoError(t, err)
				require.True(t, again.Partitions[0].Kept && again.Partitions[1].Kept)
				_, err = tool.Rebuild(t.Context(), admin.RebuildQuery{Replace: true})
				require.ErrorIs(t, err, admin.ErrConfirm)
				worker = w.start(t)
				got := w.await(t, sent)
				worker.stop(t)
				for _, name := range []string{"impressions.paid", "impressions.pending", "impressions.unselected",
					"selections.joined", "selections.duplicate", "payoffs.applied", "payoffs.duplicate"} {
					require.Equal(t, counts[name], got[name], name)
				}
				after := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
				require.Equal(t, taken(&before.Learners[0]), taken(&after.Learners[0]))
				w.lawful(t)
				require.Equal(t, "rebuild", after.Partitions[0].History[0].Done)
				w.ranked(t, 600)
			})
		}
	})
}

// lawful runs the checker.
func (w *world) lawful(t *testing.T) {
	t.Helper()
	require.Empty(t, w.violations(t))
}

// violations returns the laws that the checker finds broken.
func (w *world) violations(t *testing.T) []checker.Violation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r, err := checker.Check(ctx, checker.Options{Config: w.cfg})
	require.NoError(t, err)
	require.NotZero(t, r.Records)
	return r.Violations
}

// lose deletes all that the group has in Redis.
func (w *world) lose(t *testing.T) {
	t.Helper()
	for _, key := range w.keys(t, "") { // one by one: in a cluster they are of many slots
		require.NoError(t, w.redis.Del(t.Context(), key).Err())
	}
}

// keys are those of the group in Redis that go on with a text.
func (w *world) keys(t *testing.T, more string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	of := func(ctx context.Context, c *redis.Client) error {
		found, err := c.Keys(ctx, "{"+w.group+more+":*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	}
	switch c := w.redis.(type) {
	case *redis.ClusterClient:
		require.NoError(t, c.ForEachMaster(t.Context(), of))
	case *redis.Client:
		require.NoError(t, of(t.Context(), c))
	}
	return keys
}

// grow adds partitions to all topics of the world.
func (w *world) grow(t *testing.T, partitions int) {
	t.Helper()
	topics := w.cfg.Kafka.Topics
	all := []string{topics.Rankings}
	for _, name := range []string{topics.Impressions, topics.Selections, topics.Payoffs} {
		all = append(all, name, topics.DLQ(name))
	}
	req := &kafka.CreatePartitionsRequest{}
	for _, name := range all {
		req.Topics = append(req.Topics, kafka.TopicPartitionsConfig{Name: name, Count: int32(partitions)})
	}
	client := &kafka.Client{Addr: kafka.TCP(w.access.Kafka.Brokers...), Transport: w.transport(t)}
	res, err := client.CreatePartitions(t.Context(), req)
	require.NoError(t, err)
	for name, err := range res.Errors {
		require.NoError(t, err, name)
	}
	w.partitions = partitions
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	require.Eventually(t, func() bool { // metadata may show the fewer partitions for a while
		m, err := client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: all})
		if err != nil || slices.ContainsFunc(m.Topics, func(one kafka.Topic) bool { return len(one.Partitions) != partitions }) {
			return false
		}
		problems, err := b.Check(t.Context())
		return err == nil && len(problems) == 0
	}, deadline, 50*time.Millisecond)
}

// TestState_ReshardKeepsEverythingJoinable: from two partitions to six, with pending impressions,
// parked payoffs and unread records. Afterwards each pending impression is paid once, whatever
// its id's partition is now, the statistics are as before, and the accounts add up.
func TestState_ReshardKeepsEverythingJoinable(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		for _, kind := range []string{"qpmd", "bold"} {
			t.Run(kind, func(t *testing.T) { reshard(t, worldOf(t, env, 2, kind)) })
		}
	})
}

// cutOff ends a reshard when it says that it has come to a point.
func (w *world) cutOff(t *testing.T, point string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tool, err := admin.New(w.cfg, admin.Options{Progress: func(text string) {
		if strings.Contains(text, point) {
			cancel()
		}
	}})
	require.NoError(t, err)
	defer tool.Close()
	_, err = tool.Reshard(ctx, admin.ReshardQuery{Yes: true})
	require.ErrorIs(t, err, context.Canceled)
}

func reshard(t *testing.T, w *world) {
	const pending, unread = 60, 40
	topics := w.cfg.Kafka.Topics
	id := func(i int) []byte { return fmt.Appendf(nil, "moved-%d", i) }
	impression := func(i int) kafka.Message {
		return kafka.Message{Topic: topics.Impressions, Key: id(i), Value: fmt.Appendf(nil,
			`{"impression_id":"moved-%d","candidates":[{"item":"item-1","utility":1},{"item":"new-%d","utility":2}]}`, i, i%5)}
	}
	selection := func(i int) kafka.Message {
		return kafka.Message{Topic: topics.Selections, Key: id(i), Value: fmt.Appendf(nil, `{"impression_id":"moved-%d","item":"new-%d"}`, i, i%5)}
	}
	payoff := func(i int) kafka.Message {
		return kafka.Message{Topic: topics.Payoffs, Key: id(i), Value: fmt.Appendf(nil, `{"impression_id":"moved-%d","payoff":0.5}`, i)}
	}
	w.played(t, 400, 10)
	stays := w.counts(t)["impressions.pending"] // of the play: they are never paid
	worker := w.start(t)
	var batch []kafka.Message
	for i := range pending {
		batch = append(batch, impression(i))
		if i%2 == 0 {
			batch = append(batch, selection(i))
		}
		if i%3 == 1 {
			batch = append(batch, payoff(i)) // parked, but for those whose selection is there already
		}
	}
	w.publish(t, batch...)
	require.Eventually(t, func() bool {
		got := w.counts(t)
		return got["impressions.read"] == 400+pending && got["payoffs.read"]-got["payoffs.duplicate"] >= 20
	}, deadline, 20*time.Millisecond)
	worker.stop(t)
	batch = nil
	for i := pending; i < pending+unread; i++ {
		batch = append(batch, impression(i), selection(i))
	}
	w.publish(t, batch...)
	tool := w.stateTool(t)
	same, err := tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
	require.NoError(t, err)
	require.False(t, same.Done, "there is nothing to do yet")
	w.grow(t, 6)
	w.publish(t, payoff(pending)) // by the new count, before its impression was read
	worker = w.start(t)
	worker.awaitUnready(t, "ranker-worker state reshard")
	worker.stop(t)

	before := w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0]
	_, err = tool.Reshard(t.Context(), admin.ReshardQuery{})
	require.ErrorIs(t, err, admin.ErrConfirm)
	w.cutOff(t, "unread: ")
	require.Empty(t, w.keys(t, ":new"), "nothing was put together yet")
	w.cutOff(t, "partition 2 of 6 is in its place")
	worker = w.start(t)
	worker.awaitUnready(t, "ranker-worker state reshard")
	worker.stop(t)
	r, err := tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
	require.NoError(t, err)
	require.True(t, r.Done)
	require.True(t, r.Resumed)
	after := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
	require.Len(t, after.Partitions, 6)
	for item, n := range taken(&before) {
		require.GreaterOrEqual(t, taken(&after.Learners[0])[item], n, item)
	}
	require.Empty(t, w.keys(t, ":new"), "nothing is left of how it was put together")

	worker = w.start(t)
	worker.awaitReady(t)
	batch = nil
	for i := range pending + unread {
		if i < pending && i%2 == 1 {
			batch = append(batch, selection(i))
		}
		batch = append(batch, payoff(i), payoff(i)) // twice: the second is a duplicate
	}
	w.publish(t, batch...)
	sum := func(names ...string) (n int64) {
		got := w.counts(t)
		for _, name := range names {
			n += got[name]
		}
		return n
	}
	require.Eventually(t, func() bool { return sum("impressions.pending") == stays }, deadline, 50*time.Millisecond)
	worker.stop(t)
	got := w.counts(t)
	require.EqualValues(t, 400+pending+unread, got["impressions.read"])
	require.Equal(t, got["impressions.read"], sum("impressions.paid", "impressions.pending"), "%v", got)
	require.Equal(t, got["payoffs.applied"], got["impressions.paid"])
	require.Zero(t, sum("payoffs.orphan", "payoffs.late", "payoffs.rejected", "selections.orphan", "selections.rejected"), "%v", got)
	require.Equal(t, got["payoffs.read"], sum("payoffs.applied", "payoffs.duplicate", "payoffs.parked"), "%v", got)
	w.ranked(t, 400+pending+unread)
}
