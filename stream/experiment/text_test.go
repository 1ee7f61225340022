package experiment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func three(t testing.TB) *Experiment {
	return feed(t, Settings{Run: 4, Arms: []Arm{{"a", 0.5}, {"b", 0.25}, {"control", 0.25}}})
}

func TestText(t *testing.T) {
	e := three(t)
	require.Equal(t, "1 4 1:2:3:4:5:6 0:0:0:0:0:0 4:5:6:7:8:9", string(e.AppendCohort(nil, []Counts{{1, 2, 3, 4, 5, 6}, {}, {4, 5, 6, 7, 8, 9}})))
	require.Equal(t, "1 4 a:0.5:1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2",
		string(e.AppendTotals(nil, Totals{{1, 2, -3, 4, 5, 6, 7}, {}, {5, 6, 7, 8, 9, 1, 2}})))
	groups := make(Groups, GroupCount)
	groups[63], groups[64], groups[127] = Group{1, 1}, Group{1, 2}, Group{3, 4}
	require.Equal(t, "1 4 64:1:2 127:3:4", string(e.AppendGroups(nil, groups, 64, 128)))
}

func TestTextComesBack(t *testing.T) {
	e := three(t)
	rapid.Check(t, func(t *rapid.T) {
		by, totals, groups := make([]Counts, 3), make(Totals, 3), make(Groups, GroupCount)
		sum := rapid.Int64Range(0, 1<<40)
		for arm := range 3 {
			by[arm] = Counts{sum.Draw(t, "n") >> 10, sum.Draw(t, "x"), sum.Draw(t, "q"), sum.Draw(t, "z"), sum.Draw(t, "s"), sum.Draw(t, "m")}
			totals[arm] = Sums{by[arm].N, by[arm].X >> 20, sum.Draw(t, "d") - 1<<39, sum.Draw(t, "e"), by[arm].Z, by[arm].S, by[arm].M}
			totals[arm].X = min(totals[arm].X, totals[arm].N<<20)
		}
		for range rapid.IntRange(0, 20).Draw(t, "groups") {
			groups[rapid.IntRange(64, 127).Draw(t, "group")] = Group{1 + sum.Draw(t, "n")>>10, sum.Draw(t, "x")}
		}
		gotBy, err := e.ParseCohort(string(e.AppendCohort(nil, by)))
		require.NoError(t, err)
		require.Equal(t, by, gotBy)
		gotTotals, err := e.ParseTotals(string(e.AppendTotals(nil, totals)))
		require.NoError(t, err)
		require.Equal(t, totals, gotTotals)
		gotGroups := make(Groups, GroupCount)
		gotGroups[64] = Group{9, 9}
		require.NoError(t, e.ParseGroups(string(e.AppendGroups(nil, groups, 64, 128)), gotGroups, 64, 128))
		require.Equal(t, groups, gotGroups)
	})
}

func TestTextRefuses(t *testing.T) {
	e, groups, r := three(t), make(Groups, GroupCount), NewRunOff(3, 3200)
	parsers := map[string]func(string) error{
		"cohort":  func(s string) error { _, err := e.ParseCohort(s); return err },
		"totals":  func(s string) error { _, err := e.ParseTotals(s); return err },
		"run-off": func(s string) error { return e.ParseRunOff(s, r) },
		"bucket":  func(s string) error { return e.ParseBucket(s, r, 1) },
		"groups":  func(s string) error { return e.ParseGroups(s, groups, 64, 128) },
	}
	for _, c := range []struct {
		of, text string
		want     error
	}{
		{"cohort", "", ErrText},
		{"cohort", "2 4 1:2:3:4:5:6 0:0:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1", ErrText},
		{"cohort", "1 x 1:2:3:4:5:6 0:0:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1 3 1:2:3:4:5:6 0:0:0:0:0:0 4:5:6:7:8:9", ErrRun},
		{"cohort", "1 4 1:2:3:4:5:6 0:0:0:0:0:0", ErrArms},
		{"cohort", "1 4 1:2:3:4:5:6 0:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1 4 1:2:3:4:5:6 0:0:0:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1 4 1:2:3:4:5:6 0:00:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1 4 1:2:3:4:5:6 0:+0:0:0:0:0 4:5:6:7:8:9", ErrText},
		{"cohort", "1 4 1:2:3:4:5:6 0:0:0:0:0:0 4:-5:6:7:8:9", ErrText},
		{"cohort", "1 4 1:2:3:4:5:6 0:0:0:0:0:0 4294967297:5:6:7:8:9", ErrText},
		{"totals", "1 5 a:0.5:1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrRun},
		{"totals", "1 4 a:0.5:1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0", ErrArms},
		{"totals", "1 4 a:0.6:1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrArms},
		{"totals", "1 4 a:0.5:1:2:-3:4:5:6:7 b:=0.25:0:0:0:0:0:0:0 control:0.25:5:6:7:8:9:1:2", ErrArms},
		{"totals", "1 4 a:0.5:1:2:-3:4:5:6:7 c:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrArms},
		{"totals", "1 4 a:0.5:1:2:-3:4:5:6 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrText},
		{"totals", "1 4 a:0.5:-1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrText},
		{"totals", "1 4 a:0.5:1:1048577:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2", ErrText},
		{"groups", "1 4 64:1:2 64:3:4", ErrText},
		{"groups", "1 4 63:1:2", ErrText},
		{"groups", "1 4 128:1:2", ErrText},
		{"groups", "1 4 64:1", ErrText},
		{"groups", "1 3 64:1:2", ErrRun},
		{"bucket", "1 4 1:0:0 2:0:0", ErrArms},
		{"bucket", "1 4 1:0:0,33:1:1:1:1:1 2:0:0 3:0:0", ErrText},
		{"bucket", "1 4 1:0:0,2:1:1:1:1:1,2:1:1:1:1:1 2:0:0 3:0:0", ErrText},
		{"bucket", "1 4 1:0:0,2:1:1:1:1 2:0:0 3:0:0", ErrText},
		{"bucket", "1 4 1:0:0,2:0:0:0:0:0 2:0:0 3:0:0", ErrText},
		{"bucket", "1 3 1:0:0 2:0:0 3:0:0", ErrRun},
		{"run-off", "1 4 9:0", ErrArms},
		{"run-off", "1 4 9:0 1:2:3 1:2:3 1:2:3", ErrText},
		{"run-off", "1 4 9" + strings.Repeat(" 0"+strings.Repeat(":0", 9*Lags-1), 3), ErrText},
		{"run-off", "1 4 9:0" + strings.Repeat(" 0"+strings.Repeat(":9223372036854775808", 9*Lags-1), 3), ErrText},
	} {
		require.ErrorIs(t, parsers[c.of](c.text), c.want, "%s %q", c.of, c.text)
		require.Equal(t, make(Groups, GroupCount), groups)
		require.Equal(t, NewRunOff(3, 3200), r)
	}
}

func FuzzText(f *testing.F) {
	f.Add("1 4 1:2:3:4:5:6 0:0:0:0:0:0 4:5:6:7:8:9")
	f.Add("1 4 a:0.5:1:2:-3:4:5:6:7 b:0.25:0:0:0:0:0:0:0 control:=0.25:5:6:7:8:9:1:2")
	f.Add("1 4 64:1:2 127:3:4")
	f.Add("1 4 5:1:1,0:1:2:3:4:5,32:1:2:3:4:5 0:0:0 7:1:1,1:1:1:1:1:1")
	f.Add("1 4 9:-1" + strings.Repeat(" 0"+strings.Repeat(":0", 9*Lags-1), 3))
	e := three(f)
	f.Fuzz(func(t *testing.T, text string) {
		if by, err := e.ParseCohort(text); err == nil {
			require.Equal(t, text, string(e.AppendCohort(nil, by)))
		}
		if totals, err := e.ParseTotals(text); err == nil {
			require.Equal(t, text, string(e.AppendTotals(nil, totals)))
		}
		r := NewRunOff(3, 3200)
		if e.ParseRunOff(text, r) == nil {
			require.Equal(t, text, string(e.AppendRunOff(nil, r)))
		}
		if e.ParseBucket(text, r, 7) == nil {
			require.Equal(t, text, string(e.AppendBucket(nil, r, 7)))
		}
		groups := make(Groups, GroupCount)
		if e.ParseGroups(text, groups, 0, GroupCount) == nil {
			again := make(Groups, GroupCount)
			require.NoError(t, e.ParseGroups(string(e.AppendGroups(nil, groups, 0, GroupCount)), again, 0, GroupCount))
			require.Equal(t, groups, again)
		}
	})
}
