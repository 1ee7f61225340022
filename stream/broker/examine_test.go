package broker

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestExamine: a cluster answers all questions, and is not changed by them.
func TestExamine(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := ready(t, env)
		cluster, err := c.Cluster(soon(t))
		require.NoError(t, err)
		require.NotEmpty(t, cluster.ID)
		require.Len(t, cluster.Brokers, 1)
		lacks, err := c.Greet(soon(t), cluster.Brokers[0].Address)
		require.NoError(t, err)
		if env.Name == "real" {
			require.Empty(t, lacks)
		}

		topics, err := c.TopicOperations(soon(t))
		require.NoError(t, err)
		require.Len(t, topics, len(c.topicNames()))
		for name, o := range topics {
			allowed, known := o.Allow(kafka.ACLOperationTypeWrite)
			require.True(t, allowed && known, name)
		}
		denied, err := c.Denied(soon(t))
		require.NoError(t, err)
		require.Empty(t, denied)

		var g Group
		eventually(t, "the group's coordinator", func() (err error) { g, err = c.Group(soon(t)); return err })
		require.Empty(t, g.Members)
		allowed, known := g.Operations.Allow(kafka.ACLOperationTypeRead)
		require.True(t, allowed && known)

		p := c.Partition(0)
		eventually(t, "the transactions' coordinator", func() error { return p.MayFence(soon(t)) })
		_, owner := fence(t, p)
		require.NoError(t, p.MayFence(soon(t)), "a producer is there, and is not ours to end")
		_, err = p.Produce(soon(t), rankings(owner, 0, "a"))
		require.NoError(t, err, "it is not fenced")

		d, err := p.Describe(soon(t))
		require.NoError(t, err)
		at, err := p.Stamped(soon(t), &d.Topics[event.Rankings])
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)

		at, err = c.Clock(soon(t))
		if env.Fake != nil {
			require.ErrorIs(t, err, ErrNoClock)
			return
		}
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)
	})
}
