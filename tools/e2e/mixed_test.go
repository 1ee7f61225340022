package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestMixedConfigurations: while a learner is being rolled out, a worker without it keeps its impressions and payoffs waiting, and says
// why. None is refused. Once that worker has gone all are ranked.
func TestMixedConfigurations(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: greedy")
		w := makeWorld(t, 2, s, s, nil)
		rolled := *w.cfg
		front := rolled.Learners[0]
		front.Name, front.Default = "front", false
		rolled.Learners = append(slices.Clone(rolled.Learners), front)

		old := w.start(t)
		old.awaitReady(t)
		fresh := w.startWith(t, &rolled)
		require.Eventually(t, func() bool { return len(fresh.App.Worker.Statuses()) == 1 && len(old.App.Worker.Statuses()) == 1 },
			deadline, 20*time.Millisecond)
		fresh.awaitReady(t)
		require.Eventually(t, func() bool {
			return strings.Contains(w.log.String(), "other workers of the group have learners that this one lacks;")
		}, deadline, 20*time.Millisecond)
		const n = 20
		var messages []kafka.Message
		for i := range n {
			id := fmt.Sprintf("front-%d", i)
			messages = append(messages, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte(id), Value: fmt.Appendf(nil,
				`{"impression_id":"%s","learner":"front","candidates":[{"item":"a","utility":2},{"item":"b","utility":1}]}`, id)})
		}
		w.publish(t, messages...)
		for i := range n {
			id := fmt.Sprintf("front-%d", i)
			w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Selections, Key: []byte(id), Value: fmt.Appendf(nil,
				`{"impression_id":"%s","item":"a"}`, id)}, w.payoff(id, "", 0.5))
		}
		old.awaitUnready(t, `learner "front" is not configured here, but it is at another worker of the group`)
		old.stop(t)
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == n }, deadline, 20*time.Millisecond)
		got := w.counts(t)
		require.Equal(t, int64(n), got["impressions.paid"])
		require.Zero(t, got["impressions.rejected"]+got["payoffs.rejected"])
		fresh.stop(t)
		w.ranked(t, n)
	})
}

// TestMixedConfigurations_RegistryLost: in a rollout Redis loses which workers there are, as when that shard alone fails over, and a worker
// that does not know the new learner begins right then. It waits for the others to announce theirs again, and no impression is refused.
func TestMixedConfigurations_RegistryLost(t *testing.T) {
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka and a real redis-server", testenv.ShortEnv)
	}
	t.Parallel()
	env := testenv.Real(t)
	s := plain(env, "policy: greedy")
	w := makeWorld(t, 4, s, s, nil)
	rolled := *w.cfg
	front := rolled.Learners[0]
	front.Name, front.Default = "front", false
	rolled.Learners = append(slices.Clone(rolled.Learners), front)
	const n = 40
	var messages []kafka.Message
	for i := range n {
		id := fmt.Sprintf("front-%d", i)
		messages = append(messages, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte(id), Value: fmt.Appendf(nil,
			`{"impression_id":"%s","learner":"front","candidates":[{"item":"a","utility":2},{"item":"b","utility":1}]}`, id)})
	}

	fresh := w.startWith(t, &rolled)
	fresh.awaitReady(t)
	workers := "{" + w.group + ":workers}"
	announced := func() string {
		says, err := w.redis.HGet(t.Context(), workers, fresh.App.Worker.ID()).Result()
		require.NoError(t, err)
		return says
	}
	was := announced()
	require.Eventually(t, func() bool { return announced() != was }, deadline, 10*time.Millisecond) // it does so again in seconds only
	require.NoError(t, w.redis.Del(t.Context(), workers).Err())
	old := w.start(t)
	require.Eventually(t, func() bool { return len(old.App.Worker.Statuses()) == 2 }, deadline, 10*time.Millisecond)
	w.publish(t, messages...)
	old.awaitUnready(t, `learner "front" is not configured here`)
	fresh.awaitReady(t)
	old.stop(t)
	require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == n }, deadline, 20*time.Millisecond)
	require.Zero(t, w.counts(t)["impressions.rejected"])
	fresh.stop(t)
	w.ranked(t, n)
}
