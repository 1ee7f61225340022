package task

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// errEvicts is a fault of the store that an operator can mend.
var errEvicts = fmt.Errorf("%w: maxmemory-policy is allkeys-lru", state.ErrUnfit)

// stopped drives until the task has stopped n times in all, and notes when.
func (d *driver) stopped(t *testing.T, n int) (at []time.Duration) {
	t.Helper()
	before := d.p.task.Status().Stops
	require.NoError(t, d.run(2*time.Hour, func() bool {
		if now := d.p.task.Status().Stops; now > before {
			before, at = now, append(at, d.w.mono)
		}
		return len(at) == n
	}))
	return at
}

// TestStop_TriesAgainAndGoesOnWhenMended: a mendable stop is retried after 30 s, then at intervals of up to 5 min,
// each a new stop. Once mended, the partition goes on without loss, and the next stop begins with 30 s again.
func TestStop_TriesAgainAndGoesOnWhenMended(t *testing.T) {
	var kept memstore.Copy
	for name, c := range map[string]struct {
		reason     StopReason
		spoil, fix func(d *driver)
	}{
		"store unfit": {StopStore, func(d *driver) { d.w.storeFault = errEvicts },
			func(d *driver) { d.w.storeFault = nil }},
		"no dead letters": {StopTopic, func(d *driver) { d.w.letterless = true }, func(d *driver) { d.w.letterless = false }},
		"another cluster": {StopCluster, func(d *driver) { d.w.cluster = "other" }, func(d *driver) { d.w.cluster = "sim" }},
		"more partitions": {StopPartitions, func(d *driver) { d.w.partitions = 2 }, func(d *driver) { d.w.partitions = 1 }},
		"state lost, and restored": {StopNoState, func(d *driver) {
			kept = d.w.store.Copy(0)
			d.w.store.Restore(0, memstore.Copy{})
		}, func(d *driver) { d.w.store.Restore(0, kept) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := served(t, nil)
			for range 2 {
				c.spoil(d)
				d.start()
				if d.p.task.Status().Stops == 0 {
					at := d.stopped(t, 7)
					s := d.p.task.Status()
					require.Equal(t, c.reason, s.Reason)
					require.Equal(t, 5*time.Minute, s.Again)
					for i, want := range []time.Duration{30, 60, 120, 240, 300, 300} {
						pause := at[i+1] - at[i]
						require.GreaterOrEqual(t, pause, want*time.Second)
						require.Less(t, pause, want*time.Second+10*time.Second)
					}
				}
				d.impress(len(d.w.inputs[event.Impressions])+1, 3, d.w.wall)
				c.fix(d)
				require.NoError(t, d.run(6*time.Minute, d.idle))
				require.NoError(t, checkLog(d.w, false))
				require.NoError(t, d.p.task.Status().Err)
				require.Zero(t, d.p.task.Status().Again)
				require.Zero(t, d.p.task.stops.pause, "what comes next begins with the shortest pause")
			}
		})
	}
}

// TestStop_StaysWhereNothingCanBeMended: where log, state and configuration contradict each other, a stopped partition
// never tries again.
func TestStop_StaysWhereNothingCanBeMended(t *testing.T) {
	for name, world := range map[string]func(d *driver){
		"topic recreated, empty":         func(d *driver) { d.w.inputs[event.Payoffs] = nil },
		"topic recreated, other content": func(d *driver) { d.w.inputs[event.Payoffs] = refill(d.w.inputs[event.Payoffs]) },
		"keys evicted":                   func(d *driver) { d.w.storeFault = fmt.Errorf("%w: %w", state.ErrUnfit, state.ErrLost) },
		"stored item broken": func(d *driver) {
			c := d.w.store.Copy(0)
			c.Hash("feed:items")["a"] = []byte("{")
			d.w.store.Restore(0, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := served(t, nil)
			world(d)
			d.start()
			d.stopped(t, 1)
			asked := 0
			d.answer = func(e Effect) error { asked++; return fmt.Errorf("nobody should ask: %T", e) }
			require.Error(t, d.run(time.Hour, func() bool { return d.p.task.Phase() != Stopped }))
			require.Zero(t, asked)
			require.Zero(t, d.p.task.Status().Again)
		})
	}
}

// TestStop_DrainEndsTheTries: a stopped task that is drained does not come back.
func TestStop_DrainEndsTheTries(t *testing.T) {
	d := served(t, nil)
	d.w.storeFault = errEvicts
	d.start()
	d.stopped(t, 1)
	d.p.task.Drain()
	require.Error(t, d.run(time.Hour, func() bool { return d.p.task.Phase() != Stopped }))
}

// TestStop_ATrySaysWhatItWaitsFor: the status of a retry has its own error, not that of the last stop.
func TestStop_ATrySaysWhatItWaitsFor(t *testing.T) {
	d := served(t, nil)
	d.w.storeFault = errEvicts
	d.start()
	d.stopped(t, 1)
	require.ErrorIs(t, d.p.task.Status().Err, state.ErrUnfit)
	refused := errors.New("connection refused")
	d.answer = func(Effect) error { return refused }
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Acquiring && d.p.task.obs.Retries > 0 }))
	require.ErrorIs(t, d.p.task.Status().Err, refused)
}

// TestReadFailed_DuringACheck: a fetch of payoffs that was under way fails while the check after another failure reads the witnesses. The
// topic may have lost records since its description: it is described once more before it is read.
func TestReadFailed_DuringACheck(t *testing.T) {
	d := served(t, func(c *Config) { c.FetchWait = 10 * time.Second }) // as long as a check may take
	broke, witnessed, failed := false, false, false
	var after []string // requests after the second failure
	d.hold = func(e Effect) bool {
		switch e := e.(type) {
		case Describe:
			after = append(after, "description")
		case Fetch:
			if e.Topic == event.Payoffs && e.MaxBytes > 1 {
				after = append(after, "payoffs")
			}
		}
		return false
	}
	d.answer = func(e Effect) error {
		f, ok := e.(Fetch)
		switch {
		case !ok:
		case f.MaxBytes == 1:
			witnessed = true
		case f.Topic == event.Impressions && !broke:
			broke = true
			return errors.New("no leader")
		case f.Topic == event.Payoffs && witnessed && !failed:
			failed, after = true, nil
			return errors.New("no leader either")
		}
		return nil
	}
	require.NoError(t, d.run(time.Minute, func() bool { return failed && slices.Contains(after, "payoffs") }))
	require.Equal(t, "description", after[0])
}

// slowTier is a shell whose reads of single records find nothing before a time: tiered storage is slower than its bound.
type slowTier struct {
	shell
	until time.Duration
}

func (s slowTier) Fetch(f Fetch) (Fetched, error) {
	got, err := s.shell.Fetch(f)
	if f.MaxBytes == 1 && s.w.mono < s.until {
		return Fetched{Next: f.Offset, High: got.High, LogStart: got.LogStart}, err
	}
	return got, err
}

// TestWitness_NothingRead: a broker that sends nothing yet, without an error, proves nothing about a record. The check asks again, after growing
// pauses.
func TestWitness_NothingRead(t *testing.T) {
	d := served(t, func(c *Config) { c.FetchWait = 50 * time.Millisecond })
	d.start()
	until := d.w.mono + 5*time.Second
	d.shell = func(s shell) Shell { return slowTier{s, until} }
	asked := 0
	d.hold = func(e Effect) bool {
		if f, ok := e.(Fetch); ok && f.MaxBytes == 1 && d.w.mono < until {
			asked++
		}
		return false
	}
	d.impress(6, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped || d.idle() }))
	require.Equal(t, Running, d.p.task.Phase())
	require.LessOrEqual(t, asked, 8, "pauses double from 50 ms")
	require.NoError(t, checkLog(d.w, false))
}

// TestWitness_Deleted: a record that retention deletes, while its read fails, is not read again. The failure is over.
func TestWitness_Deleted(t *testing.T) {
	d := served(t, nil)
	d.start()
	until := d.w.mono + 5*time.Second
	d.shell = func(s shell) Shell { return slowTier{s, until} }
	read := int64(-1)
	d.hold = func(e Effect) bool {
		switch e := e.(type) {
		case Fetch:
			if e.MaxBytes == 1 && e.Topic == event.Impressions {
				read = e.Offset
			}
		case Describe:
			d.w.logStart[event.Impressions] = read + 1
		}
		return false
	}
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped || d.w.mono > until && d.idle() }))
	require.Equal(t, Running, d.p.task.Phase())
	require.EqualValues(t, 4, read)
	require.NoError(t, d.p.task.Status().Err)
}

// TestWitness_CutOffDuringACheck: a log that loses its end after it was described has no record at the witness. The next description shows it.
func TestWitness_CutOffDuringACheck(t *testing.T) {
	d := served(t, nil)
	d.start()
	d.hold = func(e Effect) bool {
		if f, ok := e.(Fetch); ok && f.MaxBytes == 1 && f.Topic == event.Impressions {
			d.w.inputs[event.Impressions] = d.w.inputs[event.Impressions][:f.Offset]
		}
		return false
	}
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
	require.Equal(t, StopTopic, d.p.task.Status().Reason)
}

// TestReadFailed_Throttled: a fetch over the quota waits for as long as the broker asks for, and is repeated without a check.
func TestReadFailed_Throttled(t *testing.T) {
	const pause = 2 * time.Second
	d := served(t, nil)
	d.start()
	checks, throttled := 0, map[event.Topic]time.Duration{}
	d.answer = func(e Effect) error {
		switch e := e.(type) {
		case Describe:
			checks++
		case Fetch:
			if e.MaxBytes == 1 {
				break
			}
			last, before := throttled[e.Topic]
			if !before {
				throttled[e.Topic] = d.w.mono
				return Throttled(pause)
			}
			require.GreaterOrEqual(t, d.w.mono-last, pause)
		}
		return nil
	}
	require.NoError(t, d.run(time.Minute, func() bool { return len(throttled) == event.Topics }))
	before := checks
	require.ErrorContains(t, d.p.task.Status().Err, "quota")
	d.impress(9, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, d.idle))
	require.Equal(t, before, checks)
	require.NoError(t, checkLog(d.w, false))
}

// TestReadFailed_OneAfterAnother: the fetches of two topics fail, at different times. Afterwards each topic has one fetch under way.
func TestReadFailed_OneAfterAnother(t *testing.T) {
	d := served(t, func(c *Config) { c.FetchWait = 500 * time.Millisecond })
	var broke time.Duration
	second := false
	d.answer = func(e Effect) error {
		f, ok := e.(Fetch)
		switch {
		case !ok || f.MaxBytes == 1:
		case f.Topic == event.Impressions && broke == 0:
			broke = d.w.mono
			return errMoved
		case f.Topic == event.Payoffs && !second && broke != 0 && d.w.mono >= broke+40*time.Millisecond:
			second = true
			return errMoved
		}
		return nil
	}
	require.Error(t, d.run(5*time.Second, func() bool { return slices.Max(d.fetches()) > 1 }))
	require.True(t, second)
}

// fetches counts the fetches under way, by topic.
func (d *driver) fetches() []int {
	n := make([]int, event.Topics)
	for _, f := range d.flying {
		if e, ok := f.Do.(Fetch); ok && e.MaxBytes > 1 {
			n[e.Topic]++
		}
	}
	return n
}

// TestReadFailed_InAReplay: the same while earlier decisions are read, each of which is adopted once.
func TestReadFailed_InAReplay(t *testing.T) {
	for late := time.Duration(0); late < 50*time.Millisecond; late += time.Millisecond {
		d := served(t, func(c *Config) { c.FetchWait = 500 * time.Millisecond })
		d.latency = 2 * time.Millisecond
		d.hold = func(e Effect) bool { _, ok := e.(Checkpoint); return ok }
		d.impress(100, 200, d.w.wall)
		require.Error(t, d.run(time.Second, func() bool { return false }))
		d.hold = nil
		var broke time.Duration
		second := false
		d.answer = func(e Effect) error {
			f, ok := e.(Fetch)
			switch {
			case !ok || f.MaxBytes == 1 || d.p.task.run == nil:
			case f.Topic == event.Payoffs && broke == 0 && d.p.task.run.replay.cursor.fetching:
				broke = d.w.mono
				return errMoved
			case f.Topic == event.Rankings && !second && broke != 0 && d.w.mono >= broke+late:
				second = true
				return errMoved
			}
			return nil
		}
		d.holdBack = func(r Request) bool {
			f, ok := r.Do.(Fetch)
			slow := ok && f.Topic == event.Rankings && f.MaxBytes > 1
			if slow {
				d.flying = append(d.flying, driven{r, d.w.mono, d.w.mono + 30*time.Millisecond})
			}
			return slow
		}
		d.start()
		require.NoError(t, d.run(time.Minute, func() bool {
			return slices.Max(d.fetches()) > 1 || d.p.task.Phase() == Stopped || d.idle()
		}), late)
		require.LessOrEqual(t, slices.Max(d.fetches()), 1, late)
		require.NoError(t, d.p.task.Status().Err, late)
		require.NoError(t, checkLog(d.w, false), late)
	}
}

// TestRefence_WithoutACoordinator: rankings go on while the coordinator does not raise the epoch, or its reply is lost, for an interval more.
// Then they stop: a worker frozen for as long must not produce before its fence.
func TestRefence_WithoutACoordinator(t *testing.T) {
	for _, lost := range []bool{false, true} {
		const interval = 20 * time.Second
		d := served(t, func(c *Config) { c.FenceInterval = interval })
		fenced := d.p.task.acq.fencedAt
		away := true
		d.answer = func(e Effect) error {
			init, ok := e.(InitProducer)
			if !ok || !away {
				return nil
			}
			if lost {
				_, err := d.w.initProducer(init.Producer)
				require.NoError(t, err)
			}
			return errPassing
		}
		rank := func(from int) {
			d.impress(from, 3, d.w.wall)
			require.NoError(t, d.run(time.Second, d.idle))
		}
		at := func(mono time.Duration) {
			require.Error(t, d.run(mono-d.w.mono, func() bool { return false }))
		}
		rank(6)
		at(fenced + interval + time.Second)
		rank(9)
		require.ErrorIs(t, d.p.task.Status().Err, errPassing)
		at(fenced + 2*interval - 2*time.Second)
		rank(12)
		at(fenced + 2*interval)
		d.impress(15, 3, d.w.wall)
		require.Error(t, d.run(10*time.Second, d.idle))
		away = false
		require.NoError(t, d.run(10*time.Second, d.idle))
		require.Greater(t, d.p.task.acq.fencedAt, fenced)
		require.NoError(t, checkLog(d.w, false))
		require.Zero(t, d.p.task.obs.Fenced)
	}
}
