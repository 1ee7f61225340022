package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChanges_AreIteratedOnceInTheirOrder(t *testing.T) {
	var c Changes
	changed := func() (all [][2]int) {
		for n, what := range c.All() {
			all = append(all, [2]int{int(n), int(what)})
		}
		c.Clear()
		return all
	}
	c.Note(2, 1)
	c.Note(0, 2)
	c.Note(2, 4)
	require.Equal(t, [][2]int{{2, 5}, {0, 2}}, changed())
	require.Empty(t, changed())
	c.Note(4, 1)
	require.Equal(t, [][2]int{{4, 1}}, changed())
	for range c.All() {
		break
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		c.Note(3, 1)
		for n := range c.All() {
			_ = n
		}
		c.Clear()
	}))
}
