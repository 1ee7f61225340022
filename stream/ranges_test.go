package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// A learner whose payoffs span a tenth of their range is warned of once there are many, once an hour of event time.
func TestRangeWarnings_OnceAnHourOfEventTime(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	w := rangeWarnings{hourly{}}
	said := func(watermark int64, c partition.UserModel, gone bool) bool {
		out.Reset()
		w.say(log, &task.Status{Watermark: watermark, Learners: []partition.LearnerStatus{{Name: "feed", Gone: gone, UserModel: c, PayoffMin: -20, PayoffMax: 180}}})
		return strings.Contains(out.String(), "learner=feed payoffs=")
	}
	wide := partition.UserModel{Payoffs: 1000, Least: 0.25, Most: 0.34}
	require.False(t, said(0, partition.UserModel{Payoffs: 999, Most: 0.05}, false), "too few")
	require.False(t, said(0, partition.UserModel{Payoffs: 5000, Most: 0.2}, false), "wide enough")
	require.False(t, said(0, wide, true))
	require.True(t, said(1, wide, false))
	require.False(t, said(warnEvery, wide, false))
	require.True(t, said(warnEvery+1, wide, false))
	require.Contains(t, out.String(), "payoff_range")
	require.Contains(t, out.String(), "least=30 most=48", "in the unit of payoff_range")
}
