package task

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestWake_ReplayNeverSleeps: a task waits for a reply or for its wake time. A replay of 2,000
// decisions comes in answers of at most 20; a sleep between them would make it take minutes.
func TestWake_ReplayNeverSleeps(t *testing.T) {
	d := newDriver(func(c *Config) { c.CheckpointInterval = time.Hour })
	d.impress(0, 2000, d.w.wall)
	require.NoError(t, d.run(time.Minute, func() bool {
		r := d.p.task.run
		return r != nil && r.lanes.rankings.acked == 2000
	}))
	d.start()
	began := d.w.mono
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.obs.Adopted == 2000 }))
	// Each of some 300 answers of each log takes a millisecond, and both are read at the same time.
	require.Less(t, d.w.mono-began, 2*time.Second)
}

// TestWake_NoSpinning: a task whose rankings are not answered, or whose store is away, does not ask to be called all the
// time.
func TestWake_NoSpinning(t *testing.T) {
	for name, hold := range map[string]func(Effect) bool{
		"broker": func(e Effect) bool { _, ok := e.(Produce); return ok },
		"store":  ofStore,
	} {
		t.Run(name, func(t *testing.T) {
			d := served(t, nil)
			d.hold = hold
			began := d.w.mono
			for at := 6; d.w.mono-began < 10*time.Second; at += 5 { // goes on stepping
				d.impress(at, 5, d.w.wall)
				next := d.w.mono + time.Second
				require.NoError(t, d.run(time.Minute, func() bool { return d.w.mono >= next }))
			}
			d.advances = 0
			_ = d.run(10*time.Second, func() bool { return false })
			// 20 long polls a second on each of three topics, 4 sleeps, 20 checkpoints' worth.
			require.Less(t, d.advances, 10*(3*20+4+20))
		})
	}
}

// TestWake_CheckpointsComeInTime: steps are saved a checkpoint interval later, not when the task happens to wake up.
func TestWake_CheckpointsComeInTime(t *testing.T) {
	d := served(t, func(c *Config) { c.FetchWait = 10 * time.Second })
	for i := range 20 {
		d.impress(100+i, 1, d.w.wall)
		began := d.w.mono
		end := int64(len(d.w.inputs[event.Impressions]))
		require.NoError(t, d.run(time.Minute, func() bool { return d.w.read(event.Impressions) == end }))
		require.Less(t, d.w.mono-began, 110*time.Millisecond)
	}
}

// TestOverlay_StaysBounded: a payoff was looked up, and its turn does not come as long as a backlog of older impressions lasts. It does not
// keep everything in the overlay that was saved meanwhile.
func TestOverlay_StaysBounded(t *testing.T) {
	d := served(t, nil)
	d.latency, d.busy, d.w.fetchMost = 5*time.Millisecond, 100*time.Millisecond, 5000
	d.w.append(event.Payoffs, []byte("i-2"), []byte(`{"impression_id":"i-2","payoff":0.5}`))
	lookedUp := d.p.task.obs.LookedUp
	d.impress(1000, 30_000, d.w.wall-time.Hour.Milliseconds())
	most := 0
	require.NoError(t, d.run(5*time.Minute, func() bool {
		most = max(most, len(d.p.task.run.lookups.forget))
		return d.idle()
	}))
	require.Greater(t, d.p.task.obs.LookedUp, lookedUp+1, "it was looked up and let go")
	// A checkpoint each 100 ms, and all that can wait is as old as staleAfter.
	require.LessOrEqual(t, most, 2*int(staleAfter/(100*time.Millisecond)))
	require.NoError(t, checkAccount(d.w, d.p))
}

// TestQueues_StayBounded: without steps a queue takes at most one fetch beyond its
// limit, also of records without key and value. Stepped records are not kept in memory.
func TestQueues_StayBounded(t *testing.T) {
	d := served(t, func(c *Config) { c.FetchBytes = 2 * 100 * int(unsafe.Sizeof(queued{})) })
	d.hold = func(e Effect) bool { _, ok := e.(LookUp); return ok }
	for range 10_000 {
		d.w.append(event.Payoffs, nil, nil)
	}
	d.p.task.run.machine.AddKnown(&state.PageOfIDs{Page: state.Page{Number: 1 << 20}, IDs: []state.ID{idOf("")}}) // so that a record without a key needs a look-up
	_ = d.run(10*time.Second, func() bool { return false })
	q := &d.p.task.run.queues[event.Payoffs]
	require.GreaterOrEqual(t, q.len(), 100)
	require.LessOrEqual(t, q.len(), 100+20)
}

// TestSegments_StayBounded: a segment is sealed in the middle of many steps once it is large.
func TestSegments_StayBounded(t *testing.T) {
	d := served(t, func(c *Config) { c.SegmentBytes = 2 << 10 })
	d.hold = func(e Effect) bool { _, ok := e.(Checkpoint); return ok }
	d.impress(6, 2000, d.w.wall)
	_ = d.run(10*time.Second, func() bool { return false })
	require.Greater(t, len(d.p.task.run.checkpoints.segments), 100)
	for _, s := range d.p.task.run.checkpoints.segments {
		require.Less(t, s.bytes, int64(4<<10))
	}
}

// TestTask_LetsGoOfMemory: a task that has nothing to do keeps neither the answers it read nor the requests it sent.
func TestTask_LetsGoOfMemory(t *testing.T) {
	d := served(t, nil)
	const size = 1 << 20
	freed := make(chan int, 100)
	for i := range 20 {
		value := make([]byte, size)
		copy(value, `{"impression_id":"big","payoff":"much","padding":"`)
		runtime.AddCleanup(&value[0], func(i int) { freed <- i }, i)
		d.w.append(event.Payoffs, []byte("big"), value)
	}
	require.NoError(t, d.run(time.Minute, d.idle))
	require.NoError(t, d.run(time.Minute, func() bool { return len(d.flying) == 3 })) // long polls
	for i := range d.w.inputs[event.Payoffs] {
		d.w.inputs[event.Payoffs][i].value = nil
	}
	got := map[int]bool{}
	for range 50 {
		runtime.GC()
		for len(freed) > 0 {
			got[<-freed] = true
		}
	}
	// The machine's own scratch may keep the last.
	require.GreaterOrEqual(t, len(got), 19, fmt.Sprint(got))
	runtime.KeepAlive(d)
}
