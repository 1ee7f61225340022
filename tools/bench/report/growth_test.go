package report

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	all, err := ParseSizes(Sizes)
	require.NoError(t, err)
	require.Len(t, all, 9)
	require.Equal(t, Size{Partitions: 6, Items: 2000}, all[0])
	require.Equal(t, Size{Partitions: 24, Items: 20_000, Paid: true}, all[8])
	var words []string
	for _, s := range all {
		words = append(words, s.String())
	}
	require.Equal(t, Sizes, strings.Join(words, " "))
	for _, faulty := range []string{"", "6", "6x", "x6", "6x19", "0x2000", "1025x2000", "6x2000+pain", "6x2000x5", "6x2e3"} {
		_, err := ParseSizes(faulty)
		require.Error(t, err, faulty)
	}
}

func TestPeakResident(t *testing.T) {
	held := make([]byte, 64<<20)
	for i := 0; i < len(held); i += 512 {
		held[i] = 1
	}
	require.GreaterOrEqual(t, peakResident(os.Getpid()), int64(len(held)))
	require.NotZero(t, held[0])
	require.Zero(t, peakResident(-1), "there is none")
}

func TestRoundTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(0, 1e9).Draw(t, "x")
		n := roundTo(x, 100)
		require.Zero(t, n%100)
		require.InDelta(t, x, float64(n), 51)
	})
}

func TestGrowth_Table(t *testing.T) {
	g := Growth{Impressions: 300_000, Rows: []Grown{
		{Size: Size{Partitions: 6, Items: 200_000}, Pass: Pass{PerSecond: 39_270, CPU: 29_300 * time.Nanosecond, Redis: 5 * time.Microsecond, Memory: 756 << 20,
			Stored: 180 << 20}, Load: 1.25},
		{Size: Size{Partitions: 24, Items: 20_000, Paid: true}, Pass: Pass{PerSecond: 8_049, CPU: 71 * time.Microsecond, Memory: 1771 << 20, Stored: 216<<20 + 5}},
	}}
	var b strings.Builder
	require.NoError(t, g.Write(&b))
	require.Equal(t, `One worker that owns all partitions, the default learner, 300000 impressions of 20 candidates in each row, all there before it starts

| partitions | items | impressions/s | worker's CPU each | worker's memory | Redis' memory | Redis' CPU each | load average |
|---|---|---|---|---|---|---|---|
| 6 | 200,000 | 39,300 | 29.3 µs | 756 MiB | 180 MiB | 5.0 µs | 1.2 |
| 24, every impression paid | 20,000 | 8,000 | 71.0 µs | 1,771 MiB | 216 MiB | 0.0 µs | 0.0 |
`, b.String())
}
