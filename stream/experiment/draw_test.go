package experiment

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite testdata")

func feed(t testing.TB, s Settings) *Experiment {
	if s.Name == "" {
		s.Name = "feed"
	}
	if s.Run == 0 {
		s.Run = 1
	}
	if s.Arms == nil {
		s.Arms = []Arm{{"feed", 0.9}, {"control", 0.1}}
	}
	if s.Control == "" {
		s.Control = "control"
	}
	e, err := New(s)
	require.NoError(t, err)
	return e
}

// TestGolden holds draws to testdata/draws.txt: a unit that was given an arm by one version must be given it by the next.
func TestGolden(t *testing.T) {
	var lines strings.Builder
	for _, run := range []int32{1, 2} {
		e := feed(t, Settings{Run: run, Arms: []Arm{{"feed", 0.5}, {"b", 0.3}, {"control", 0.2}}})
		for _, unit := range []string{"", "i-77", "1f3", "1f3@2945", "000@-1", "9b2c1d84-2f6f-4a6e-8c58-0a3f1f6f9e11"} {
			fmt.Fprintf(&lines, "feed %d %q %.17g %s\n", run, unit, e.Uniform([]byte(unit)), e.Arms[e.Arm([]byte(unit))].Name)
		}
	}
	for _, user := range []string{"", "u-1", "9b2c1d84-2f6f-4a6e-8c58-0a3f1f6f9e11"} {
		fmt.Fprintf(&lines, "group %q %d\n", user, GroupOf([]byte(user)))
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/draws.txt", []byte(lines.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/draws.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), lines.String())
}

// TestUniform composes it from the hash of all bytes at once. SplitMix64's first number for the seed 0 is published with it.
func TestUniform(t *testing.T) {
	require.Equal(t, uint64(0xe220a8397b1dcdaf), finalise(0x9e3779b97f4a7c15))
	e := feed(t, Settings{Run: 12})
	require.Equal(t, float64(finalise(xxhash.Sum64String("feed\x0012\x00i-77"))>>11)/(1<<53), e.Uniform([]byte("i-77")))
}

// TestDrawsAsShared is by a χ² statistic with a false-alarm rate below 1e-6 for each case.
func TestDrawsAsShared(t *testing.T) {
	const units = 200_000
	for _, c := range []struct {
		arms []Arm
		most float64 // quantile of χ² at 1 − 1e-7, with one degree of freedom less than arms
	}{
		{[]Arm{{"feed", 0.9}, {"control", 0.1}}, 28.4},
		{[]Arm{{"feed", 0.99}, {"control", 0.01}}, 28.4},
		{[]Arm{{"a", 0.4}, {"b", 0.3}, {"c", 0.2}, {"control", 0.1}}, 35.5},
	} {
		e := feed(t, Settings{Arms: c.arms})
		got := make([]float64, len(c.arms))
		for i := range units {
			got[e.Arm(strconv.AppendInt([]byte("i-"), int64(i), 10))]++
		}
		sum := 0.0
		for k, a := range e.Arms {
			want := a.Share * units
			sum += (got[k] - want) * (got[k] - want) / want
		}
		require.Less(t, sum, c.most, "%v: %v", c.arms, got)
	}
}

// TestRunsAreIndependent compares the units' arms in two runs, and a group's arms in successive periods. The
// correlation of 100,000 pairs is below 5.4 of its standard deviations (false alarm 1e-7).
func TestRunsAreIndependent(t *testing.T) {
	one, two := feed(t, Settings{}), feed(t, Settings{Run: 2})
	const n = 100_000
	var runs, periods float64
	for i := range n {
		unit := strconv.AppendInt(nil, int64(i), 10)
		runs += (one.Uniform(unit) - 0.5) * (two.Uniform(unit) - 0.5) * 12
		period := int64(i / GroupCount)
		periods += (one.Uniform(AppendUnit(nil, i%GroupCount, period, true)) - 0.5) * (one.Uniform(AppendUnit(nil, i%GroupCount, period+1, true)) - 0.5) * 12
	}
	require.Less(t, math.Abs(runs)/math.Sqrt(n), 5.4)
	require.Less(t, math.Abs(periods)/math.Sqrt(n), 5.4)
}

func TestUnits(t *testing.T) {
	require.Equal(t, "1f3@2945", string(AppendUnit(nil, 0x1f3, 2945, true)))
	require.Equal(t, "01f", string(AppendUnit(nil, 0x1f, 0, false)))
	for _, text := range []string{"", "1f", "1F3", "400", "1f3@", "1f3@+1", "1f3@01", "1f3 @1", "1f3x1", "0x1f", "01f3"} {
		_, _, _, ok := ParseUnit(text)
		require.False(t, ok, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		group, period, periodic := rapid.IntRange(0, GroupCount-1).Draw(t, "group"), rapid.Int64().Draw(t, "period"), rapid.Bool().Draw(t, "periodic")
		if !periodic {
			period = 0
		}
		g, p, a, ok := ParseUnit(string(AppendUnit(nil, group, period, periodic)))
		require.True(t, ok)
		require.Equal(t, []any{group, period, periodic}, []any{g, p, a})
	})
}

func TestPeriods(t *testing.T) {
	for _, c := range []struct{ began, length, want int64 }{{0, 7, 0}, {6, 7, 0}, {7, 7, 1}, {-1, 7, -1}, {-7, 7, -1}, {-8, 7, -2}, {12345, 0, 0}} {
		require.Equal(t, c.want, PeriodOf(c.began, c.length), "%+v", c)
	}
}

func TestDrawDoesNotAllocate(t *testing.T) {
	e, unit, scratch := feed(t, Settings{}), []byte("9b2c1d84-2f6f-4a6e-8c58-0a3f1f6f9e11"), make([]byte, 0, 32)
	require.Zero(t, testing.AllocsPerRun(100, func() { e.Arm(unit); e.Arm(AppendUnit(scratch, GroupOf(unit), 2945, true)) }))
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		arms []Arm
		want string
	}{
		{[]Arm{{"control", 1}}, "two arms"},
		{[]Arm{{"a", 0.5}, {"control", 0.4}}, "add up to 0.9"},
		{[]Arm{{"a", 1}, {"control", 0}}, "must be above 0"},
		{[]Arm{{"a", math.NaN()}, {"control", 1}}, "must be above 0"},
		{[]Arm{{"control", 0.5}, {"control", 0.5}}, "twice"},
		{[]Arm{{"a", 0.5}, {"b", 0.5}}, "none of the arms"},
	} {
		_, err := New(Settings{Name: "feed", Run: 1, Arms: c.arms, Control: "control"})
		require.ErrorContains(t, err, c.want)
	}
}

func BenchmarkArm(b *testing.B) {
	e, unit := feed(b, Settings{}), []byte("9b2c1d84-2f6f-4a6e-8c58-0a3f1f6f9e11")
	b.ReportAllocs()
	for b.Loop() {
		e.Arm(unit)
	}
}
