package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

func codeIs(err error, codes ...kafka.Error) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// A reader gets one error when its partition's leader has changed, even if another request's metadata reported it
// first. After a description, the log in its present epoch is read.
func TestChangeOfLeaderIsReported(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		env := testenv.Embedded(t, kfake.NumBrokers(3))
		reportsChange(t, ready(t, env), func(topic string, from int32) { // brokers 0 to 2
			require.NoError(t, env.Fake.MoveTopicPartition(topic, 0, (from+1)%3))
		})
	})
	t.Run("real", func(t *testing.T) {
		if testenv.Short() {
			t.Skipf("left out, because %s=1: it needs a real Apache Kafka", testenv.ShortEnv)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		cluster, err := realkafka.StartCluster(ctx, realkafka.Options{Heap: "256m", Settings: map[string]string{
			"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}}, 3)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		k, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.MetadataMinAge(50*time.Millisecond))
		require.NoError(t, err)
		defer k.Close()
		o := options(t, cluster.Addrs()[0])
		c := client(t, o)
		create(t, c, Spec{Partitions: 2, Replication: 3})
		reportsChange(t, c, func(topic string, from int32) { elect(t, k, topic, from%3+1, from%3+1, (from+1)%3+1, from) })
		showsLoss(t, cluster, k)
	})
}

// showsLoss has a follower lead that lacks records which a reader has read. A description shows the end where it lacks them, although other
// records are in their place.
func showsLoss(t *testing.T, cluster *realkafka.Cluster, k *kgo.Client) {
	const leader, follower = 2, 3 // the first broker stays
	o := options(t, cluster.Addrs()[0])
	c := client(t, o)
	create(t, c, Spec{Partitions: 2, Replication: 3})
	topic := o.Topics[event.Payoffs]
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for name, value := range map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"} {
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Value = name, &value
		of.Configs = append(of.Configs, one)
	}
	alter.Resources = append(alter.Resources, of)
	res, err := alter.RequestWith(soon(t), k)
	require.NoError(t, err)
	require.Zero(t, res.Resources[0].ErrorCode)
	elect(t, k, topic, leader, leader, follower)
	write := func(n int) {
		for range n {
			r := &kgo.Record{Topic: topic, Partition: 0, Value: []byte("x")}
			require.NoError(t, k.ProduceSync(soon(t), r).FirstErr())
		}
	}
	end := func(p *Partition) (end int64) {
		eventually(t, "a description", func() error {
			d, err := p.Describe(soon(t))
			if err == nil {
				end = d.Topics[event.Payoffs].End
			}
			return err
		})
		return end
	}
	write(1)
	require.NoError(t, cluster.Brokers[follower-1].Kill())
	write(2)
	reader, fresh := c.Partition(0), c.Partition(0)
	require.Equal(t, int64(3), fetchTo(t, reader, event.Payoffs, 0, 1000, func(f task.Fetched) bool { return f.Next == 3 }).Next)
	require.Equal(t, int64(3), end(reader))
	require.NoError(t, cluster.Brokers[leader-1].Kill())
	require.NoError(t, cluster.Brokers[follower-1].Start(soon(t)))
	write(4)
	require.Equal(t, int64(5), end(fresh))
	require.Equal(t, int64(1), end(reader))
}

// elect gives a topic's partition 0 some replicas, and makes a broker, the first of them, its leader.
func elect(t *testing.T, k *kgo.Client, topic string, broker int32, replicas ...int32) {
	t.Helper()
	assign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	assign.TimeoutMillis = 10_000
	assign.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic,
		Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: replicas}}}}
	res, err := assign.RequestWith(soon(t), k)
	require.NoError(t, err)
	require.Zero(t, res.ErrorCode)
	vote := kmsg.NewPtrElectLeadersRequest()
	vote.TimeoutMillis = 10_000
	vote.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	eventually(t, "the election", func() error {
		_, err := vote.RequestWith(soon(t), k)
		if err != nil {
			return err
		}
		meta := kmsg.NewPtrMetadataRequest()
		meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
		got, err := meta.RequestWith(soon(t), k)
		if err != nil {
			return err
		}
		for _, p := range got.Topics[0].Partitions { // in no order
			if p.Partition == 0 && p.Leader != broker {
				return fmt.Errorf("broker %d leads", p.Leader)
			}
		}
		return nil
	})
}

func reportsChange(t *testing.T, c *Client, move func(topic string, from int32)) {
	name := c.o.Topics[event.Payoffs]
	a, b, d := c.Partition(0), c.Partition(0), c.Partition(0)
	l, err := c.fetchMetadata(soon(t))
	require.NoError(t, err)
	first, err := l.leader(name, 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, first.epoch, int32(0))
	for _, p := range []*Partition{a, b, d} {
		_, err := fetchOnce(t, p, event.Payoffs, 0, 1000)
		require.NoError(t, err)
	}
	move(name, first.broker)
	eventually(t, "the change in the metadata", func() error {
		if l, err := c.fetchMetadata(soon(t)); err != nil || l.topics[name].leaders[0].epoch == first.epoch {
			return fmt.Errorf("the epoch is still %d: %w", first.epoch, err)
		}
		return nil
	})
	requireOneFailure(t, a)
	requireOneFailure(t, b)
	eventually(t, "a description", func() error { _, err := d.Describe(soon(t)); return err })
	_, err = fetchOnce(t, d, event.Payoffs, 0, 1000)
	require.NoError(t, err, "the description was of the new leader's log")
}

// requireOneFailure requires that the next fetch fails because of the epoch, and that a later one succeeds.
func requireOneFailure(t *testing.T, p *Partition) {
	t.Helper()
	_, err := fetchOnce(t, p, event.Payoffs, 0, 1000)
	require.True(t, codeIs(err, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch), "%v", err)
	eventually(t, "reading on", func() error {
		_, err := fetchOnce(t, p, event.Payoffs, 0, 1000)
		return err
	})
}

// A deposed leader that still answers, with nothing, is followed only until the metadata have aged.
func TestLeaderThatWasDeposed(t *testing.T) {
	env := testenv.Embedded(t, kfake.NumBrokers(3))
	c := ready(t, env)
	c.metadataCache.maxAge = 100 * time.Millisecond
	c.Reset()
	p, topic := c.Partition(0), c.Topic(event.Payoffs)
	_, err := fetchOnce(t, p, event.Payoffs, 0, 1000)
	require.NoError(t, err)
	due := *c.metadataCache.due.Load()
	require.NotEqual(t, due.Round(0), due, "a wall clock that is set back would put it off")
	old := c.metadataCache.last.Load().topics[topic].leaders[0].broker
	env.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		if env.Fake.CurrentNode() != old {
			return nil, nil, false
		}
		one := kmsg.NewFetchResponseTopicPartition()
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.Topics = []kmsg.FetchResponseTopic{{Topic: topic, Partitions: []kmsg.FetchResponseTopicPartition{one}}}
		return res, nil, true
	})
	require.NoError(t, env.Fake.MoveTopicPartition(topic, 0, (old+1)%3))
	k, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, k.ProduceSync(soon(t), &kgo.Record{Topic: topic, Value: []byte("new")}).FirstErr())
	eventually(t, "reading from the new leader", func() error {
		f, err := fetchOnce(t, p, event.Payoffs, 0, 1000)
		if err == nil && len(f.Records) == 0 {
			err = errors.New("nothing read")
		}
		return err
	})
}
