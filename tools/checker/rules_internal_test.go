package checker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// TestUnderRules: pins stand at their places, the lowest where they fit; caps move candidates down as far as others last.
func TestUnderRules(t *testing.T) {
	a, b, c, d := ruled{"a", "ads", 0}, ruled{"b", "ads", 0}, ruled{"c", "", 0}, ruled{"d", "news", 0}
	one := []config.Cap{{Category: "ads", Most: 1, First: 3}}
	require.Equal(t, []ruled{a, c, d, b}, underRules([]ruled{a, b, c, d}, one))
	require.Equal(t, []ruled{a, c, b}, underRules([]ruled{a, b, c}, one))
	first, last := a, c
	first.pin, last.pin = 1, 9
	require.Equal(t, []ruled{first, d, b, last}, underRules([]ruled{d, last, b, first}, []config.Cap{{Most: 0, First: 1}}))
	require.True(t, bears([]ruled{a, b}, one))
	require.False(t, bears([]ruled{a, c, d}, one))
	require.False(t, bears([]ruled{first}, nil), "an only candidate")
}
