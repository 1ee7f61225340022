package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Segments at a time are distinguished by the hours and days of the declared zone, summer time included.
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
			names := map[string]bool{}
			for group := range g.Groups {
				names[g.Name(group)] = true
			}
			require.Len(t, names, int(g.Groups), "each group has a name of its own")
		}
		require.EqualValues(t, c.Levels(), most)
	}
}

// Beside a clock there are fewer segments: their cells are numbered.
func TestClock_SegmentsBesideIt(t *testing.T) {
	d := Declaration{Clock: Clock{Hour: true}}
	for k := range maxClockSegments {
		d.Segments = append(d.Segments, string(rune('a'+k)))
	}
	require.Empty(t, d.Check())
	d.Segments = append(d.Segments, "z")
	require.Len(t, d.Check(), 1)
	d.Clock = Clock{}
	require.Empty(t, d.Check())
}

// TestGrouping_Name names the hours and days of a level's group.
func TestGrouping_Name(t *testing.T) {
	c := Clock{Hour: true, Weekday: true}
	all := c.Groupings()
	name := func(hours, days int, level int32) string {
		for k := range all {
			if g := &all[k]; g.Hours == hours && g.Days == days {
				return g.Name(g.Of[level])
			}
		}
		return "no such grouping"
	}
	const sundayAt13 = 6*24 + 13
	require.Equal(t, "", name(1, 1, sundayAt13))
	require.Equal(t, "12–18 h", name(4, 1, sundayAt13))
	require.Equal(t, "Saturday and Sunday", name(1, 2, sundayAt13))
	require.Equal(t, "Sunday, 13–14 h", name(24, 7, sundayAt13))
	require.Equal(t, "Monday to Friday, 12–15 h", name(8, 2, 24+13))
}

// TestClock_Spread: the shares of a time are those of its minutes, counted one by one; of more than a period, those of the last.
func TestClock_Spread(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []Clock{{}, {Hour: true}, {Weekday: true}, {Hour: true, Weekday: true}} {
		for _, x := range []struct{ from, hours int64 }{{5 * hour, 1}, {22 * hour, 4}, {70 * hour, 24}, {100 * hour, 7 * 24}, {3 * hour, 40 * 24}} {
			want, got, sum := map[int32]float64{}, map[int32]float64{}, 0.0
			last := max(1, min(x.hours, c.Period()/hour))
			for minute := range last * 60 {
				want[int32(c.level(x.from+(x.hours-last)*hour+minute*60_000))] += 1 / float64(last*60)
			}
			c.Spread(x.from, x.from+x.hours*hour, func(level int32, share float64) {
				got[level] += share
				sum += share
			})
			require.InDelta(t, 1, sum, 1e-9)
			require.InDeltaMapValues(t, want, got, 1e-9, "%+v %+v", c, x)
		}
	}
}
