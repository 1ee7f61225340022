package doctor_test

import (
	"context"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	real "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// TestCopies: the report names the topics that could not be written to with one broker less.
func TestCopies(t *testing.T) {
	env := testenv.Embedded(t, kfake.NumBrokers(3))
	single := of(t, env)
	single.make(t, three)
	single.finds(t, doctor.Options{}, [2]string{"warning topics", "-i, " + single.group + "-i.dlq"}, [2]string{"warning topics", "one copy, on one of 3 brokers"})

	s := of(t, env)
	s.make(t, broker.Spec{Partitions: 3, Replication: 3})
	s.finds(t, doctor.Options{}, [2]string{"warning topics", "min.insync.replicas is 1: a record counts as written when one broker has it"})
	s.alter(t, "-r", "min.insync.replicas", "4")
	s.alter(t, "-i", "unclean.leader.election.enable", "true")
	s.finds(t, doctor.Options{}, [2]string{"fault topics", s.group + "-r: min.insync.replicas is 4, with 3 copies"},
		[2]string{"warning topics", s.group + "-i: unclean.leader.election.enable is true"})
	for _, name := range []string{"-i", "-s", "-p", "-r", "-i.dlq", "-s.dlq", "-p.dlq"} {
		s.alter(t, name, "min.insync.replicas", "2")
	}
	s.alter(t, "-i", "unclean.leader.election.enable", "false")
	s.finds(t, doctor.Options{}, [2]string{"ok topics", "every copy is in sync; each topic has 3 copies or more, on 3 brokers"})
}

// alter sets a topic's setting.
func (s setting) alter(t *testing.T, topic, name, value string) {
	t.Helper()
	res, err := s.client(t).Kafka().IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: s.group + topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}}}}})
	require.NoError(t, err)
	require.NoError(t, res.Resources[0].Error)
}

// TestCopiesThatAreAway: of a real cluster of three, two brokers' death leaves fewer copies than have to be in sync, of Kafka's own
// topics too.
func TestCopiesThatAreAway(t *testing.T) {
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka", testenv.ShortEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, err := real.StartCluster(ctx, real.Options{Settings: map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
		"min.insync.replicas": "2", "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
		"transaction.state.log.min.isr": "3", "offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}}, 3)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	env := testenv.Embedded(t) // its Redis
	env.Kafka = c.Addrs()[0]
	s := of(t, env)
	s.make(t, broker.Spec{Partitions: 3, Replication: 3})
	s.finds(t, doctor.Options{}, [2]string{"ok topics", "every copy is in sync; each topic has 3 copies or more, on 3 brokers"})
	require.NoError(t, c.Brokers[2].Kill())
	lines := ""
	defer func() {
		if t.Failed() {
			t.Log(lines)
		}
	}()
	require.Eventually(t, func() bool {
		lines, _ = s.examine(t, doctor.Options{})
		return has(lines, "warning topics: copies are behind", "[0] 2 of 3") &&
			has(lines, "fault topics: fewer copies are in sync than min.insync.replicas", "__transaction_state[0] 2 instead of 3")
	}, 2*time.Minute, 100*time.Millisecond)
}
