package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimers(t *testing.T) {
	var ts timers
	var fired []string
	add := func(at time.Duration, name string) { ts.set(at, func() { fired = append(fired, name) }) }
	never := func() bool { return false }
	require.Equal(t, idleWake, ts.wake(0))
	add(30*time.Millisecond, "late")
	add(10*time.Millisecond, "soon")
	require.Equal(t, 10*time.Millisecond, ts.wake(0))
	require.Zero(t, ts.wake(time.Second))
	ts.fire(10*time.Millisecond, never)
	require.Equal(t, []string{"soon"}, fired)

	ts.set(20*time.Millisecond, func() { ts.clear(); add(time.Hour, "never") })
	ts.fire(20*time.Millisecond, never)
	require.Equal(t, []string{"soon"}, fired)
	require.Len(t, ts, 1, "what was set before is gone")
}
