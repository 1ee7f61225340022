package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Segments at a time are told apart by the hours and days of the zone that is declared, summer time included.
func TestClock_Levels(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := func(c Clock, segments []string, segment int32, when string) int32 {
		s, err := New(Declaration{Clock: c, Segments: segments})
		require.NoError(t, err)
		stamp, err := time.Parse(time.RFC3339, when)
		require.NoError(t, err)
		n := s.At(segment, stamp.UnixMilli())
		require.Less(t, int(n), s.Segments())
		return n
	}
	const sunday = "2026-03-29T01:30:00Z" // when clocks are put forward in Berlin: 3:30
	require.EqualValues(t, 1, at(Clock{Hour: true}, nil, 0, sunday))
	require.EqualValues(t, 3, at(Clock{Hour: true, Zone: berlin}, nil, 0, sunday))
	require.EqualValues(t, 6, at(Clock{Weekday: true}, nil, 0, sunday))
	require.EqualValues(t, 6*24+3, at(Clock{Hour: true, Weekday: true, Zone: berlin}, nil, 0, sunday))
	require.EqualValues(t, 0, at(Clock{Hour: true, Weekday: true, Zone: berlin}, nil, 0, "2026-03-29T22:00:00Z"))
	require.EqualValues(t, 2*7+6, at(Clock{Weekday: true}, []string{"new", "loyal"}, 2, sunday))
	require.EqualValues(t, 2, at(Clock{}, []string{"new", "loyal"}, 2, sunday))
	require.EqualValues(t, 0, at(Clock{}, nil, 0, sunday))
}

// A grouping has each level in one group, none is empty, the first has all in one, and the finest each in its own.
func TestClock_Groupings(t *testing.T) {
	for _, c := range []Clock{{}, {Hour: true}, {Weekday: true}, {Hour: true, Weekday: true}} {
		most := int32(0)
		for k, g := range c.Groupings() {
			require.Len(t, g.Of, c.Levels())
			seen := map[int32]bool{}
			for _, at := range g.Of {
				require.Less(t, at, g.Groups)
				seen[at] = true
			}
			require.Len(t, seen, int(g.Groups))
			require.Equal(t, k == 0, g.Groups == 1)
			most = max(most, g.Groups)
		}
		require.EqualValues(t, c.Levels(), most)
	}
}

// Beside a clock there are fewer segments: their cells are numbered.
func TestClock_SegmentsBesideIt(t *testing.T) {
	d := Declaration{Clock: Clock{Hour: true}}
	for k := range MaxClockSegments {
		d.Segments = append(d.Segments, string(rune('a'+k)))
	}
	require.Empty(t, d.Check())
	d.Segments = append(d.Segments, "z")
	require.Len(t, d.Check(), 1)
	d.Clock = Clock{}
	require.Empty(t, d.Check())
}
