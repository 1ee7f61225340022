package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// showing returns metadata of a broker that shows topics with these partition counts.
func showing(partitions map[string]int) *metadata {
	m := &metadata{topics: map[string]topicMetadata{}}
	for name, n := range partitions {
		m.topics[name] = topicMetadata{leaders: make([]leader, n)}
	}
	return m
}

// TestAwaitShown: made topics are waited for until each broker shows all of their partitions, with leaders.
func TestAwaitShown(t *testing.T) {
	want := map[string]int{"a": 2, "b": 3}
	all := showing(want)
	unled, fewer, failing := showing(want), showing(map[string]int{"a": 2, "b": 2}), showing(want)
	unled.topics["b"].leaders[1].broker = -1
	failing.topics["a"] = topicMetadata{code: kafka.UnknownTopicOrPartition}
	steps := []viewOf{
		{"one:1": showing(nil), "two:1": showing(nil)},
		{"one:1": all, "two:1": showing(map[string]int{"a": 2})},
		nil, // a broker does not answer
		{"one:1": unled, "two:1": all},
		{"one:1": all, "two:1": fewer},
		{"one:1": all, "two:1": failing},
		{"one:1": all, "two:1": showing(map[string]int{"a": 2, "b": 0})},
		{"one:1": all, "two:1": all},
	}
	looks := 0
	views := func(context.Context) (viewOf, error) {
		v := steps[looks]
		looks++
		if v == nil {
			return nil, errors.New("away")
		}
		return v, nil
	}
	require.NoError(t, awaitShown(soon(t), want, views, nil))
	require.Equal(t, len(steps), looks)

	ctx, cancel := context.WithCancel(t.Context())
	err := awaitShown(ctx, want, func(context.Context) (viewOf, error) {
		cancel()
		return steps[1], nil
	}, nil)
	require.ErrorIs(t, err, ErrNotShown)
	require.ErrorContains(t, err, "b at two:1")
}

// Topics that have just been made are there for whoever looks next.
func TestKafka_WhatIsMadeIsShown(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		for i := range 20 {
			o := options(t, env.Kafka)
			o.Group = fmt.Sprintf("%s-%d", o.Group, i)
			for topic := range o.Topics {
				o.Topics[topic] += fmt.Sprint("-", i)
			}
			created, err := client(t, o).Create(soon(t), Spec{Partitions: 4, Replication: 1})
			require.NoError(t, err)
			require.Len(t, created, 7)
			problems, err := client(t, o).Check(soon(t))
			require.NoError(t, err)
			require.Empty(t, problems)
		}
	})
}
