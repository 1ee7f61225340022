package inflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// partsAges are of selections that began from so long ago, each of which comes to 1,000 units at an age, and loses so many of them at
// another.
func partsAges(g *Scheme, tick, from, rise, fall, lost int64) (rises, falls *Ages) {
	rises, falls = &Ages{}, &Ages{}
	for ago := int64(0); ago < from; ago += g.Unit() {
		if row := rises.Row(g, tick-ago, tick); rise <= ago {
			rises.Add(g, row, rise, 1000)
		}
		if row := falls.Row(g, tick-ago, tick); fall <= ago {
			falls.Add(g, row, fall, lost)
		}
	}
	return rises, falls
}

// Returns come half a horizon later, and their share is known before most of them have come. It is the same where most parts lower sums.
func TestApart_IsWhatWillBeTakenBack(t *testing.T) {
	g := NewScheme(day)
	tick := g.Tick(lately)
	rises, falls := partsAges(&g, tick, 5*day/4, day/16, day/2, 400)
	late, share := Apart(&g, tick, 1, []*Ages{rises}, []*Ages{falls})
	require.InDelta(t, 0.4/1.4, share, 0.02)
	require.Less(t, amount([]*Ages{falls})/amount([]*Ages{rises}), 0.3, "so far")
	require.InDelta(t, 1, late[0].By(&g, day/4), 0.02)
	require.InDelta(t, 0, late[1].By(&g, day/4), 0.02)
	swapped, same := Apart(&g, tick, 1, []*Ages{falls}, []*Ages{rises})
	require.Equal(t, late, swapped)
	require.Equal(t, share, same)
}

// Without returns, or with such as come sooner than the rest, all parts have one lateness.
func TestApart_OnlyWhereWhatIsTakenBackIsLater(t *testing.T) {
	g := NewScheme(day)
	tick := g.Tick(lately)
	rises, falls := partsAges(&g, tick, 2*day, day/2, day/16, 400)
	for name, back := range map[string]*Ages{"nothing": {}, "sooner": falls, "as late": rises} {
		late, share := Apart(&g, tick, 1, []*Ages{rises}, []*Ages{back})
		require.Equal(t, Estimate(&g, tick, 1, rises, back), late[0], name)
		require.False(t, late[1].Known(), name)
		require.Zero(t, share, name)
	}
	late, share := Apart(&g, tick, 1, nil, nil)
	require.Equal(t, Estimate(&g, tick, 1), late[0])
	require.Zero(t, share)
}

// The parts of each selection add 1, and its returns take a part of that: so much is left of its sum as is right for its weight.
func TestBack_LeavesWhatSelectionsComeTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		awaited := awaitedSpans(t)
		lost := rapid.Float64Range(0, 1).Draw(t, "lost")
		var come, weight float64
		for _, list := range awaited {
			for k := range list {
				x := &list[k]
				x.Below = x.Above * rapid.Float64Range(0, 1).Draw(t, "taken back so far")
				come += float64(x.N) * (x.Above - lost*x.Below)
				weight += float64(x.N) * x.Above
			}
		}
		back := Back(lost/(1+lost), awaited...)
		require.True(t, back >= 0 && back <= 1, "%v", back)
		require.InDelta(t, (1-lost)*weight, (1-back)*come, 1e-9*(1+weight))
	})
}
