package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// pausing is how many impressions wait, have ended, and come after a pause, each.
const pausing = 20

// pauseWorld is a partition in which impressions expire, and parked records become orphans, within seconds.
func pauseWorld(t *testing.T, env testenv.Env) *world {
	t.Helper()
	s := plain(env, "policy: greedy\n    payoff_horizon: 4s\n    selection_timeout: 4s\n    on_expiry: drop\njoin: {parking_time: 4s}")
	return makeWorld(t, 1, s, s, os.LookupEnv)
}

// selected selects for some impressions.
func (w *world) selected(name string, n int) (messages []kafka.Message) {
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		messages = append(messages, kafka.Message{Topic: w.cfg.Kafka.Topics.Selections, Key: []byte(id),
			Value: fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id)})
	}
	return messages
}

// turns are n selections and n payoffs for impressions that nobody has seen. The payoffs' times are yet to come, as of a producer whose
// clock is ahead: they count as now, which the order of records says for each.
func (w *world) turns(name string, n int) (messages []kafka.Message) {
	ahead := time.Now().Add(10 * time.Minute)
	for _, m := range w.selected(name, n) {
		paid := w.payoff(string(m.Key), "", 0.5)
		paid.Time = ahead
		messages = append(messages, m, paid)
	}
	return messages
}

// settled waits until all that was sent is stored, and has ended, and returns the account.
func (w *world) settled(t *testing.T, sent [event.Inputs]int64) (got map[string]int64) {
	t.Helper()
	ended := func() bool {
		got = w.counts(t)
		return got["impressions.read"] == sent[event.Impressions] && got["selections.read"] == sent[event.Selections] &&
			got["payoffs.read"] == sent[event.Payoffs] &&
			got["impressions.pending"]+got["selections.parked"]+got["payoffs.parked"] == 0
	}
	if !assert.Eventually(t, ended, deadline, 100*time.Millisecond) {
		t.Fatalf("sent %v, and the account is %v", sent, got)
	}
	delete(got, "impressions.adopted") // only a second run adopts
	return got
}

// paused lets impressions pause while payoffs go on, until 20 pending ones have expired and many payoffs came
// late. The first payoffs are dated in time. More impressions follow, some after their payoffs. It returns the
// account, the number of records sent, and a function that restores the store as of the beginning of the pause.
func (w *world) paused(t *testing.T) (account map[string]int64, sent [event.Inputs]int64, restore func()) {
	t.Helper()
	publish := func(messages ...kafka.Message) {
		w.publish(t, messages...)
		topics := w.cfg.Kafka.Topics
		for _, m := range messages {
			sent[map[string]event.Topic{topics.Impressions: event.Impressions, topics.Selections: event.Selections, topics.Payoffs: event.Payoffs}[m.Topic]]++
		}
	}
	worker := w.start(t)
	worker.awaitReady(t)
	began := time.Now().UTC()
	publish(append(w.impressions("ended", pausing), w.impressions("waits", pausing)...)...)
	publish(append(w.selected("ended", pausing), w.selected("waits", pausing)...)...)
	var payoffs []kafka.Message // at once, or they would be late on a busy machine
	for i := range pausing {
		payoffs = append(payoffs, w.payoff(fmt.Sprintf("ended-%d", i), "a", 0.5))
	}
	publish(payoffs...)
	require.Eventually(t, func() bool {
		got := w.counts(t)
		return got["selections.joined"] == 2*pausing && got["payoffs.applied"] == pausing
	}, deadline, 10*time.Millisecond)
	copied := w.copyStore(t, w.group+":0")

	for round := 0; round < 30 || w.counts(t)["payoffs.late"] < 2*pausing; round++ {
		batch := w.turns(fmt.Sprintf("nobody-%d", round), 400)
		expired := w.counts(t)["impressions.expired"] == pausing
		for i := range pausing {
			batch = append(batch, w.payoff(fmt.Sprintf("ended-%d", i), "a", 0.5), w.payoff(fmt.Sprintf("behind-%d", i), "a", 0.5))
			if expired {
				id := fmt.Sprintf("waits-%d", i)
				batch = append(batch, kafka.Message{Topic: w.cfg.Kafka.Topics.Payoffs, Key: []byte(id), Value: fmt.Appendf(nil,
					`{"impression_id":"%s","item":"a","payoff":0.5,"time":%q}`, id, began.Format(time.RFC3339Nano))})
			}
		}
		publish(batch...)
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.read"] == sent[event.Payoffs] }, deadline, 5*time.Millisecond)
		require.Less(t, time.Since(began), deadline, "%v", w.counts(t))
	}
	var parked []kafka.Message // once more, as on a busy machine those of the last round may be orphans by now
	for i := range pausing {
		parked = append(parked, w.payoff(fmt.Sprintf("behind-%d", i), "a", 0.5))
	}
	publish(parked...)
	publish(w.impressions("behind", pausing)...)
	publish(w.selected("behind", pausing)...)
	account = w.settled(t, sent)
	worker.stop(t)
	return account, sent, func() {
		require.NoError(t, w.redis.Del(t.Context(), w.keys(t, ":0}")...).Err())
		putBack(t, w.redis, copied)
	}
}

// TestState_OutlastsAPauseOfImpressions: impressions pause while thousands of payoffs and selections go on. Whether
// Redis is then restored from a copy before the pause or rebuilt from the topics, each record has its first outcome.
func TestState_OutlastsAPauseOfImpressions(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	w := pauseWorld(t, env)
	before, sent, restore := w.paused(t)
	require.EqualValues(t, pausing, before["impressions.expired"], "%v", before)
	require.GreaterOrEqual(t, before["payoffs.late"], int64(2*pausing))
	require.Greater(t, before["payoffs.orphan"], int64(10_000))
	orders := 0
	for _, r := range w.read(t, w.cfg.Kafka.Topics.Rankings, 0) {
		if r.Value == nil && len(r.Key) > 0 {
			orders++
		}
	}
	w.lawful(t)
	t.Logf("%d order records, account %v", orders, before)

	again := func() {
		worker := w.start(t)
		require.Equal(t, before, w.settled(t, sent))
		worker.stop(t)
		w.lawful(t)
	}
	restore()
	again()
	w.lose(t)
	_, err := w.stateTool(t).Rebuild(t.Context(), admin.RebuildQuery{})
	require.NoError(t, err)
	again()
	require.Greater(t, orders, 8, "above 32 KiB")
}
