package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailures_TheFirstIsShownAndEachHasItsPace(t *testing.T) {
	ts := failures{}
	oldest := func() [2]any {
		doing, err := ts.oldest()
		return [2]any{doing, err}
	}
	require.Equal(t, [2]any{"", nil}, oldest())
	require.Equal(t, 50*time.Millisecond, ts.note("saving", errLost, time.Second))
	require.Equal(t, 100*time.Millisecond, ts.note("saving", errFailed, 2*time.Second))
	require.Equal(t, 50*time.Millisecond, ts.note("reading", errMoved, 2*time.Second))
	require.Equal(t, [2]any{"saving", errFailed}, oldest(), "its newest error")
	ts.clear("saving")
	require.Equal(t, [2]any{"reading", errMoved}, oldest())
	for range 20 {
		ts.note("reading", errMoved, 0)
	}
	require.Equal(t, 5*time.Second, ts.note("reading", errMoved, 0))
	for range 20 {
		require.LessOrEqual(t, ts.note("fencing", fmt.Errorf("fencing: %w", ErrNotReady), 0), longestNotReady)
	}
}
