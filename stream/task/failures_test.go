package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailures_TheFirstIsShownAndEachHasItsPace(t *testing.T) {
	ts := failures{}
	require.NoError(t, ts.oldest())
	require.Equal(t, 50*time.Millisecond, ts.note("saving", errLost, time.Second))
	require.Equal(t, 100*time.Millisecond, ts.note("saving", errFailed, 2*time.Second))
	require.Equal(t, 50*time.Millisecond, ts.note("reading", errMoved, 2*time.Second))
	require.Equal(t, errFailed, ts.oldest(), "its newest error")
	ts.clear("saving")
	require.Equal(t, errMoved, ts.oldest())
	for range 20 {
		ts.note("reading", errMoved, 0)
	}
	require.Equal(t, 5*time.Second, ts.note("reading", errMoved, 0))
}
