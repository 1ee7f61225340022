package partition

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestNames_SharedOrNot: what a machine decides and stores does not depend on who else uses its names, and when.
func TestNames_SharedOrNot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		alone := newWorld(t, cfg)
		cfg.Names = NewNameTable()
		shared, other := newWorld(t, cfg), newWorld(t, cfg)
		items := rapid.SliceOfNDistinct(rapid.StringMatching("[a-f]"), 1, 4, rapid.ID[string])
		for n := range rapid.IntRange(1, 12).Draw(rt, "impressions") {
			id, now := "i-"+strconv.Itoa(n), day+int64(n)
			if rapid.Bool().Draw(rt, "another is asked first") {
				require.NoError(t, other.read(event.Impressions, id, impression(id, items.Draw(rt, "its items")...), now))
			}
			record := impression(id, items.Draw(rt, "items")...)
			for _, w := range []*world{alone, shared} {
				require.NoError(t, w.read(event.Impressions, id, record, now))
			}
		}
		var stored [2]state.Changes
		for k, w := range []*world{alone, shared} {
			w.m.Seal(&stored[k])
			stored[k].Writes = slices.DeleteFunc(stored[k].Writes, func(x state.Write) bool { return string(x.Field) == saltField })
		}
		require.Equal(t, stored[0], stored[1])
		require.Equal(t, alone.out.Rankings, shared.out.Rankings)
	})
}
