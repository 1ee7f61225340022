package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCommits_SentOnceASecondAndOnceInAHurry(t *testing.T) {
	c := newCommits()
	nothing, some, more := offsets{-1, -1, -1}, offsets{5, -1, 2}, offsets{6, -1, 2}
	require.False(t, c.due(nothing, time.Hour, true))
	require.False(t, c.owing(nothing))

	require.True(t, c.due(some, 0, false))
	c.inFlight = true
	require.False(t, c.due(more, time.Hour, true), "one is under way")
	require.True(t, c.owing(some))
	c.answered(some, 0, true)
	require.False(t, c.owing(some))

	require.False(t, c.due(more, commitEvery-1, false))
	require.True(t, c.due(more, commitEvery-1, true))
	require.True(t, c.due(more, commitEvery, false))
	c.answered(more, commitEvery, false)
	require.True(t, c.owing(more), "it has failed")
	require.False(t, c.due(more, commitEvery, false))
	require.True(t, c.due(more, 2*commitEvery, false))
}
