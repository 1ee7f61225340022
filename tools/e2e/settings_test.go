package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// impressions makes n impressions of two items, with ids that begin with a name.
func (w *world) impressions(name string, n int) (messages []kafka.Message) {
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		messages = append(messages, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte(id), Value: fmt.Appendf(nil,
			`{"impression_id":"%s","candidates":[{"item":"a","utility":2},{"item":"b","utility":1}]}`, id)})
	}
	return messages
}

// payoff pays for an impression; without an item, for its selection.
func (w *world) payoff(id, item string, payoff float64) kafka.Message {
	if item != "" {
		item = fmt.Sprintf(`,"item":"%s"`, item)
	}
	return kafka.Message{Topic: w.cfg.Kafka.Topics.Payoffs, Key: []byte(id),
		Value: fmt.Appendf(nil, `{"impression_id":"%s","payoff":%g%s}`, id, payoff, item)}
}

// TestStart: a group that has never run begins at the end of its topics, or at their start, as kafka.start says. A group that has run goes
// on where it was.
func TestStart(t *testing.T) {
	t.Parallel()
	for start, before := range map[string]int{"latest": 0, "earliest": 3} {
		t.Run(start, func(t *testing.T) {
			testenv.Each(t, func(t *testing.T, env testenv.Env) {
				s := plain(env, "policy: greedy")
				s.start = start
				w := makeWorld(t, 2, s, s, nil)
				w.publish(t, append(w.impressions("before", 3), w.payoff("before-0", "a", 0.5))...)
				r := w.start(t)
				r.awaitReady(t)
				w.publish(t, w.impressions("while", 4)...)
				require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == int64(before+4) }, deadline, 20*time.Millisecond)
				r.stop(t)
				w.publish(t, w.impressions("away", 5)...)
				r = w.start(t)
				require.Eventually(t, func() bool {
					got := w.counts(t)
					return got["impressions.read"] == int64(before+4+5) && got["payoffs.read"] == int64(min(before, 1))
				}, deadline, 20*time.Millisecond)
				r.stop(t)
				w.ranked(t, before+4+5)
			})
		})
	}
}

// TestReplicas: with redis.wait_replicas and no replica, impressions are ranked and nothing counts as saved: offsets are
// not committed, and /readyz says why. Without that setting, another worker goes on from there.
func TestReplicas(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: greedy")
		s.redis += "\n  wait_replicas: 1"
		w := makeWorld(t, 1, s, plain(env, "policy: greedy"), nil)
		r := w.start(t)
		w.publish(t, w.impressions("i", 10)...)
		text := r.awaitUnready(t, "too few replicas have the checkpoint: 0 of 1")
		require.Eventually(t, func() bool { return len(w.rankings(t, 0)) == 10 }, deadline, 20*time.Millisecond)
		require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "too few replicas") }, deadline, 20*time.Millisecond, text)
		require.NoError(t, r.Kill(t)) // a drain would wait for the replica
		client := &kafka.Client{Addr: kafka.TCP(env.Kafka), Transport: w.transport(t)}
		topic := w.cfg.Kafka.Topics.Impressions
		offsets, err := client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: w.group, Topics: map[string][]int{topic: {0}}})
		require.NoError(t, err)
		require.Equal(t, int64(-1), offsets.Topics[topic][0].CommittedOffset, "nothing counts as saved")

		w.cfg = w.access
		r = w.start(t)
		w.publish(t, w.impressions("j", 5)...)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 15 }, deadline, 20*time.Millisecond)
		r.awaitReady(t)
		r.stop(t)
		w.ranked(t, 15)
	})
}

// TestNoSelectionsTopic: a payoff names the item that it is for, which is the selection too; one that names none is
// faulty.
func TestNoSelectionsTopic(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: greedy")
		s.noSelections = true
		w := makeWorld(t, 1, s, s, nil)
		r := w.start(t)
		r.awaitReady(t)
		w.publish(t, w.impressions("i", 20)...)
		var payoffs []kafka.Message
		for i := range 10 {
			payoffs = append(payoffs, w.payoff(fmt.Sprintf("i-%d", i), "b", 0.75))
		}
		w.publish(t, append(payoffs, w.payoff("i-10", "", 0.5), w.payoff("i-11", "unknown", 0.5))...)
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.read"] == 12 }, deadline, 20*time.Millisecond)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 20 }, deadline, 20*time.Millisecond)
		r.stop(t)
		got := w.counts(t)
		require.Equal(t, int64(10), got["payoffs.applied"], "%v", got)
		require.Equal(t, int64(2), got["payoffs.rejected"], "%v", got)
		require.Equal(t, int64(10), got["impressions.paid"], "%v", got)
		require.Equal(t, int64(10), got["impressions.pending"], "%v", got)
		require.Zero(t, got["selections.read"], "%v", got)
		w.ranked(t, 20)
		reasons := map[string]int{}
		for _, m := range w.letters(t, w.cfg.Kafka.Topics.Payoffs, 2) {
			for _, h := range m.Headers {
				if h.Key == "__streams.errors.exception" {
					reasons[string(h.Value)]++
				}
			}
		}
		require.Equal(t, map[string]int{string(event.MissingItem): 1, string(event.ItemNotInImpression): 1}, reasons)
	})
}
