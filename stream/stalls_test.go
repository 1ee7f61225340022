package stream

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// said returns the messages from one look to the next, without the time.
func said(t *testing.T) func(at time.Duration, statuses map[int32]task.Status) []string {
	t.Helper()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	c := newStalls(newWaits(log), [event.Topics]string{"impressions", "", "payoffs", "rankings"}, false)
	return func(at time.Duration, statuses map[int32]task.Status) []string {
		out.Reset()
		c.look(at, statuses)
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
}

var nothingSaid = []string{""}

func waiting(p int32) task.Status {
	return task.Status{Phase: task.Running, Doing: fmt.Sprintf("fetching payoffs[%d]", p),
		Err: fmt.Errorf("fetching payoffs[%d]: offset %d: %w", p, 100+p, errors.New("no leader"))}
}

// A wait of several partitions is one line that names them. It is repeated every half minute, and its end is logged.
func TestCauses_OneLinePerCause(t *testing.T) {
	look := said(t)
	fetching := map[int32]task.Status{0: waiting(0), 2: waiting(2), 1: {Phase: task.Running}}
	require.Equal(t, nothingSaid, look(0, fetching))
	first := look(time.Second, fetching)
	require.Equal(t, []string{`level=WARN msg=waiting partitions="[0 2]" phase=running doing="fetching payoffs[0]" lasted=1s ` +
		`error="fetching payoffs[0]: offset 100: no leader"`}, first)
	require.Equal(t, nothingSaid, look(30*time.Second, fetching))
	again := look(31*time.Second, map[int32]task.Status{2: waiting(2)})
	require.Len(t, again, 1)
	require.Contains(t, again[0], `partitions=[2]`)
	require.Contains(t, again[0], `lasted=31s`)
	require.Equal(t, nothingSaid, look(33*time.Second, nil))
	require.Equal(t, []string{`level=INFO msg="over: no wait for this any more" wait=waiting doing="fetching payoffs[2]" lasted=31s`},
		look(36*time.Second, nil))
	require.Equal(t, nothingSaid, look(37*time.Second, nil))
}

// A wait shorter than a second is not logged.
func TestCauses_AMomentIsNotSaid(t *testing.T) {
	look := said(t)
	require.Equal(t, nothingSaid, look(0, map[int32]task.Status{0: waiting(0)}))
	require.Equal(t, nothingSaid, look(900*time.Millisecond, map[int32]task.Status{0: waiting(0)}))
	for at := time.Second; at < 10*time.Second; at += stallsEvery {
		require.Equal(t, nothingSaid, look(at, map[int32]task.Status{0: {Phase: task.Running}}))
	}
}

// A stopped partition that tries again and stops again for the same reason is one cause.
func TestCauses_Stopped(t *testing.T) {
	look := said(t)
	stopped := map[int32]task.Status{0: {Phase: task.Stopped, Reason: task.StopTopic, Again: 30 * time.Second, Err: errors.New("compacted")}}
	trying := map[int32]task.Status{0: {Phase: task.Acquiring}}
	look(0, stopped)
	require.Equal(t, []string{`level=ERROR msg="partition stopped" partitions=[0] reason=topic again=30s error=compacted`},
		look(time.Second, stopped))
	require.Equal(t, nothingSaid, look(20*time.Second, stopped))
	require.Equal(t, nothingSaid, look(21*time.Second, trying))
	require.Equal(t, nothingSaid, look(22*time.Second, stopped))
	require.Len(t, look(40*time.Second, stopped), 1)
}

// A group's beginning is logged once for all partitions, with the number of records before.
func TestCauses_Beginnings(t *testing.T) {
	look := said(t)
	began := task.Status{Phase: task.Running, Began: true, Skipped: [event.Inputs]int64{10, 0, 3}}
	require.Equal(t, nothingSaid, look(0, map[int32]task.Status{0: began, 1: {Phase: task.Acquiring}}))
	require.Equal(t, []string{`level=INFO msg="the group has never run in these partitions: it begins where kafka.start says" ` +
		`partitions="[0 1]" skipped.impressions=20 skipped.payoffs=6`}, look(0, map[int32]task.Status{1: began, 0: began}))
	require.Equal(t, nothingSaid, look(0, map[int32]task.Status{1: began, 0: began}))
	began.RankedBy = "other"
	lines := look(0, map[int32]task.Status{2: began})
	require.Len(t, lines, 2)
	require.Contains(t, lines[1], "level=WARN")
	require.Contains(t, lines[1], "other=other")
}
