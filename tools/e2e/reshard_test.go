package e2e

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// create makes all topics of the world that are missing, and waits until they are there. Topics of the same names that
// are just being deleted are waited for.
func (w *world) create(t *testing.T, partitions int) {
	t.Helper()
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	defer b.Close()
	require.Eventually(t, func() bool {
		_, err := b.Create(t.Context(), broker.Spec{Partitions: partitions, Replication: 1})
		if err != nil {
			return false
		}
		problems, err := b.Check(t.Context())
		return err == nil && len(problems) == 0
	}, deadline, 50*time.Millisecond)
	w.partitions = partitions
}

// renamed gives the world topics of other names.
func (w *world) renamed(t *testing.T, suffix string, partitions int) {
	t.Helper()
	cfg, access := *w.cfg, *w.access
	for _, topics := range []*string{&cfg.Kafka.Topics.Impressions, &cfg.Kafka.Topics.Selections, &cfg.Kafka.Topics.Payoffs,
		&cfg.Kafka.Topics.Rankings} {
		*topics += suffix
	}
	access.Kafka.Topics = cfg.Kafka.Topics
	w.cfg, w.access = &cfg, &access
	w.create(t, partitions)
}

// recreated deletes all topics of the world and creates them again. Its tests are not parallel: a broker that loses a marker of a deleted
// topic (see transacts) holds up the transactions of others.
func (w *world) recreated(t *testing.T, partitions int) {
	t.Helper()
	topics := w.cfg.Kafka.Topics
	req := &kafka.DeleteTopicsRequest{Topics: []string{topics.Rankings}}
	for _, name := range []string{topics.Impressions, topics.Selections, topics.Payoffs} {
		req.Topics = append(req.Topics, name, topics.DLQ(name))
	}
	client := &kafka.Client{Addr: kafka.TCP(w.access.Kafka.Brokers...), Transport: w.transport(t)}
	w.ended(t, client, topics.Rankings)
	res, err := client.DeleteTopics(t.Context(), req)
	require.NoError(t, err)
	for name, err := range res.Errors {
		require.NoError(t, err, name)
	}
	w.create(t, partitions)
	for p := range partitions {
		w.transacts(t, int32(p))
	}
}

// ended waits until all transactions on a topic have their markers. While a topic is deleted, a broker may never answer a request for
// markers on it. For 30 s no other marker is then written, and all producers of all tests wait.
func (w *world) ended(t *testing.T, client *kafka.Client, topic string) {
	t.Helper()
	last := func(level kafka.IsolationLevel) (ends []int64) {
		req := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{}, IsolationLevel: level}
		for p := range w.partitions {
			req.Topics[topic] = append(req.Topics[topic], kafka.LastOffsetOf(p))
		}
		res, err := client.ListOffsets(t.Context(), req)
		require.NoError(t, err)
		ends = make([]int64, w.partitions)
		for _, p := range res.Topics[topic] {
			require.NoError(t, p.Error)
			ends[p.Partition] = p.LastOffset
		}
		return ends
	}
	require.Eventually(t, func() bool {
		return slices.Equal(last(kafka.ReadCommitted), last(kafka.ReadUncommitted))
	}, deadline, 20*time.Millisecond, "a transaction on %q does not end", topic)
}

// transacts waits until a transaction on a partition of the rankings comes to its end. Just after a topic was deleted and
// made again a broker may lose the marker of one for good; its transactional id is then stuck until the broker is
// restarted. So each try has an id of its own.
func (w *world) transacts(t *testing.T, p int32) {
	t.Helper()
	try := func(ctx context.Context) error {
		cfg := *w.access
		cfg.Kafka.Group = testenv.Unique(t, "probe")
		b, err := app.NewBroker(&cfg)
		if err != nil {
			return err
		}
		defer b.Close()
		log := b.Partition(p)
		producer, err := log.InitProducer(ctx, task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}})
		if err == nil {
			err = log.AddPartition(ctx, task.AddPartition{Producer: producer})
		}
		if err == nil {
			err = log.AbortTxn(ctx, task.AbortTxn{Producer: producer})
		}
		for err == nil { // the coordinator is busy until the marker is written
			if _, err := log.InitProducer(ctx, task.InitProducer{Producer: producer}); err == nil || ctx.Err() != nil {
				return err
			}
		}
		return err
	}
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return try(ctx) == nil
	}, deadline, 20*time.Millisecond)
}

// crowd are impressions whose users select one of five items and are paid 0.5 for it, at a time that the test chooses.
type crowd struct {
	w    *world
	name string
	n    int
}

// time is a part of a record; empty: the record's own time.
func (c *crowd) time(i int) string {
	if c.w.ago == 0 {
		return ""
	}
	return time.Now().Add(-c.w.ago * time.Duration(i) / time.Duration(c.n)).UTC().Format(`"time":"` + time.RFC3339Nano + `",`)
}

// id is a UUID: of impressions with other ids no tombstone is carried over.
func (c *crowd) id(i int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", crc32.ChecksumIEEE([]byte(c.name)), i)
}

func (c *crowd) item(i int) string { return fmt.Sprintf("new-%d", i%5) }

func (c *crowd) impression(i int) kafka.Message {
	return kafka.Message{Topic: c.w.cfg.Kafka.Topics.Impressions, Key: []byte(c.id(i)), Value: fmt.Appendf(nil,
		`{"impression_id":%q,%s"candidates":[{"item":"item-1","utility":1},{"item":%q,"utility":2}]}`, c.id(i), c.time(i), c.item(i))}
}

func (c *crowd) selection(i int) kafka.Message {
	return kafka.Message{Topic: c.w.cfg.Kafka.Topics.Selections, Key: []byte(c.id(i)),
		Value: fmt.Appendf(nil, `{"impression_id":%q,%s"item":%q}`, c.id(i), c.time(i), c.item(i))}
}

func (c *crowd) payoff(i int) kafka.Message { return c.w.payoff(c.id(i), "", 0.5) }

// enter lets a worker read all impressions but the last quarter, and some of their
// records: some are paid then, some selected, and some payoffs wait for their selection.
func (c *crowd) enter(t *testing.T) {
	t.Helper()
	before := c.w.counts(t)
	r := c.w.start(t)
	read := c.n * 3 / 4
	var batch []kafka.Message
	selections, payoffs := 0, 0
	for i := range read {
		batch = append(batch, c.impression(i))
		if i%2 == 0 {
			batch, selections = append(batch, c.selection(i)), selections+1
		}
		if i%4 < 2 {
			batch, payoffs = append(batch, c.payoff(i)), payoffs+1
		}
	}
	c.w.publish(t, batch...)
	require.Eventually(t, func() bool {
		got := c.w.counts(t)
		return got["impressions.read"] == before["impressions.read"]+int64(read) &&
			got["selections.read"] == before["selections.read"]+int64(selections) &&
			got["payoffs.read"] == before["payoffs.read"]+int64(payoffs)
	}, deadline, 20*time.Millisecond)
	r.stop(t)
	batch = nil
	for i := read; i < c.n; i++ {
		batch = append(batch, c.impression(i), c.selection(i))
	}
	c.w.publish(t, batch...)
}

// leave lets everybody select and be paid, and the payoffs come twice, until nobody is pending any more but those who were
// before.
func (c *crowd) leave(t *testing.T, stay int64) {
	t.Helper()
	r := c.w.start(t)
	r.awaitReady(t)
	var batch []kafka.Message
	for i := range c.n {
		batch = append(batch, c.selection(i), c.payoff(i), c.payoff(i))
	}
	before := c.w.counts(t)
	c.w.publish(t, batch...)
	var got map[string]int64
	arrived := func() bool {
		got = c.w.counts(t)
		return got["impressions.pending"] == stay && got["selections.read"] >= before["selections.read"]+int64(c.n) &&
			got["payoffs.read"] >= before["payoffs.read"]+2*int64(c.n)
	}
	if !assert.Eventually(t, arrived, 30*time.Second, 20*time.Millisecond) {
		t.Fatalf("%v, with %d pending before it", got, stay)
	}
	r.stop(t)
}

// sound compares the account and the items' statistics with the crowds' records: nothing is lost, nothing counted twice.
func (w *world) sound(t *testing.T, crowds ...*crowd) {
	t.Helper()
	got := w.counts(t)
	sum := func(names ...string) (n int64) {
		for _, name := range names {
			n += got[name]
		}
		return n
	}
	require.Equal(t, got["impressions.read"], sum("impressions.paid", "impressions.pending", "impressions.unselected"), "%v", got)
	require.Equal(t, got["payoffs.read"], sum("payoffs.applied", "payoffs.duplicate", "payoffs.parked"), "%v", got)
	require.Equal(t, got["selections.read"], sum("selections.joined", "selections.duplicate"), "%v", got)
	require.Equal(t, got["payoffs.applied"], got["impressions.paid"])
	want := map[string]int64{}
	for _, c := range crowds {
		for i := range c.n {
			want[c.item(i)]++
		}
	}
	r := w.inspect(t, w.stateTool(t), admin.InspectQuery{Partition: -1})
	require.Len(t, r.Partitions, w.partitions)
	known := taken(&r.Learners[0])
	for item, n := range want {
		require.Equal(t, n, known[item], item)
	}
	for _, it := range r.Learners[0].Items {
		if want[it.Item] > 0 {
			require.InDelta(t, 0.5*float64(it.Payoffs), it.Sum, 1e-9, it.Item)
		}
	}
	w.lawful(t)
}

// TestState_ReshardToAnyNumber: from four partitions to six, which is no multiple, by adding some; and on to three, by
// topics of other names, for Kafka takes none away. Each time there are impressions pending, records parked, and records
// unread in the old topics. Nothing is lost and nothing counts twice.
func TestState_ReshardToAnyNumber(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		kind := map[string]string{"embedded": "bold", "real": "qpmd"}[env.Name]
		w := worldOf(t, env, 4, kind)
		w.played(t, 300, 21)
		stay := w.counts(t)["impressions.pending"]
		tool := w.stateTool(t)
		first := &crowd{w, "first", 80}
		first.enter(t)
		w.grow(t, 6)
		r, err := tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.NoError(t, err)
		require.True(t, r.Done)
		require.Equal(t, []int{4, 6}, []int{r.From, r.To})
		first.leave(t, stay)
		w.sound(t, first)

		second := &crowd{w, "second", 80}
		second.enter(t)
		ranked := map[string]bool{}
		old := &world{partitions: w.partitions, group: w.group, cfg: w.cfg, access: w.access, redis: w.redis}
		w.renamed(t, "-3", 3)
		second.n += 20
		var late []kafka.Message
		for i := 80; i < 100; i++ { // producers use the new topics already
			late = append(late, second.impression(i))
		}
		w.publish(t, append(late, second.payoff(0), second.payoff(2))...)
		worker := w.start(t)
		worker.awaitUnready(t, "ranker-worker state reshard")
		worker.stop(t)
		tool = w.stateTool(t)
		_, err = tool.Reshard(t.Context(), admin.ReshardQuery{})
		require.ErrorIs(t, err, admin.ErrConfirm)
		w.cutOff(t, "partition 1 of 3 is in its place")
		r, err = tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.NoError(t, err)
		require.True(t, r.Resumed && r.Done)
		require.Equal(t, []int{6, 3}, []int{r.From, r.To})
		require.Empty(t, w.keys(t, ":new"), "nothing is left of how it was put together")
		require.Empty(t, w.keys(t, ":3}"), "nor of the old partitions")
		_, err = old.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.ErrorIs(t, err, admin.ErrReadBefore)
		second.leave(t, stay)
		w.sound(t, first, second)
		old.rankedOnce(t, ranked)
		w.rankedOnce(t, ranked)
		require.Len(t, ranked, 300+80+100)
	})
}

// TestState_ReshardWithSelectionsInFlight: robust counts selections in flight by time. After a reshard to a number that is
// no multiple, their buckets load and each of the selections can still be paid.
func TestState_ReshardWithSelectionsInFlight(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: robust")
		s.payoffs = "adversarial"
		w := makeWorld(t, 3, s, s, os.LookupEnv)
		w.ago = 5 * time.Minute
		c := &crowd{w, "old", 200}
		c.enter(t)
		for _, grow := range []func(){func() { w.grow(t, 5) }, func() { w.renamed(t, "-4", 4) }} {
			grow()
			r, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
			require.NoError(t, err)
			require.True(t, r.Done)
			w.start(t).stop(t)
		}
		c.leave(t, 0)
		w.sound(t, c)
	})
}

// TestState_ReshardOfRecreatedTopics: topics were deleted and created again with fewer partitions, after everything was read. While the
// old ones exist, reading them again is refused. An id in two partitions becomes one, and records that could not be joined are orphans.
func TestState_ReshardOfRecreatedTopics(t *testing.T) {
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := worldOf(t, env, 4, "qpmd")
		w.played(t, 300, 22)
		stay := w.counts(t)["impressions.pending"]
		c := &crowd{w, "all", 80}
		c.enter(t)
		w.misplace(t, c.payoff(3))
		r := w.start(t) // reads the rest after enter
		require.Eventually(t, func() bool {
			got := w.counts(t)
			return got["impressions.read"] == 300+80 && got["payoffs.parked"] > 0 && got["selections.parked"] == 0
		}, deadline, 20*time.Millisecond)
		r.stop(t)
		tool := w.stateTool(t)
		_, err := tool.Reshard(t.Context(), admin.ReshardQuery{Recreated: true, Yes: true})
		require.ErrorIs(t, err, admin.ErrNotRecreated)
		_, err = tool.Reshard(t.Context(), admin.ReshardQuery{Recreated: true})
		require.ErrorIs(t, err, admin.ErrNotRecreated, "so does the dry run")
		w.recreated(t, 3)
		tool = w.stateTool(t)
		_, err = tool.Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.ErrorIs(t, err, admin.ErrRecreated)
		done, err := tool.Reshard(t.Context(), admin.ReshardQuery{Recreated: true, Yes: true})
		require.NoError(t, err)
		require.True(t, done.Done)
		require.EqualValues(t, 1, w.counts(t)["payoffs.orphan"])
		c.leave(t, stay)
		got := w.counts(t)
		require.Equal(t, got["payoffs.read"], got["payoffs.applied"]+got["payoffs.duplicate"]+1)
		require.Equal(t, got["impressions.read"], got["impressions.paid"]+got["impressions.pending"]+got["impressions.unselected"])
		seen := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
		require.EqualValues(t, 16, taken(&seen.Learners[0])["new-3"])
		w.lawful(t)
	})
}

// TestState_ReshardRefusesBeforePartitionsAreAdded: keys that another partitioner has placed are in the way of any other number. The
// dry run says so as long as nothing is changed, and so does the command afterwards.
func TestState_ReshardRefusesBeforePartitionsAreAdded(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, "policy: greedy")
		w.misplace(t, w.impressions("i", 200)...)
		worker := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 200 }, deadline, 20*time.Millisecond)
		worker.stop(t)
		_, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{})
		require.ErrorIs(t, err, admin.ErrPartitioner)
		require.ErrorContains(t, err, "(200 of 200 ids)")
		r, err := w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: true})
		require.NoError(t, err, "there is nothing to do")
		require.False(t, r.Done)
		w.grow(t, 3)
		for _, yes := range []bool{false, true} {
			_, err = w.stateTool(t).Reshard(t.Context(), admin.ReshardQuery{Yes: yes})
			require.ErrorIs(t, err, admin.ErrPartitioner, yes)
		}
	})
}

// misplace publishes records where they do not belong.
func (w *world) misplace(t *testing.T, m ...kafka.Message) {
	t.Helper()
	right := kafka.Murmur2Balancer{}
	writer := &kafka.Writer{Transport: w.transport(t), Addr: kafka.TCP(w.access.Kafka.Brokers...), RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, partitions ...int) int {
			return (right.Balance(m, partitions...) + 1) % len(partitions)
		})}
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	require.NoError(t, writer.WriteMessages(ctx, m...))
}

// rankedOnce adds all impressions that the log of rankings answers, each of which must be new, and checks that offsets
// rise within a partition.
func (w *world) rankedOnce(t *testing.T, seen map[string]bool) {
	t.Helper()
	for p := range w.partitions {
		last := int64(-1)
		for _, m := range w.rankings(t, p) {
			var r event.Ranking
			require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, m.Value))
			require.False(t, seen[string(r.ID)], "impression %s was ranked twice", r.ID)
			seen[string(r.ID)] = true
			require.Equal(t, w.group, r.Decision.Group)
			require.Equal(t, int32(p), r.Decision.Partition)
			require.Greater(t, r.Decision.Offset, last, "offsets of impressions rise within a partition")
			last = r.Decision.Offset
		}
	}
}
