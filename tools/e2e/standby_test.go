package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestStandby: a worker whose learner has been changed under its name leaves the partitions to one that has it as it is stored, and
// says so; all goes on there, with nothing refused. When that one has ended it joins again, and shows the fault.
func TestStandby(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: greedy")
		w := makeWorld(t, 4, s, s, nil)
		changed := *w.cfg
		changed.Learners = slices.Clone(changed.Learners)
		changed.Learners[0].PayoffRange.Max = 2
		const each = 50
		sent := 0
		use := func(name string) {
			messages := w.impressions(name, each)
			for i := range each {
				id := fmt.Sprintf("%s-%d", name, i)
				messages = append(messages, kafka.Message{Topic: w.cfg.Kafka.Topics.Selections, Key: []byte(id), Value: fmt.Appendf(nil,
					`{"impression_id":"%s","item":"a"}`, id)}, w.payoff(id, "", 0.5))
			}
			w.publish(t, messages...)
			sent += each
		}
		allPaid := func() {
			t.Helper()
			require.Eventually(t, func() bool { return w.counts(t)["impressions.paid"] == int64(sent) }, deadline, 20*time.Millisecond)
		}

		right := w.start(t)
		right.awaitReady(t)
		use("before")
		allPaid()
		wrong := w.startWith(t, &changed)
		use("meanwhile")
		wrong.awaitUnready(t, `stands by: other workers of the group have learner "feed" as it is stored`)
		require.Eventually(t, func() bool {
			all := right.app.Worker.Statuses()
			for _, s := range all {
				if s.Phase != task.Running {
					return false
				}
			}
			return len(all) == w.partitions
		}, deadline, 20*time.Millisecond)
		use("after")
		allPaid()
		wrong.awaitUnready(t, "stands by: ")

		right.stop(t)
		wrong.awaitUnready(t, "stopped (learner)")
		use("nobody")
		right = w.start(t)
		wrong.awaitUnready(t, "stands by: ")
		allPaid()
		wrong.stop(t) // while it stands by
		right.awaitReady(t)
		right.stop(t)
		got := w.counts(t)
		require.Zero(t, got["impressions.rejected"]+got["selections.rejected"]+got["payoffs.rejected"])
		w.ranked(t, sent)
	})
}
