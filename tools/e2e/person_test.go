package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// stored returns all keys, fields and values that the group has in Redis.
func (w *world) stored(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, key := range w.keys(t, "") {
		var content any
		var err error
		switch kind := w.redis.Type(t.Context(), key).Val(); kind {
		case "hash":
			content, err = w.redis.HGetAll(t.Context(), key).Result()
		case "stream":
			content, err = w.redis.XRange(t.Context(), key, "-", "+").Result()
		case "zset":
			content, err = w.redis.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		case "string":
			content, err = w.redis.Get(t.Context(), key).Result()
		default:
			t.Fatalf("%s is a %s, which this test cannot read", key, kind)
		}
		require.NoError(t, err)
		fmt.Fprintf(&all, "%s %v\n", key, content)
	}
	return all.String()
}

// TestRedisHoldsNoUser: in an experiment by user, with pending, ended and parked records, no user is in Redis or in the rankings. Records
// that wait for their impression are there whole, and dead letters in Kafka.
func TestRedisHoldsNoUser(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const person = "person-4711"
		w := newWorld(t, env, 1, "policy: moss\n  control:\n    payoffs: stochastic\n    policy: utility\n"+
			"experiments:\n  feed: {arms: {feed: 0.5, control: 0.5}, control: control, by: user, period: 1h}")
		send := func(topic, id, rest string) {
			w.publish(t, kafka.Message{Topic: topic, Key: []byte(id), Value: fmt.Appendf(nil, `{"impression_id":"%s",%s}`, id, rest)})
		}
		worker := w.start(t)
		for i := range 20 {
			id := fmt.Sprintf("i-%d", i)
			send(w.cfg.Kafka.Topics.Impressions, id, `"learner":"feed","user":"`+person+`","candidates":[{"item":"a","utility":2},{"item":"b","utility":1}]`)
		}
		send(w.cfg.Kafka.Topics.Impressions, "bad", `"learner":"feed","user":"`+person+`","candidates":[]`)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 21 }, deadline, 20*time.Millisecond)
		for i := range 10 {
			id := fmt.Sprintf("i-%d", i)
			send(w.cfg.Kafka.Topics.Selections, id, `"item":"a"`)
			send(w.cfg.Kafka.Topics.Payoffs, id, `"payoff":1`)
		}
		send(w.cfg.Kafka.Topics.Payoffs, "early", `"payoff":1,"note":"parked"`)
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.read"] == 11 }, deadline, 20*time.Millisecond)
		worker.stop(t)

		counts, stored := w.counts(t), w.stored(t)
		require.EqualValues(t, 10, counts["payoffs.applied"])
		require.EqualValues(t, 10, counts["impressions.pending"])
		require.EqualValues(t, 1, counts["payoffs.parked"])
		require.NotContains(t, stored, person)
		require.Contains(t, stored, "feed", "the experiment and its learners are there")
		require.Contains(t, stored, "parked", "a parked record is there whole")
		require.NotContains(t, stored, "i-15", "ids are digests")
		for _, r := range w.rankings(t, 0) {
			require.NotContains(t, string(r.Value), person)
		}
		letter := w.letters(t, w.cfg.Kafka.Topics.Impressions, 1)[0]
		require.Contains(t, string(letter.Value), person)
		w.lawful(t)
	})
}
