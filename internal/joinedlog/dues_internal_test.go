package joinedlog

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDues: they come in the order of time, and of rows at one time.
func TestDues(t *testing.T) {
	var d dues
	var expected []due
	for i := range int32(5000) {
		x := due{at: int64(i/7) - rand.Int64N(1+rand.Int64N(200)), row: i}
		d.put(x)
		at, _ := slices.BinarySearchFunc(expected, x.at+1, func(e due, at int64) int { return int(e.at - at) })
		expected = slices.Insert(expected, at, x)
		for rand.IntN(3) == 0 {
			got, ok := d.next(int64(i / 9))
			require.Equal(t, len(expected) > 0 && expected[0].at < int64(i/9), ok)
			if !ok {
				break
			}
			require.Equal(t, expected[0], got)
			expected = expected[1:]
		}
	}
	require.ElementsMatch(t, expected, d.all)
	for _, x := range expected {
		got, _ := d.next(math.MaxInt64)
		require.Equal(t, x, got)
	}
}

// TestDues_OfLateImpressions: deadlines of impressions that are dated back take no longer than others.
func TestDues_OfLateImpressions(t *testing.T) {
	var d dues
	began := time.Now()
	for i := range int64(1_000_000) {
		if i%10 == 0 {
			d.put(due{at: i / 2})
		} else {
			d.put(due{at: i})
		}
	}
	require.Less(t, time.Since(began), 30*time.Second)
}
