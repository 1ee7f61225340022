package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, testenv.IgnoreServers())
}

// options are those of a group and topics that no other test has.
func options(t testing.TB, addr string) Options {
	name := testenv.Unique(t, "x")
	return Options{
		Brokers: []string{addr}, Group: name, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{name + "-impressions", name + "-selections", name + "-payoffs", name + "-rankings"},
	}
}

// client makes a client that ends with the test.
func client(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ready makes a client and all its topics, of two partitions.
func ready(t testing.TB, env testenv.Env, change ...func(*Options)) *Client {
	t.Helper()
	o := options(t, env.Kafka)
	for _, f := range change {
		f(&o)
	}
	c := client(t, o)
	create(t, c, Spec{Partitions: 2, Replication: 1})
	return c
}

func create(t testing.TB, c *Client, spec Spec) {
	t.Helper()
	created, err := c.Create(soon(t), spec)
	require.NoError(t, err)
	require.NotEmpty(t, created)
	eventually(t, "topics without a problem", func() error {
		problems, err := c.Check(soon(t))
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("%q", problems)
		}
		for p := int32(0); err == nil && p < int32(spec.Partitions); p++ { // each has a leader of its own, which takes its time
			_, err = c.Partition(p).Describe(soon(t))
		}
		return err
	})
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually calls f until it succeeds, or fails the test after a while.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // on a machine that computes other things besides
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(t, err, what)
		}
		<-tick.C
	}
}

// fetchOnce fetches without much of a wait.
func fetchOnce(t testing.TB, p *Partition, topic event.Topic, offset int64, bytes int) (task.Fetched, error) {
	t.Helper()
	return p.Fetch(soon(t), task.Fetch{Topic: topic, Offset: offset, MaxBytes: bytes, MaxWait: 100 * time.Millisecond})
}

// fetchTo reads a topic until done, or until it has been read to the end.
func fetchTo(t testing.TB, p *Partition, topic event.Topic, offset int64, bytes int, done func(task.Fetched) bool) (all task.Fetched) {
	t.Helper()
	all.Next = offset
	eventually(t, "reading "+p.c.Topic(topic), func() error {
		for {
			f, err := fetchOnce(t, p, topic, all.Next, bytes)
			if err != nil {
				return err
			}
			all.Records = append(all.Records, f.Records...)
			all.Origins = append(all.Origins, f.Origins...)
			all.Markers = append(all.Markers, f.Markers...)
			all.High, all.LastRead, all.LogStart = f.High, f.LastRead, f.LogStart
			moved := f.Next > all.Next
			all.Next = f.Next
			if done(all) {
				return nil
			}
			if !moved {
				return fmt.Errorf("still waiting at offset %d of %d", f.Next, f.High)
			}
		}
	})
	return all
}

func toEnd(f task.Fetched) bool { return f.LastRead }

// fence fences as the task does.
func fence(t testing.TB, p *Partition) (first, last task.Producer) {
	t.Helper()
	retry(t, "init", func() (err error) {
		first, err = p.InitProducer(soon(t), task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}})
		return err
	})
	retry(t, "add", func() error { return p.AddPartition(soon(t), task.AddPartition{Producer: first}) })
	retry(t, "abort", func() error { return p.AbortTxn(soon(t), task.AbortTxn{Producer: first}) })
	retry(t, "init again", func() (err error) {
		last, err = p.InitProducer(soon(t), task.InitProducer{Producer: first})
		return err
	})
	return first, last
}

func retry(t testing.TB, what string, f func() error) {
	t.Helper()
	eventually(t, what, func() error {
		err := f()
		require.NotErrorIs(t, err, task.ErrFenced)
		require.NotErrorIs(t, err, task.ErrUnsupported)
		return err
	})
}

func values(f task.Fetched) []string {
	var v []string
	for _, r := range f.Records {
		v = append(v, string(r.Value))
	}
	return v
}

func rankings(p task.Producer, sequence int, v ...string) task.Produce {
	r := task.Produce{Topic: event.Rankings, Producer: p, Sequence: int32(sequence), Timestamp: 1}
	for i, s := range v {
		r.Messages = append(r.Messages, task.OutMessage{Key: []byte{byte(i)}, Value: []byte(s)})
	}
	return r
}

// ctxOf is the test's context, where it has one.
func ctxOf(t require.TestingT) context.Context {
	if t, ok := t.(interface{ Context() context.Context }); ok {
		return t.Context()
	}
	return context.Background()
}
