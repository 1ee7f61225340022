package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// pay appends payoffs for the impressions from..from+n-1.
func (d *driver) pay(from, n int, at event.Millis) {
	for i := from; i < from+n; i++ {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a","payoff":0.5}`, id))
		d.w.inputs[event.Payoffs][len(d.w.inputs[event.Payoffs])-1].timestamp = at
	}
}

// stepped is how many records of a topic have been stepped.
func (d *driver) stepped(t event.Topic) int64 { return d.p.task.obs.Stepped[t] }

// busyPartition has ranked 3,000 impressions, with some selections. Its store
// answers faster than records are stepped, so that some are always ready.
func busyPartition(t *testing.T, change func(*Config)) *driver {
	d := served(t, change)
	d.w.fetchMost = 5000
	d.impress(1000, 3000, d.w.wall-2*time.Hour.Milliseconds())
	for i := range 3000 {
		id := fmt.Sprintf("i-%d", 1000+i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
	}
	require.NoError(t, d.run(time.Minute, d.idle))
	d.latency, d.busy = time.Millisecond, 10*time.Millisecond
	return d
}

// TestStorm_PayoffsDoNotStarveImpressions: payoffs older than new impressions, and more than can be stepped at once, take at most every
// other step while an impression waits. Some are for ranked impressions, others for unknown ones.
func TestStorm_PayoffsDoNotStarveImpressions(t *testing.T) {
	for name, from := range map[string]int{"known": 1000, "unknown": 100_000} {
		t.Run(name, func(t *testing.T) {
			d := busyPartition(t, nil)
			for range 10 {
				d.pay(from, 3000, d.w.wall-time.Hour.Milliseconds())
			}
			before := d.stepped(event.Payoffs)
			require.NoError(t, d.run(time.Minute, func() bool { return d.stepped(event.Payoffs) > before+2000 }))
			d.impress(200_000, 1000, d.w.wall)
			payoffs, impressions := d.stepped(event.Payoffs), d.stepped(event.Impressions)
			require.NoError(t, d.run(time.Minute, func() bool { return d.stepped(event.Impressions) == impressions+1000 }))
			meanwhile := d.stepped(event.Payoffs) - payoffs
			// Steps before the impressions were fetched are within the slack.
			require.LessOrEqual(t, meanwhile, int64(1000+4*stepsAtOnce))
			require.GreaterOrEqual(t, meanwhile, int64(400), "and payoffs go on")
			require.NoError(t, d.run(10*time.Minute, d.idle))
			require.NoError(t, checkAccount(d.w, d.p))
		})
	}
}

// TestStorm_ImpressionsDoNotStarvePayoffs: a backlog of impressions, and payoffs of impressions ranked before that came in
// the same time, are taken in the order of their time. Payoffs are not read ahead of older impressions, which may be theirs.
func TestStorm_ImpressionsDoNotStarvePayoffs(t *testing.T) {
	d := busyPartition(t, nil)
	const n, every = 20_000, 10 // a payoff for every ten impressions
	at := d.w.wall - time.Hour.Milliseconds()
	for i := range n / every {
		d.impress(100_000+every*i, every, at+int64(i))
		d.pay(1000+i, 1, at+int64(i))
	}
	payoffs, impressions := d.stepped(event.Payoffs), d.stepped(event.Impressions)
	require.NoError(t, d.run(10*time.Minute, func() bool {
		p, i := d.stepped(event.Payoffs)-payoffs, d.stepped(event.Impressions)-impressions
		require.LessOrEqual(t, every*p, i+2*stepsAtOnce, "ahead of older impressions")
		require.GreaterOrEqual(t, every*p, i-2*stepsAtOnce, "behind newer impressions")
		return i == n
	}))
	require.NoError(t, d.run(10*time.Minute, d.idle))
	require.Zero(t, d.p.task.Status().Account.Payoffs.Parked)
	require.NoError(t, checkAccount(d.w, d.p))
}

// TestStorm_PayoffsLeaveRoomForImpressions: while the store takes less than payoffs change, half of the unsaved room is for impressions.
func TestStorm_PayoffsLeaveRoomForImpressions(t *testing.T) {
	d := busyPartition(t, func(c *Config) { c.MaxUnsavedBytes, c.SegmentBytes = 400<<10, 16<<10 })
	before := d.stepped(event.Payoffs)
	d.hold = func(e Effect) bool { _, ok := e.(Checkpoint); return ok }
	d.pay(1000, 3000, d.w.wall-time.Hour.Milliseconds())
	_ = d.run(time.Second, func() bool { return false })
	payoffs := d.stepped(event.Payoffs)
	require.Greater(t, payoffs, before+500)
	require.Less(t, payoffs, before+3000, "some are held back")
	require.False(t, d.p.task.Status().Full)
	d.impress(200_000, 500, d.w.wall)
	impressions := d.stepped(event.Impressions)
	_ = d.run(time.Second, func() bool { return false })
	require.Equal(t, impressions+500, d.stepped(event.Impressions))
	require.Equal(t, payoffs, d.stepped(event.Payoffs))
	// Impressions may fill all of it, and payoffs go on all the same once the store does.
	d.impress(300_000, 5000, d.w.wall)
	_ = d.run(time.Second, func() bool { return false })
	require.True(t, d.p.task.Status().Full)
	d.hold = nil
	d.start()
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().Account.Payoffs.Applied >= 3000 }))
	require.NoError(t, d.run(time.Minute, d.idle))
	require.Zero(t, d.p.task.run.checkpoints.feedback)
	require.NoError(t, checkAccount(d.w, d.p))
}

// TestFull_IsTheStoresDoing: nothing more is stepped once changes are unsaved for long, whether the store or the broker takes nothing. The
// status names the one that fails.
func TestFull_IsTheStoresDoing(t *testing.T) {
	for name, store := range map[string]bool{"store": true, "broker": false} {
		t.Run(name, func(t *testing.T) {
			d := served(t, nil)
			d.answer = func(e Effect) error {
				_, rankings := e.(Produce)
				if _, checkpoint := e.(Checkpoint); store && checkpoint || !store && rankings {
					return errors.New("away")
				}
				return nil
			}
			d.impress(1000, 1, d.w.wall)
			require.NoError(t, d.run(2*time.Minute, func() bool { return d.p.task.run.full(d.w.mono) }))
			s := d.p.task.Status()
			require.Equal(t, store, s.Full)
			require.ErrorContains(t, s.Err, "away")
			require.Equal(t, !store, strings.Contains(s.Err.Error(), "producing rankings") || strings.Contains(s.Doing, "producing rankings"))
			d.answer = nil
			require.NoError(t, d.run(time.Minute, d.idle))
			require.False(t, d.p.task.Status().Full)
		})
	}
}

// ranked is a driver whose task has ranked n impressions, i-0 and on, and saved everything.
func ranked(t *testing.T, n int, change func(*Config)) *driver {
	t.Helper()
	d := newDriver(change)
	d.w.fetchMost = 5000
	d.impress(0, n, d.w.wall)
	require.NoError(t, d.run(10*time.Minute, d.idle))
	return d
}

// TestStorm_WalkKeepsUp: when very many deadlines pass at once, and each checkpoint takes long, the walk takes more at a time rather than
// falling behind. It takes less again when it has caught up.
func TestStorm_WalkKeepsUp(t *testing.T) {
	const n = 60_000
	d := ranked(t, n, nil)
	var limits []int
	d.hold = func(e Effect) bool {
		if due, ok := e.(Due); ok {
			limits = append(limits, due.Limit)
		}
		return false
	}
	d.w.pass(25 * time.Hour) // all deadlines but those of tombstones
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().Account.Impressions.Pending == 0 }))
	require.Equal(t, []int{4000, 8000, 16_000, 32_000}, limits)
	require.Greater(t, d.p.task.Status().WalkLag, 24*time.Hour.Milliseconds())
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().WalkLag < 20_000 }))
	require.NoError(t, d.run(time.Minute, d.idle))
	d.w.pass(25 * time.Hour)
	require.NoError(t, d.run(time.Minute, d.idle))
	limits = nil
	d.impress(n, 1, d.w.wall)
	d.w.pass(25 * time.Hour)
	require.NoError(t, d.run(time.Minute, func() bool { return len(limits) > 0 }))
	require.Equal(t, 4000, limits[0])
}

// TestStorm_WalkKeepsSegmentsSmall: changes of one walk step are sealed in segments
// of bounded size, so that no checkpoint keeps the store busy for longer than others.
func TestStorm_WalkKeepsSegmentsSmall(t *testing.T) {
	const n, size = 4000, 64 << 10
	d := ranked(t, n, func(c *Config) { c.SegmentBytes = size })
	d.w.pass(25 * time.Hour)
	most := 0
	require.NoError(t, d.run(time.Minute, func() bool {
		for _, s := range d.p.task.run.checkpoints.segments {
			require.Less(t, s.bytes, int64(size+1024))
		}
		most = max(most, len(d.p.task.run.checkpoints.segments))
		return d.p.task.Status().Account.Impressions.Pending == 0
	}))
	require.Greater(t, most, 4, "one step made several")
	require.NoError(t, d.run(time.Minute, d.idle))
	require.NoError(t, checkAccount(d.w, d.p))
}

// TestStorm_WalkTakesLessAfterAFailure: where the store does not manage so many ids in time, the walk goes on with fewer.
func TestStorm_WalkTakesLessAfterAFailure(t *testing.T) {
	const n = 30_000
	d := ranked(t, n, nil)
	d.answer = func(e Effect) error {
		if due, ok := e.(Due); ok && due.Limit > 8000 {
			return context.DeadlineExceeded
		}
		return nil
	}
	d.w.pass(25 * time.Hour)
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().Account.Impressions.Pending == 0 }))
	require.NoError(t, d.run(time.Minute, d.idle))
	require.NoError(t, checkAccount(d.w, d.p))
}

// TestStorm_AnswersWaitForTheWalk: while more deadlines have passed than one walk step takes, selections and
// payoffs get less unsaved room, so that the walk has its share of a busy store. Impressions do not wait.
func TestStorm_AnswersWaitForTheWalk(t *testing.T) {
	const n = 12_000
	d := ranked(t, n, func(c *Config) { c.MaxUnsavedBytes, c.SegmentBytes = 6<<20, 64<<10 })
	d.w.pass(25 * time.Hour)
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.run.walk.behind }))
	d.hold = func(e Effect) bool { _, ok := e.(Checkpoint); return ok }
	d.impress(n, 6000, d.w.wall)
	for i := n; i < n+6000; i++ {
		id := fmt.Sprintf("i-%d", i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
	}
	before, impressions := d.stepped(event.Selections), d.stepped(event.Impressions)
	_ = d.run(time.Second, func() bool { return false })
	require.Equal(t, impressions+6000, d.stepped(event.Impressions))
	waiting := d.p.task.run.checkpoints.feedback.open + d.p.task.run.checkpoints.feedback.sealed
	require.GreaterOrEqual(t, waiting, int64(6<<20/16))
	require.Less(t, waiting, int64(6<<20/16+4096))
	require.Less(t, d.stepped(event.Selections), before+6000)
	d.hold = nil
	d.start()
	require.NoError(t, d.run(10*time.Minute, d.idle))
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Status().WalkLag < 20_000 && !d.p.task.run.walk.behind }))
	require.NoError(t, checkAccount(d.w, d.p))
}
