package inflight

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy/words"
)

// use goes on with blocks that were read: no sum overflows.
func use(t *testing.T, g *Scheme, s Intervals) {
	total := s.Count()
	for _, tick := range []int64{Never, g.Tick(earliest), g.Tick(0), g.Tick(lately), g.Tick(latest)} {
		s.Merge(g, tick)
		require.Equal(t, total, s.Count())
		for k, x := range s {
			require.Less(t, x.Start(), x.End())
			require.GreaterOrEqual(t, x.Age(tick), int64(0))
			require.True(t, k == 0 || s[k-1].End() <= x.Start())
		}
	}
}

func FuzzParseBlock(f *testing.F) {
	for _, text := range []string{"10:0", "-1:0", "46:127", "46:128", "46:-128", "10:-5", "10:9223372036854775807", "9:1", "47:0", "010:1", "10:+1", "10", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := ParseBucket(text)
		if err != nil {
			require.ErrorIs(t, err, ErrText)
			require.Zero(t, b)
			return
		}
		require.Equal(t, text, AppendBucket(nil, b))
		require.True(t, b.Start() < b.End() && b.Start() >= Never && b.End() <= -Never)
	})
}

func parseIntervals(text []byte) (Intervals, error) {
	r := words.Of(text, ' ')
	r.Check(len(r.Word()) == 0) // a blank precedes each interval
	s := ReadIntervals(&r)
	return s, r.End(ErrText)
}

func FuzzParseSpans(f *testing.F) {
	for _, text := range []string{"", " 10:5:2", " 10:5:2 12:30:6", " 17:0:3", " 10:5:1 10:5:1", " 12:0:1 10:1:1", " 10:5:0", "10:5:1", " 10:5", " ",
		" 10:5:9007199254740992 10:6:1", " -1:0:3", " 10:-5:1", " 10:5:01", " 10:5:2:-7 12:30:6:9", " 10:5:2:0", " 10:5:2:07", " 10:5:2:+7", " 10:5:2:2305843009213693953", " 10:5:2:7:1"} {
		f.Add([]byte(text), int64(day))
	}
	f.Fuzz(func(t *testing.T, text []byte, horizon int64) {
		s, err := parseIntervals(text)
		if err != nil {
			require.ErrorIs(t, err, ErrText)
			return
		}
		require.Equal(t, string(text), string(s.Append(nil)))
		g := NewScheme(min(longest, max(1, horizon)))
		use(t, &g, s)
	})
}

func FuzzAges_SetRow(f *testing.F) {
	for _, text := range []string{"0:3 7:2", "1:1", "", " ", "7:2 0:3", "0:3 0:3", "184:1", "185:1", "1:0", "01:1", "1:9007199254740992 2:1",
		"+1:1", "1:1 ", " 1:1"} {
		f.Add([]byte(text), int64(day))
	}
	f.Fuzz(func(t *testing.T, text []byte, horizon int64) {
		g := NewScheme(min(longest, max(1, horizon)))
		row := g.BucketOf(lately, Never)
		var a Ages
		if text == nil {
			text = []byte{}
		}
		if err := a.SetRow(&g, row, text); err != nil {
			require.ErrorIs(t, err, ErrText)
			require.Zero(t, a)
			return
		}
		written := a.AppendRow(nil, row)
		if written == nil {
			return // all of it was of greater ages than the horizon
		}
		require.True(t, strings.HasPrefix(string(text), string(written)), "%q of %q", written, text)
		var again Ages
		require.NoError(t, again.SetRow(&g, row, written))
		require.Equal(t, a, again)
		Estimate(&g, math.MaxInt64/2, 1, &a)
	})
}

// After a change of the horizon, ages stay in their bins as far as they are below it.
func TestAges_SetRowOfAnotherHorizon(t *testing.T) {
	from, to := NewScheme(day), NewScheme(30*day)
	row := from.BucketOf(lately, Never)
	for _, schemes := range [][2]*Scheme{{&from, &to}, {&to, &from}} {
		was, is := schemes[0], schemes[1]
		for k := range was.Bins() {
			var a, b Ages
			a.row(was, row).bins[k] = 7
			require.NoError(t, b.SetRow(is, row, a.AppendRow(nil, row)))
			want := make([]int64, is.Bins())
			if k < len(want) {
				want[k] = 7
			}
			require.Equal(t, want, b.row(is, row).bins, "bin %d of %d in %d", k, was.Horizon(), is.Horizon())
		}
	}
	var a Ages
	require.NoError(t, a.SetRow(&from, row, nil), "what is not there may be taken out")
	require.NoError(t, a.SetRow(&from, row, []byte("1:1")))
	require.NoError(t, a.SetRow(&from, row, nil))
	require.Empty(t, a.AppendRow(nil, row))
}
