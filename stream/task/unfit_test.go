package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestUnfit_NothingIsSavedUntilItIsPutRight: a store that becomes able to delete stored data is noticed
// within two probes, busy or not. Nothing is saved until it is fit again, and then all goes on.
func TestUnfit_NothingIsSavedUntilItIsPutRight(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %t", busy), func(t *testing.T) {
			d := served(t, nil)
			unfit := fmt.Errorf("%w: it evicts", state.ErrUnfit)
			checkpoints := 0
			d.answer = func(e Effect) error {
				switch e.(type) {
				case Probe:
					return unfit
				case Checkpoint:
					checkpoints++
				}
				return nil
			}
			began, next := d.w.mono, 1000
			require.NoError(t, d.run(time.Minute, func() bool {
				if busy {
					d.impress(next, 1, d.w.wall)
					next++
				}
				return d.p.task.Status().Full
			}))
			require.Less(t, d.w.mono-began, 2*probeEvery+idleWake)
			require.ErrorIs(t, d.p.task.Status().Err, state.ErrUnfit)
			before, advances, stepped := checkpoints, d.advances, d.stepped(event.Impressions)
			d.impress(next, 10, d.w.wall)
			_ = d.run(10*time.Second, func() bool { return false })
			require.LessOrEqual(t, checkpoints, before)
			require.LessOrEqual(t, d.stepped(event.Impressions), stepped)
			require.Less(t, d.advances-advances, 200)
			unfit = nil
			require.NoError(t, d.run(time.Minute, d.idle))
			require.NoError(t, d.p.task.Status().Err)
			require.NoError(t, checkAccount(d.w, d.p))
		})
	}
}

// TestUnfit_LostKeysStop: deleted keys stop the partition.
func TestUnfit_LostKeysStop(t *testing.T) {
	d := served(t, nil)
	d.answer = func(e Effect) error {
		if _, ok := e.(Probe); ok {
			return fmt.Errorf("%w: %w", state.ErrUnfit, state.ErrLost)
		}
		return nil
	}
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped }))
	require.Equal(t, StopStore, d.p.task.Status().Reason)
}
