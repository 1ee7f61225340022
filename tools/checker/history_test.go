package checker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestGroupThatBeganAtTheEnd: records from before the group began are ignored.
func TestGroupThatBeganAtTheEnd(t *testing.T) {
	v := newVictim(t)
	for _, id := range []string{"before", "earlier"} {
		v.impression(t, id, "feed")
		v.put(t, "payoffs", id, `"payoff":0.5`)
	}
	cfg := *v.cfg
	cfg.Kafka.Start = config.Latest
	v.cfg = &cfg
	w := v.start(t, v.now)
	require.Eventually(t, func() bool { return v.redis.Exists(t.Context(), v.key(0, "meta")).Val() == 1 }, deadline, 10*time.Millisecond)
	v.offsets["impressions"], v.offsets["payoffs"] = 0, 0
	v.impression(t, "after", "feed")
	v.put(t, "selections", "after", `"item":"a"`)
	v.put(t, "payoffs", "after", `"payoff":0.5`)
	v.settle(t)
	w.stop(t)
	r := v.check(t)
	requireClean(t, r)
	require.Equal(t, [event.Topics]int64{1, 1, 1, 1}, r.Partitions[0].Read)
	undo := v.add(t, "meta", "account.payoffs.applied", 1)
	requireBroken(t, v.check(t), accountSum)
	undo()
}

// TestRecordsWithoutKafkasTime: the times of records that old producers sent are those that the worker used.
func TestRecordsWithoutKafkasTime(t *testing.T) {
	v := newVictim(t)
	w := v.start(t, v.now)
	put := func(topic, name, id, rest string) {
		v.offsets[topic]++
		require.NoError(t, v.writer.WriteMessages(t.Context(), kafka.Message{Topic: name, Key: []byte(id), Time: time.UnixMilli(-1),
			Value: fmt.Appendf(nil, `{"impression_id":%q,%s}`, id, rest)}))
		v.settle(t)
	}
	topics := v.cfg.Kafka.Topics
	own := fmt.Sprintf(`,"time":%q`, time.UnixMilli(start).UTC().Format(time.RFC3339))
	for i, more := range []string{"", own, "", own} {
		id := fmt.Sprint("undated-", i)
		put("impressions", topics.Impressions, id, `"learner":"feed","candidates":[{"item":"a","utility":1}]`+more)
		put("selections", topics.Selections, id, `"item":"a"`+more)
		put("payoffs", topics.Payoffs, id, `"payoff":0.5`+more)
		put("payoffs", topics.Payoffs, "early-"+id, `"payoff":0.5`+more)
		v.impression(t, fmt.Sprint("dated-", i), "feed")
		v.clock.Add(time.Minute.Milliseconds())
	}
	v.settle(t)
	w.stop(t)
	requireClean(t, v.check(t))
}

// TestTwoGroupsOnTheSameTopics: each is checked by itself, though they share rankings and dead letters.
func TestTwoGroupsOnTheSameTopics(t *testing.T) {
	v := newVictim(t)
	cfg := *v.cfg
	cfg.Kafka.Group += "-2"
	other := &victim{offsets: v.offsets,
		world: &world{partitions: 1, group: cfg.Kafka.Group, cfg: &cfg, redis: v.redis, writer: v.writer}}
	other.clock.Store(start)
	first, second := v.start(t, v.now), other.start(t, v.now)
	for _, id := range []string{"a", "b", "c"} {
		v.impression(t, id, "feed")
		v.put(t, "selections", id, `"item":"a"`)
		v.put(t, "payoffs", id, `"payoff":0.5`)
		v.put(t, "payoffs", id, "{")
	}
	v.settle(t)
	other.settle(t)
	first.stop(t)
	second.stop(t)
	requireClean(t, v.check(t))
	requireClean(t, other.check(t))
}

// TestConfigurationsOfThePast: a decision made under an earlier configuration fits only where that one is given too.
func TestConfigurationsOfThePast(t *testing.T) {
	env := testenv.Embedded(t)
	v := &victim{world: newWorld(t, env, 1, victimLearners, ""), offsets: map[string]int64{}}
	v.clock.Store(start)
	w := v.start(t, v.now)
	v.impression(t, "a", "feed")
	v.settle(t)
	w.stop(t)
	before := v.cfg
	v.cfg = v.configure(t, env, strings.Replace(victimLearners, "payoff_horizon: 1h", "payoff_horizon: 2h", 1), fmt.Sprintf("redis: {url: %q}", env.RedisURL()))
	w = v.start(t, v.now)
	v.impression(t, "b", "feed")
	v.settle(t)
	w.stop(t)
	requireBroken(t, v.check(t), rankingsDeadlines)
	requireClean(t, v.check(t, func(o *Options) { o.Earlier = []*config.Config{before} }))
}

// TestWhatRetentionHasTakenIsSaid: if a topic lacks its beginning, the rest is compared.
func TestWhatRetentionHasTakenIsSaid(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(v.cfg.Kafka.Brokers...))
	require.NoError(t, err)
	defer client.Close()
	for _, topic := range []string{v.cfg.Kafka.Topics.Impressions, v.cfg.Kafka.Topics.Payoffs} {
		req := kmsg.NewPtrDeleteRecordsRequest()
		one := kmsg.NewDeleteRecordsRequestTopic()
		one.Topic = topic
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Offset = 3
		one.Partitions = append(one.Partitions, part)
		req.Topics = append(req.Topics, one)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		answer, err := req.RequestWith(ctx, client)
		cancel()
		require.NoError(t, err)
		require.Zero(t, answer.Topics[0].Partitions[0].ErrorCode)
	}
	r := v.check(t)
	requireClean(t, r)
	require.Contains(t, strings.Join(r.Unchecked, "\n"), "begins at offset 3")
	undo := v.add(t, "meta", "account.payoffs.applied", 1)
	requireBroken(t, v.check(t), accountSum)
	undo()
	undo = v.add(t, "feed:flights", v.number(t, "feed", "a"), 1)
	requireBroken(t, v.check(t), delayFlights)
	undo()
}

// TestReshardOfAGroupThatBeganAtTheEnd: pending impressions are counted in their new partition, and none of the log's is taken for an earlier one.
func TestReshardOfAGroupThatBeganAtTheEnd(t *testing.T) {
	v := newVictim(t)
	cfg := *v.cfg
	cfg.Kafka.Start = config.Latest
	v.cfg = &cfg
	w := v.start(t, v.now)
	require.Eventually(t, func() bool { return v.redis.Exists(t.Context(), v.key(0, "meta")).Val() == 1 }, deadline, 10*time.Millisecond)
	for i := range 10 {
		v.impression(t, fmt.Sprint(i), "feed")
	}
	v.settle(t)
	w.stop(t)
	topics, req := cfg.Kafka.Topics, kmsg.NewPtrCreatePartitionsRequest()
	all := []string{topics.Rankings}
	for _, name := range []string{topics.Impressions, topics.Selections, topics.Payoffs} {
		all = append(all, name, topics.DLQ(name))
	}
	for _, name := range all {
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = name, 2
		req.Topics = append(req.Topics, one)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Kafka.Brokers...))
	require.NoError(t, err)
	defer client.Close()
	_, err = req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	tool := v.stateTool(t, v.now)
	command(t, func(ctx context.Context) error {
		_, err := tool.Reshard(ctx, admin.ReshardQuery{Yes: true})
		return err
	})
	r := v.check(t)
	requireClean(t, r)
	require.Len(t, r.Partitions, 2)
}
