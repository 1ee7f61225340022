package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestPooling_OnePartitionsPayoffsTeachTheOthers: one partition's payoffs decide rankings of another, which has never had a payoff.
func TestPooling_OnePartitionsPayoffsTeachTheOthers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, "policy: greedy")
		topics := w.cfg.Kafka.Topics
		next := 0
		id := func(partition int32) []byte { // the next id of a partition
			for ; ; next++ {
				if id := fmt.Appendf(nil, "i-%d", next); state.PartitionOf(id, 2) == partition {
					next++
					return id
				}
			}
		}
		impression := func(id []byte) kafka.Message {
			return kafka.Message{Topic: topics.Impressions, Key: id, Value: fmt.Appendf(nil,
				`{"impression_id":"%s","candidates":[{"item":"liked","utility":2},{"item":"paying","utility":1}]}`, id)}
		}
		r := w.start(t)
		for item, payoff := range map[string]float64{"liked": 0.1, "paying": 0.9} {
			id := id(0)
			w.publish(t, impression(id),
				kafka.Message{Topic: topics.Selections, Key: id, Value: fmt.Appendf(nil, `{"impression_id":"%s","item":"%s"}`, id, item)},
				kafka.Message{Topic: topics.Payoffs, Key: id, Value: fmt.Appendf(nil, `{"impression_id":"%s","payoff":%g}`, id, payoff)})
		}
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == 2 }, deadline, 50*time.Millisecond)
		// The other partition has no payoff, and draws the item on top. Once it has read these payoffs it shows
		// the best payer first. By chance this would happen in all draws of a round with a probability of 2^-40.
		const round = 40
		require.Eventually(t, func() bool {
			var messages []kafka.Message
			for range round {
				messages = append(messages, impression(id(1)))
			}
			before := len(w.rankings(t, 1))
			w.publish(t, messages...)
			var ranked []partition.Record
			require.Eventually(t, func() bool {
				ranked = w.rankings(t, 1)
				return len(ranked) == before+round
			}, deadline, 20*time.Millisecond)
			for _, m := range ranked[before:] {
				var r event.Ranking
				require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, m.Value))
				if string(r.Items[0]) != "paying" {
					return false
				}
			}
			return true
		}, deadline, 100*time.Millisecond)
		r.stop(t)
	})
}
