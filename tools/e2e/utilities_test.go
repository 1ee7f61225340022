package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestUtilities_AreFoundWhereImpressionsCarryNone: users of one partition teach the order of utilities, through a restart of the worker.
// The other partition, without selections and with other item numbers, ranks by it too.
func TestUtilities_AreFoundWhereImpressionsCarryNone(t *testing.T) {
	t.Parallel()
	for _, utilities := range []string{"sorted", "social"} {
		t.Run(utilities, func(t *testing.T) {
			testenv.One(t, func(t *testing.T, env testenv.Env) {
				w := newWorld(t, env, 2, "policy: utility\n    utilities: "+utilities)
				a := &admirers{w: w, rng: rand.New(rand.NewPCG(1, 0))}
				r := w.start(t)
				defer func() { r.stop(t) }()
				certain := false
				for round := 0; !certain; round++ {
					require.Less(t, round, 200)
					a.round(t, 0, 10)
					if round == 0 {
						r.stop(t)
						r = w.start(t)
					}
					certain = a.round(t, 1, 3)
				}
				require.Positive(t, a.explored)
				got := w.counts(t)
				require.Zero(t, got["impressions.rejected"]+got["selections.rejected"]+got["payoffs.rejected"], "%v", got)
				hash := map[string]string{"sorted": "preferences", "social": "utilities"}[utilities]
				known := w.redis.HLen(t.Context(), fmt.Sprintf("{%s:0}:feed:%s", w.group, hash)).Val()
				require.Positive(t, known, "what is known is stored")
				require.Zero(t, w.redis.HLen(t.Context(), fmt.Sprintf("{%s:1}:feed:%s", w.group, hash)).Val(), "by whom it was learned")
			})
		})
	}
}

// admirers are users who like e best and a least.
type admirers struct {
	w        *world
	rng      *rand.Rand
	next     int
	seen     [2]int // rankings of each partition that were looked at
	explored int
}

const liked = "abcde" // the best last

// round publishes impressions without utilities in a partition, and awaits their rankings. Users of partition 0
// select and pay, those of partition 1 do not. It reports whether all rankings had a certain order, the true one.
func (a *admirers) round(t *testing.T, number, impressions int) (certain bool) {
	t.Helper()
	topics := a.w.cfg.Kafka.Topics
	var messages []kafka.Message
	for len(messages) < impressions {
		id := fmt.Appendf(nil, "i-%d", a.next)
		if a.next++; state.PartitionOf(id, 2) != int32(number) {
			continue
		}
		var candidates []string
		for _, k := range a.rng.Perm(len(liked)) {
			candidates = append(candidates, fmt.Sprintf(`{"item":"%c"}`, liked[k]))
		}
		messages = append(messages, kafka.Message{Topic: topics.Impressions, Key: id,
			Value: fmt.Appendf(nil, `{"impression_id":"%s","candidates":[%s]}`, id, strings.Join(candidates, ","))})
	}
	a.w.publish(t, messages...)
	var ranked []partition.Record
	require.Eventually(t, func() bool {
		ranked = a.w.rankings(t, number)
		return len(ranked) == a.seen[number]+impressions
	}, deadline, 20*time.Millisecond)
	certain = true
	var answers []kafka.Message
	for _, m := range ranked[a.seen[number]:] {
		var r event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, m.Value))
		require.Len(t, r.Decision.Ranks, len(liked))
		require.Equal(t, len(r.Decision.Undecided) > 0, r.Decision.Explored)
		if r.Decision.Explored {
			certain = false
			a.explored++
		} else {
			for k, item := range r.Items {
				require.Equal(t, string(liked[len(liked)-1-k]), string(item), "a certain order is the true one")
			}
		}
		if number == 0 {
			answers = append(answers, a.answers(&r)...)
		}
	}
	a.seen[number] = len(ranked)
	if len(answers) > 0 {
		before := a.w.counts(t)["payoffs.applied"]
		a.w.publish(t, answers...)
		require.Eventually(t, func() bool { return a.w.counts(t)["payoffs.applied"] == before+int64(impressions) }, deadline, 20*time.Millisecond)
	}
	return certain
}

// answers returns the selection of a user who looks at one to three items, with its utility, and its payoff.
func (a *admirers) answers(r *event.Ranking) []kafka.Message {
	topics := a.w.cfg.Kafka.Topics
	best := 0
	for _, item := range r.Items[:1+a.rng.IntN(3)] {
		best = max(best, strings.Index(liked, string(item)))
	}
	estimate := float64(best) + 0.01*a.rng.NormFloat64()
	return []kafka.Message{
		{Topic: topics.Selections, Key: r.ID, Value: fmt.Appendf(nil, `{"impression_id":"%s","item":"%c","utility":%g}`, r.ID, liked[best], estimate)},
		{Topic: topics.Payoffs, Key: r.ID, Value: fmt.Appendf(nil, `{"impression_id":"%s","payoff":0.5}`, r.ID)},
	}
}
