package broker

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// letters are dead letters of the impressions.
func letters(p task.Producer, sequence int, v ...string) task.Produce {
	r := rankings(p, sequence, v...)
	r.Topic, r.DeadLetters = event.Impressions, true
	return r
}

// An id that was retired is refused wherever we write, whatever its epoch; another one is not, and readers see nothing of it.
func TestRetiredProducerIsRefused(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(1)
		_, owner := fence(t, p)
		_, err := p.Produce(soon(t), rankings(owner, 0, "a"))
		require.NoError(t, err)
		_, err = p.Produce(soon(t), letters(owner, 0, "a"))
		require.NoError(t, err)

		require.NoError(t, p.Retire(soon(t), task.Retire{ProducerID: owner.ID}))
		if env.Fake == nil { // kfake writes the marker, but fences by its coordinator's state
			_, err = p.Produce(soon(t), rankings(owner, 1, "zombie"))
			require.ErrorIs(t, err, task.ErrFenced)
			_, err = p.Produce(soon(t), letters(owner, 1, "zombie"))
			require.ErrorIs(t, err, task.ErrFenced)
		}
		require.NoError(t, p.Retire(soon(t), task.Retire{ProducerID: owner.ID}), "a second time")

		other := c.o
		other.Group += "-other"
		_, next := fence(t, client(t, other).Partition(1))
		require.NotEqual(t, owner.ID, next.ID)
		_, err = p.Produce(soon(t), rankings(next, 0, "b"))
		require.NoError(t, err)
		all := fetchTo(t, p, event.Rankings, 0, 1<<20, func(f task.Fetched) bool { return len(f.Records) == 2 })
		require.Equal(t, []string{"a", "b"}, values(all))
		require.Equal(t, []task.Origin{{Producer: owner}, {Producer: next}}, all.Origins)
		require.Contains(t, producers(all.Markers), task.Producer{ID: owner.ID, Epoch: 32767})
		// Another partition number's log received nothing.
		f, err := fetchOnce(t, c.Partition(0), event.Rankings, 0, 1<<20)
		require.NoError(t, err)
		require.Empty(t, f.Markers)
	})
}

func producers(m []task.Marker) (p []task.Producer) {
	for i := range m {
		p = append(p, m[i].Producer)
	}
	return p
}

// A fence reaches the dead letters too.
func TestFenceCoversDeadLetters(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := ready(t, env).Partition(1)
		_, old := fence(t, p)
		_, err := p.Produce(soon(t), letters(old, 0, "a"))
		require.NoError(t, err)
		_, owner := fence(t, p)
		_, err = p.Produce(soon(t), letters(old, 1, "zombie"))
		require.ErrorIs(t, err, task.ErrFenced)
		_, err = p.Produce(soon(t), letters(owner, 0, "b"))
		require.NoError(t, err)
	})
}

// A dead-letter topic that is missing does not keep the fence from the others, and rankings that are missing are named.
func TestFenceOfMissingTopics(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := client(t, options(t, env.Kafka))
		testenv.Topics(t, env.Kafka, 2, c.o.Topics[event.Rankings], c.dlq[event.Payoffs])
		_, owner := fence(t, c.Partition(1))
		require.NoError(t, c.Partition(1).Retire(soon(t), task.Retire{ProducerID: owner.ID}))

		o := c.o
		o.Group, o.Topics[event.Rankings] = o.Group+"-none", testenv.Unique(t, "none")
		p := client(t, o).Partition(0)
		var first task.Producer
		retry(t, "init", func() (err error) {
			first, err = p.InitProducer(soon(t), task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}})
			return err
		})
		err := p.AddPartition(soon(t), task.AddPartition{Producer: first})
		require.ErrorIs(t, err, kafka.UnknownTopicOrPartition)
		require.ErrorContains(t, err, o.Topics[event.Rankings]+"[0]")
	})
}

// The id of another group that shares the rankings topic is left alone, and its owner goes on.
func TestRetireLeavesOthersAlone(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		p := c.Partition(1)
		other := c.o
		other.Group += "-other"
		theirs := client(t, other).Partition(1)
		_, owner := fence(t, theirs)
		require.NoError(t, p.Retire(soon(t), task.Retire{ProducerID: owner.ID}))
		_, err := theirs.Produce(soon(t), rankings(owner, 0, "a"))
		require.NoError(t, err)
		fence(t, theirs)
		all := fetchTo(t, p, event.Rankings, 0, 1<<20, func(f task.Fetched) bool { return len(f.Markers) == 2 })
		require.NotContains(t, producers(all.Markers), task.Producer{ID: owner.ID, Epoch: 32767})
	})
}

// Where rights are asked for, retiring needs one that a worker does not need otherwise; the error names it.
func TestRetireNeedsClusterAction(t *testing.T) {
	own := testenv.OwnKafka(t, realkafka.Options{
		SCRAM: []string{"SCRAM-SHA-256=[name=worker,password=secret]"},
		Listeners: []realkafka.Listener{{Name: "SECURED", Protocol: "SASL_PLAINTEXT", Settings: map[string]string{
			"sasl.enabled.mechanisms":        "SCRAM-SHA-256",
			"scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;"}}},
		Settings: map[string]string{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users": "User:ANONYMOUS"}})
	admin := ready(t, testenv.Env{Kafka: own.Addr})
	grant := func(kind kafka.ResourceType, name string, op kafka.ACLOperationType) {
		res, err := admin.Kafka().CreateACLs(soon(t), &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{ResourceType: kind,
			ResourceName: name, ResourcePatternType: kafka.PatternTypeLiteral, Principal: "User:worker", Host: "*", Operation: op,
			PermissionType: kafka.ACLPermissionTypeAllow}}})
		require.NoError(t, err)
		require.NoError(t, res.Errors[0])
	}
	for _, name := range admin.topicNames() {
		grant(kafka.ResourceTypeTopic, name, kafka.ACLOperationTypeDescribe)
	}
	o := admin.o
	o.Brokers = []string{own.Listeners["SECURED"]}
	var err error
	o.SASL, err = NewSASL("scram-sha-256", "worker", func() (string, error) { return "secret", nil })
	require.NoError(t, err)
	p := client(t, o).Partition(0)
	eventually(t, "the refusal", func() error {
		err = p.Retire(soon(t), task.Retire{ProducerID: 7})
		if err == nil || codeIs(err, kafka.ClusterAuthorizationFailed) {
			return nil
		}
		return err
	})
	require.ErrorIs(t, err, task.ErrUnsupported)
	require.ErrorContains(t, err, "ClusterAction on the cluster")
	grant(kafka.ResourceTypeCluster, "kafka-cluster", kafka.ACLOperationTypeClusterAction)
	eventually(t, "with the right", func() error { return p.Retire(soon(t), task.Retire{ProducerID: 7}) })
}
