package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

func moved(places, wanted []vg.Length) (sum vg.Length) {
	for k, at := range places {
		sum += (at - wanted[k]) * (at - wanted[k])
	}
	return sum
}

// Labels do not overlap, keep their order, and are within the limits. A label with room stays at its wanted position, and no other
// such positions are nearer.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const low, high, close = 0, 400, 1e-6
		n := rapid.IntRange(0, 20).Draw(t, "n")
		var wanted []vg.Length
		var extents []extent
		free := vg.Length(high - low)
		at := vg.Length(0)
		for range n {
			at += vg.Length(rapid.Float64Range(0, 60).Draw(t, "further")) * vg.Length(rapid.IntRange(0, 1).Draw(t, "apart"))
			wanted = append(wanted, min(at, high))
			e := extent{vg.Length(rapid.Float64Range(0, 10).Draw(t, "above")), vg.Length(rapid.Float64Range(0, 10).Draw(t, "below"))}
			extents = append(extents, e)
			free -= e.size()
		}
		places := spread(wanted, extents, low, high)
		require.Len(t, places, n)
		fits := n > 0 && wanted[0]-extents[0].below >= low && wanted[n-1]+extents[n-1].above <= high
		for k, e := range extents {
			require.GreaterOrEqual(t, places[k]-e.below, vg.Length(low-close))
			require.LessOrEqual(t, places[k]+e.above, vg.Length(high+close))
			if k > 0 {
				require.GreaterOrEqual(t, places[k]-e.below, places[k-1]+extents[k-1].above-close)
				fits = fits && wanted[k]-e.below >= wanted[k-1]+extents[k-1].above
			}
		}
		if fits {
			require.Less(t, moved(places, wanted), vg.Length(close))
		}
		// Some other places without overlaps.
		others, at := make([]vg.Length, n), vg.Length(low)
		for k, e := range extents {
			gap := free * vg.Length(rapid.Float64Range(0, 1).Draw(t, "gap"))
			free -= gap
			at += gap + e.below
			others[k] = at
			at += e.above
		}
		require.LessOrEqual(t, moved(places, wanted), moved(others, wanted)+close)
	})
}

// Labels that do not fit stand in their order, from the lower limit on.
func TestSpread_TooMany(t *testing.T) {
	half := extent{5, 5}
	require.Equal(t, []vg.Length{5, 15, 25}, spread([]vg.Length{8, 9, 10}, []extent{half, half, half}, 0, 20))
}
