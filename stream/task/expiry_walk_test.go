package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWalk_StepsGrowWhileItIsBehind(t *testing.T) {
	var w expiryWalk
	var limits []int
	for range 5 {
		limit := w.begin()
		limits = append(limits, limit)
		w.took(limit, true)
	}
	require.Equal(t, []int{walkAtLeast, 2 * walkAtLeast, 4 * walkAtLeast, walkAtMost, walkAtMost}, limits)
	require.True(t, w.behind)

	limit := w.begin()
	w.failed()
	require.True(t, w.walking, "not before the backoff is over")
	require.True(t, w.behind, "it is not known to have come to the end")
	w.walking = false
	require.Equal(t, walkAtLeast, w.begin(), "so many may have been too many")
	w.took(limit, false)
	require.Equal(t, expiryWalk{limit: walkAtLeast}, w)
}
