package stream

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestPooledState_StepsTakeTurns: of many loops as many run a step as there are processors, so that an update waits for few.
func TestPooledState_StepsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newPooledState(&partition.Config{Names: newSharedNames()})
		processors := runtime.GOMAXPROCS(0)
		var begun atomic.Int32
		end := make(chan struct{})
		for range 8 * processors {
			go k.use(func() {
				begun.Add(1)
				<-end
			})
		}
		synctest.Wait()
		require.EqualValues(t, processors, begun.Load())
		close(end)
		synctest.Wait()
		require.EqualValues(t, 8*processors, begun.Load())
	})
}
