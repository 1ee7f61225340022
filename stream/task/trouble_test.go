package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTroubles_TheFirstIsShownAndEachHasItsPace(t *testing.T) {
	ts := troubles{}
	require.NoError(t, ts.first())
	require.Equal(t, 50*time.Millisecond, ts.fails("saving", errLost, time.Second))
	require.Equal(t, 100*time.Millisecond, ts.fails("saving", errFailed, 2*time.Second))
	require.Equal(t, 50*time.Millisecond, ts.fails("reading", errMoved, 2*time.Second))
	require.Equal(t, errFailed, ts.first(), "its newest error")
	ts.fine("saving")
	require.Equal(t, errMoved, ts.first())
	for range 20 {
		ts.fails("reading", errMoved, 0)
	}
	require.Equal(t, 5*time.Second, ts.fails("reading", errMoved, 0))
}
