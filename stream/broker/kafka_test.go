package broker

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// The fence stands in rankings[p] as an abort marker of the first epoch, and from then on the broker takes nothing
// from earlier owners.
func TestFenceRefusesEarlierOwners(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(1)
		mark1, owner1 := fence(t, p)
		require.Greater(t, owner1.Epoch, mark1.Epoch)
		got, err := p.Produce(soon(t), rankings(owner1, 0, "a", "b"))
		require.NoError(t, err)
		require.EqualValues(t, 1, got.BaseOffset, "behind the marker")

		mark2, owner2 := fence(t, p)
		require.Equal(t, mark1.ID, mark2.ID)
		require.Greater(t, mark2.Epoch, owner1.Epoch)
		_, err = p.Produce(soon(t), rankings(owner1, 2, "zombie"))
		require.ErrorIs(t, err, task.ErrFenced)
		_, err = p.Produce(soon(t), rankings(owner2, 0, "c"))
		require.NoError(t, err)

		if env.Fake == nil { // kfake does not check who asks for a refresh
			_, err = p.InitProducer(soon(t), task.InitProducer{Producer: owner1})
			require.ErrorIs(t, err, task.ErrFenced)
		}
		require.ErrorIs(t, p.AddPartition(soon(t), task.AddPartition{Producer: owner1}), task.ErrFenced)

		all := fetchTo(t, p, event.Rankings, 0, 1<<20, func(f task.Fetched) bool { return len(f.Markers) == 2 && len(f.Records) == 3 })
		require.Equal(t, []string{"a", "b", "c"}, values(all))
		for i := range all.Markers {
			require.InDelta(t, time.Now().UnixMilli(), all.Markers[i].Timestamp, 60_000)
		}
		m := all.Markers
		require.Equal(t, []task.Marker{{Offset: 0, Timestamp: m[0].Timestamp, Producer: mark1, Abort: true},
			{Offset: 3, Timestamp: m[1].Timestamp, Producer: mark2, Abort: true}}, m)
		require.EqualValues(t, 5, all.Next)
		require.True(t, all.LastRead)
		// A marker below the offset asked for does not come again.
		for offset, markers := range map[int64][]task.Marker{3: all.Markers[1:], 4: nil} {
			f, err := fetchOnce(t, p, event.Rankings, offset, 1<<20)
			require.NoError(t, err)
			require.Equal(t, markers, f.Markers)
		}
	})
}

// A trailing marker does not stall a reader: Next goes beyond it.
func TestTrailingMarkerDoesNotStall(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(0)
		fence(t, p)
		f := fetchTo(t, p, event.Rankings, 0, 1<<20, func(f task.Fetched) bool { return f.Next > 0 })
		require.Empty(t, f.Records)
		require.EqualValues(t, 1, f.Next)
		require.True(t, f.LastRead)
		d, err := p.Describe(soon(t))
		require.NoError(t, err)
		require.EqualValues(t, 1, d.Topics[event.Rankings].End)
	})
}

// A repeated request leaves one copy; offsets rise; a gap in the sequence is refused. Rankings carry the broker's
// time, dead letters ours.
func TestProduceIsIdempotent(t *testing.T) {
	testenv.Each(t, produceIsIdempotent)
}

func produceIsIdempotent(t *testing.T, env testenv.Env) {
	p := ready(t, env).Partition(0)
	_, owner := fence(t, p)
	var offsets []int64
	for i := range 7 {
		r := rankings(owner, 2*i, fmt.Sprint("x", i), fmt.Sprint("y", i))
		got, err := p.Produce(soon(t), r)
		require.NoError(t, err)
		again, err := p.Produce(soon(t), r)
		require.NoError(t, err)
		require.Contains(t, []int64{got.BaseOffset, -1}, again.BaseOffset)
		if i > 0 {
			require.Equal(t, offsets[i-1]+2, got.BaseOffset)
		}
		offsets = append(offsets, got.BaseOffset)
	}
	// Older than the broker's memory of five batches, it knows that it is a copy, but not where.
	old, err := p.Produce(soon(t), rankings(owner, 0, "x0", "y0"))
	if err == nil {
		require.EqualValues(t, -1, old.BaseOffset)
	} else {
		require.ErrorIs(t, err, task.ErrSequence)
	}
	_, err = p.Produce(soon(t), rankings(owner, 99, "gap"))
	require.ErrorIs(t, err, task.ErrSequence)

	before := time.Now().Add(-time.Minute).UnixMilli()
	all := fetchTo(t, p, event.Rankings, 0, 1<<20, toEnd)
	require.Len(t, all.Records, 14)
	for i, r := range all.Records {
		require.Equal(t, fmt.Sprint([]string{"x", "y"}[i%2], i/2), string(r.Value))
		require.Equal(t, []byte{byte(i % 2)}, r.Key)
		if env.Fake == nil { // kfake leaves the producer's
			require.Greater(t, r.Timestamp, before, "LogAppendTime")
		}
	}
	// From the middle of a batch.
	mid := all.Records[3].Offset
	require.Equal(t, all.Records[3:], fetchTo(t, p, event.Rankings, mid, 1<<20, toEnd).Records)
	// One byte is enough for one batch at a time.
	require.Equal(t, all.Records, fetchTo(t, p, event.Rankings, 0, 1, toEnd).Records)
}

func TestDeadLetters(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(0)
		_, owner := fence(t, p)
		r := task.Produce{Topic: event.Payoffs, DeadLetters: true, Producer: owner, Timestamp: 1234, Messages: []task.OutMessage{
			{Key: []byte("k"), Value: []byte("v"), Headers: []task.Header{{Key: "why", Value: []byte("because")}, {Key: "nil"}}}}}
		var got task.Produced
		retry(t, "produce", func() (err error) { got, err = p.Produce(soon(t), r); return err })
		require.EqualValues(t, 1, got.BaseOffset, "behind the fence's marker")
		require.EqualValues(t, -1, got.AppendTime, "the record keeps our time")
		r.Topic = event.Rankings
		_, err := p.Produce(soon(t), r)
		require.ErrorIs(t, err, task.ErrUnsupported)

		k, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			c.dlq[event.Payoffs]: {0: kgo.NewOffset().AtStart()}}))
		require.NoError(t, err)
		defer k.Close()
		rec := k.PollFetches(soon(t)).Records()
		require.Len(t, rec, 1)
		require.Equal(t, []kgo.RecordHeader{{Key: "why", Value: []byte("because")}, {Key: "nil"}}, rec[0].Headers)
		require.EqualValues(t, 1234, rec[0].Timestamp.UnixMilli())
	})
}

// Produce returns the broker's time of each batch of rankings.
func TestAppendTimeIsReported(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(0)
		_, owner := fence(t, p)
		got, err := p.Produce(soon(t), rankings(owner, 0, "a"))
		require.NoError(t, err)
		if env.Fake != nil { // it does not stamp
			require.EqualValues(t, -1, got.AppendTime)
			return
		}
		require.InDelta(t, time.Now().UnixMilli(), got.AppendTime, 60_000)
		f := fetchTo(t, p, event.Rankings, got.BaseOffset, 1<<20, func(f task.Fetched) bool { return len(f.Records) > 0 })
		require.Equal(t, got.AppendTime, f.Records[0].Timestamp)
	})
}

// A timestamp ahead of the broker's clock, and a record without a key for a compacted topic, fail with errors of
// their own.
func TestRefusalsAreReported(t *testing.T) {
	env := testenv.Real(t)
	c := client(t, options(t, env.Kafka))
	testenv.Topics(t, env.Kafka, 1, c.o.Topics[event.Impressions], c.o.Topics[event.Rankings],
		c.dlq[event.Impressions]+"?cleanup.policy=compact", c.dlq[event.Payoffs])
	p := c.Partition(0)
	_, owner := fence(t, p)
	r := letters(owner, 0, "a")
	r.Topic, r.Timestamp = event.Payoffs, time.Now().Add(100*24*time.Hour).UnixMilli()
	_, err := p.Produce(soon(t), r)
	require.ErrorIs(t, err, task.ErrTimestamp)
	r.Timestamp = time.Now().UnixMilli()
	_, err = p.Produce(soon(t), r)
	require.NoError(t, err, "with the same sequence: nothing of it was appended")

	r = letters(owner, 0, "a", "b")
	r.Messages[1].Key = nil
	_, err = p.Produce(soon(t), r)
	require.ErrorIs(t, err, task.ErrInvalidRecord)
	r.Messages[1].Key = []byte("k")
	_, err = p.Produce(soon(t), r)
	require.NoError(t, err, "with the same sequence: nothing of it was appended")
}

// Raising the epoch with a producer that is not the newest fails as fenced, and so does one that the coordinator has
// forgotten. Neither returns another id.
func TestHeldProducerIsNewest(t *testing.T) {
	check := func(t *testing.T, addr string, forget func(*Partition)) {
		p := client(t, options(t, addr)).Partition(0)
		first := task.Producer{ID: -1, Epoch: -1}
		var held task.Producer
		retry(t, "init", func() (err error) {
			held, err = p.InitProducer(soon(t), task.InitProducer{Producer: first})
			return err
		})
		next, err := p.InitProducer(soon(t), task.InitProducer{Producer: held})
		require.NoError(t, err)
		require.Equal(t, task.Producer{ID: held.ID, Epoch: held.Epoch + 1}, next)
		again, err := p.InitProducer(soon(t), task.InitProducer{Producer: held})
		require.NoError(t, err, "the answer to the last call may have got lost")
		if again.Epoch == next.Epoch { // kfake raises it once more
			require.Equal(t, next, again)
		}
		forget(p)
		_, err = p.InitProducer(soon(t), task.InitProducer{Producer: again})
		require.ErrorIs(t, err, task.ErrFenced)
	}
	t.Run("embedded", func(t *testing.T) {
		env := testenv.Embedded(t)
		check(t, env.Kafka, func(p *Partition) { // another one's id
			_, err := p.InitProducer(soon(t), task.InitProducer{Producer: task.Producer{ID: 17, Epoch: 0}})
			require.ErrorIs(t, err, task.ErrFenced)
			env.Fake.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				res := kreq.ResponseKind().(*kmsg.InitProducerIDResponse)
				res.ProducerID = 4711
				return res, nil, true
			})
		})
	})
	t.Run("real", func(t *testing.T) {
		own := testenv.OwnKafka(t, realkafka.Options{Settings: map[string]string{"transactional.id.expiration.ms": "5000",
			"transaction.remove.expired.transaction.cleanup.interval.ms": "500"}})
		check(t, own.Addr, func(p *Partition) {
			k, err := kgo.NewClient(kgo.SeedBrokers(own.Addr))
			require.NoError(t, err)
			defer k.Close()
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{p.TransactionalID()}
			eventually(t, "the coordinator's forgetting", func() error {
				res, err := req.RequestWith(soon(t), k)
				if err == nil && res.TransactionStates[0].ErrorCode != kerr.TransactionalIDNotFound.Code {
					err = fmt.Errorf("it is %s", res.TransactionStates[0].State)
				}
				return err
			})
		})
	})
	t.Run("another owner", func(t *testing.T) {
		p := client(t, options(t, testenv.Real(t).Kafka)).Partition(0)
		first := task.Producer{ID: -1, Epoch: -1}
		var old task.Producer
		retry(t, "init", func() (err error) { old, err = p.InitProducer(soon(t), task.InitProducer{Producer: first}); return err })
		for range 2 {
			_, err := p.InitProducer(soon(t), task.InitProducer{Producer: first})
			require.NoError(t, err)
		}
		_, err := p.InitProducer(soon(t), task.InitProducer{Producer: old})
		require.ErrorIs(t, err, task.ErrFenced)
	})
}

func TestTooLargeIsSaid(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(0)
		_, owner := fence(t, p)
		d, err := p.Describe(soon(t))
		require.NoError(t, err)
		limit := d.Topics[event.Rankings].MaxMessageBytes
		big := rankings(owner, 0, "")
		big.Messages[0].Value = bytes.Repeat([]byte("x"), limit)
		_, err = p.Produce(soon(t), big)
		require.ErrorIs(t, err, task.ErrTooLarge)
		// The promised bound lets the largest record through.
		big.Messages[0].Value = big.Messages[0].Value[:limit-BatchHeaderSize-task.RecordOverhead-1]
		_, err = p.Produce(soon(t), big)
		require.NoError(t, err)
	})
}

// upstream is a producer of transactions, as others write them into our inputs.
type upstream struct {
	t  *testing.T
	k  *kgo.Client
	to string
}

func newUpstream(t *testing.T, env testenv.Env, c *Client) *upstream {
	k, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.TransactionalID(testenv.Unique(t, "upstream")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return &upstream{t, k, c.o.Topics[event.Impressions]}
}

func (u *upstream) begin(v ...string) {
	require.NoError(u.t, u.k.BeginTransaction())
	for _, s := range v {
		require.NoError(u.t, u.k.ProduceSync(soon(u.t), &kgo.Record{Topic: u.to, Value: []byte(s)}).FirstErr())
	}
}

func (u *upstream) end(commit kgo.TransactionEndTry) {
	require.NoError(u.t, u.k.EndTransaction(soon(u.t), commit))
}

// Records of aborted transactions are dropped from the inputs. This holds where transactions of several producers
// overlap, and wherever reading begins. While one is open, the end is not reached.
func TestAbortedTransactionsAreDropped(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(0)
		a, b := newUpstream(t, env, c), newUpstream(t, env, c)
		plain, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer plain.Close()
		write := func(s string) {
			require.NoError(t, plain.ProduceSync(soon(t), &kgo.Record{Topic: a.to, Value: []byte(s)}).FirstErr())
		}
		want := []string{"p1", "c1", "p2", "c2", "p3"}
		write("p1")
		a.begin("a1", "a2")
		b.begin("c1")
		write("p2")
		a.end(kgo.TryAbort)
		b.end(kgo.TryCommit)
		a.begin("c2")
		a.end(kgo.TryCommit)
		b.begin("a3")
		b.end(kgo.TryAbort)
		write("p3")
		all := fetchTo(t, p, event.Impressions, 0, 1<<20, toEnd)
		require.Equal(t, want, values(all))
		require.Equal(t, all.High, all.Next)
		require.Len(t, all.Markers, 4)
		require.Equal(t, want, values(fetchTo(t, p, event.Impressions, 0, 1, toEnd)), "batch by batch")
		for _, from := range all.Records {
			rest := fetchTo(t, p, event.Impressions, from.Offset, 1<<20, toEnd)
			require.Equal(t, string(from.Value), string(rest.Records[0].Value))
		}

		a.begin("open")
		write("p4")
		f := fetchTo(t, p, event.Impressions, all.Next, 1<<20, func(f task.Fetched) bool { return f.High > all.High+1 })
		require.Empty(t, f.Records)
		require.False(t, f.LastRead)
		a.end(kgo.TryAbort)
		require.Equal(t, []string{"p4"}, values(fetchTo(t, p, event.Impressions, all.Next, 1<<20, toEnd)))
	})
}

func TestOffsetOutOfRange(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(0)
		_, err := fetchOnce(t, p, event.Payoffs, 17, 1<<20)
		require.ErrorIs(t, err, task.ErrOffsetOutOfRange)
	})
}

// Batches larger than the limit are returned one by one.
func TestFetchOfLargeBatches(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		k, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer k.Close()
		long := string(bytes.Repeat([]byte("0123456789"), 3000))
		for i := range 5 {
			require.NoError(t, k.ProduceSync(soon(t), &kgo.Record{Topic: c.o.Topics[event.Payoffs], Partition: 1,
				Value: fmt.Append(nil, i, long)}).FirstErr())
		}
		for i := range 5 {
			f, err := fetchOnce(t, c.Partition(1), event.Payoffs, int64(i), 1000)
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint(i, long)}, values(f))
		}
	})
}

func TestLongPollEndsWithRecords(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(0)
		_, owner := fence(t, p)
		start := fetchTo(t, p, event.Rankings, 0, 1<<20, toEnd).Next
		var f task.Fetched
		done := make(chan error, 1)
		ctx := soon(t)
		go func() {
			var err error
			f, err = p.Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: start, MaxBytes: 1000, MaxWait: 15 * time.Second})
			done <- err
		}()
		_, err := p.Produce(soon(t), rankings(owner, 0, "x"))
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Equal(t, []string{"x"}, values(f))
	})
}

func TestDescribe(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(1)
		_, owner := fence(t, p)
		got, err := p.Produce(soon(t), rankings(owner, 0, "a", "b"))
		require.NoError(t, err)
		d, err := p.Describe(soon(t))
		require.NoError(t, err)
		require.NotEmpty(t, d.ClusterID)
		for topic, f := range d.Topics {
			want := task.TopicFacts{Name: c.o.Topics[topic], Partitions: 2, MaxMessageBytes: f.MaxMessageBytes,
				LogAppendTime: topic == int(event.Rankings), RetentionMillis: 7 * 24 * time.Hour.Milliseconds(), RetentionBytes: -1}
			if topic == int(event.Rankings) {
				want.End = got.BaseOffset + 2
			}
			require.Equal(t, want, f)
			require.Greater(t, f.MaxMessageBytes, 900_000)
		}

		o := c.o
		o.Topics[event.Selections], o.Topics[event.Payoffs] = "", testenv.Unique(t, "none")
		o.Topics[event.Impressions] = testenv.Unique(t, "kept")
		testenv.Topics(t, env.Kafka, 2, o.Topics[event.Impressions]+"?retention.ms=-1&retention.bytes=12345",
			o.Topics[event.Impressions]+o.DLQSuffix+"?cleanup.policy=compact")
		d, err = client(t, o).Partition(0).Describe(soon(t))
		require.NoError(t, err)
		require.Equal(t, task.TopicFacts{}, d.Topics[event.Selections])
		require.Equal(t, task.TopicFacts{Name: o.Topics[event.Payoffs], Missing: true}, d.Topics[event.Payoffs])
		kept := d.Topics[event.Impressions]
		require.Equal(t, task.TopicFacts{Name: o.Topics[event.Impressions], Partitions: 2, MaxMessageBytes: kept.MaxMessageBytes,
			RetentionMillis: -1, RetentionBytes: 12345}, kept)
		require.True(t, d.DeadLetters[event.Impressions].Compacted)
		require.True(t, d.DeadLetters[event.Payoffs].Missing)
	})
}

func TestCheckNamesEveryProblem(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		o := options(t, env.Kafka)
		c := client(t, o)
		problems, err := c.Check(soon(t))
		require.NoError(t, err)
		require.Len(t, problems, 7)
		testenv.Topics(t, env.Kafka, 3, o.Topics[0]+"?cleanup.policy=compact&retention.ms=7200000&retention.bytes=2000", o.Topics[2], c.dlq[0]+"?cleanup.policy=compact")
		testenv.Topics(t, env.Kafka, 2, o.Topics[3]+"?retention.ms=3600000&retention.bytes=1000", c.dlq[2]+"?max.message.bytes=1000")
		problems, err = c.Check(soon(t))
		require.NoError(t, err)
		for i, words := range []string{
			"-impressions\" is compacted: set cleanup.policy=delete",
			"-selections\" does not exist: create it",
			"-rankings\" has partition count 2, but",
			"-rankings\" lacks message.timestamp.type=LogAppendTime",
			"-rankings\" has retention.ms=3600000, but",
			"-rankings\" has retention.bytes=1000, but",
			"-impressions\", is compacted: set cleanup.policy=delete",
			"-selections.dlq\", for the dead letters",
			"-payoffs.dlq\", for the dead letters of",
			"has max.message.bytes=1000, less than",
		} {
			require.Greater(t, len(problems), i, "%q", problems)
			require.Contains(t, problems[i], words)
		}
		require.Len(t, problems, 10)
		_, err = c.Create(soon(t), Spec{Partitions: 4, Replication: 1})
		require.ErrorContains(t, err, "exists with partition count 3")
	})
}

func TestCommitted(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(1)
		var got []int64
		retry(t, "committed", func() (err error) { got, err = p.Committed(soon(t)); return err })
		require.Equal(t, []int64{-1, -1, -1}, got)
		retry(t, "commit", func() error {
			res, err := c.Kafka().OffsetCommit(soon(t), &kafka.OffsetCommitRequest{GroupID: c.o.Group, GenerationID: -1,
				Topics: map[string][]kafka.OffsetCommit{c.o.Topics[event.Payoffs]: {{Partition: 1, Offset: 42}}}})
			if err != nil {
				return err
			}
			return res.Topics[c.o.Topics[event.Payoffs]][0].Error
		})
		got, err := p.Committed(soon(t))
		require.NoError(t, err)
		require.Equal(t, []int64{-1, -1, 42}, got)
	})
}

// Bounds and OffsetAt return a log's first and last offsets, and the first offset at or after a time.
func TestBoundsAndOffsetAt(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		n, err := c.Partitions(soon(t), event.Rankings)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		p := c.Partition(1)
		first, end, err := p.Bounds(soon(t), event.Rankings)
		require.NoError(t, err)
		require.Equal(t, [2]int64{0, 0}, [2]int64{first, end})
		_, owner := fence(t, p)
		_, err = p.Produce(soon(t), rankings(owner, 0, "a", "b"))
		require.NoError(t, err)
		first, end, err = p.Bounds(soon(t), event.Rankings)
		require.NoError(t, err)
		require.Equal(t, [2]int64{0, 3}, [2]int64{first, end}, "a marker and two records")
		offset, ok, err := p.OffsetAt(soon(t), event.Rankings, 1)
		require.NoError(t, err)
		require.True(t, ok)
		require.LessOrEqual(t, offset, int64(1))
		_, ok, err = p.OffsetAt(soon(t), event.Rankings, time.Now().Add(time.Hour).UnixMilli())
		require.NoError(t, err)
		require.False(t, ok)

		o := options(t, env.Kafka)
		missing := client(t, o)
		_, err = missing.Partitions(soon(t), event.Rankings)
		require.ErrorIs(t, err, kafka.UnknownTopicOrPartition)
		_, _, err = missing.Partition(0).Bounds(soon(t), event.Rankings)
		require.Error(t, err)
	})
}
