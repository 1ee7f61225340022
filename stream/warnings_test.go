package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// A learner whose dropped selections are informative is warned about once an hour of event time.
func TestDropWarnings_OnceAnHourOfEventTime(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	w := dropWarnings{hourly{}}
	at := func(d time.Duration, learners ...partition.LearnerStatus) (said []string) {
		out.Reset()
		w.say(log, &task.Status{Watermark: d.Milliseconds(), Learners: learners})
		for line := range strings.Lines(out.String()) {
			require.Contains(t, line, "on_expiry: {default: 0}")
			require.Contains(t, line, "state rebuild")
			_, name, _ := strings.Cut(line, "learner=")
			name, _, _ = strings.Cut(name, " ")
			said = append(said, name)
		}
		return said
	}
	misled := partition.UnattributedStatus{Paid: 50, Expired: 50, Items: 2, Statistic: 60}
	a, b := partition.LearnerStatus{Name: "a", Drops: misled}, partition.LearnerStatus{Name: "b", Drops: misled}
	require.Empty(t, at(0, partition.LearnerStatus{Name: "a"}, partition.LearnerStatus{Name: "gone", Gone: true, Drops: misled}))
	require.Equal(t, []string{"a"}, at(time.Minute, a))
	require.Equal(t, []string{"b"}, at(time.Hour, a, b))
	require.Equal(t, []string{"a"}, at(61*time.Minute, a, b))
	require.Empty(t, at(62*time.Minute, a, b))
}

// That a learner has not learned from all that expired is said once, and not again with every take-over.
func TestUntaughtNotes_OncePerLearner(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var u untaughtNotes
	for range 3 {
		u.say(log, []partition.LearnerStatus{{Name: "a", Untaught: 7}, {Name: "b"}, {Name: "c", Gone: true, Untaught: 7}})
	}
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "learner=a selections=7")
	require.Contains(t, out.String(), "state rebuild")
}

// A misspelt field is said once, whichever partitions have it; another one is said, too.
func TestMisspeltNotes_OncePerField(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var m misspeltNotes
	for _, field := range []string{"Learner", "Learner", "learnr"} {
		m.say(log, [event.Topics]string{"impressions", "", "payoffs", "rankings"},
			[event.Inputs]event.Misspelling{event.Impressions: {Records: 2, Field: field, Meant: "learner"}})
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "topic=impressions field=Learner meant=learner")
}
