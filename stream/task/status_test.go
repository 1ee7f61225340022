package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestStatus_LagBeforeTheFirstAnswer: the checks have asked for the ends of logs, so a broker that sends nothing hides no lag.
func TestStatus_LagBeforeTheFirstAnswer(t *testing.T) {
	d := newDriver(nil)
	d.impress(0, 10, d.w.wall)
	d.hold = func(e Effect) bool {
		f, ok := e.(Fetch)
		return ok && f.Topic == event.Impressions
	}
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Running }))
	require.EqualValues(t, 10, d.p.task.Status().Lag[event.Impressions])
}
