package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-21T10:00:04Z":                                           "2026-11-21T10:00:04.000Z",
		"2026-11-21T10:00:00.000Z":                                       "2026-11-21T10:00:00.000Z",
		"2026-11-21T10:00:00.1Z":                                         "2026-11-21T10:00:00.100Z",
		"2026-11-21T10:00:00.123999999Z":                                 "2026-11-21T10:00:00.123Z",
		"1969-12-31T23:59:59.9999Z":                                      "1969-12-31T23:59:59.999Z",
		"2026-11-21T10:00:00+05:30":                                      "2026-11-21T04:30:00.000Z",
		"2026-11-21T10:00:00.5-23:59":                                    "2026-11-22T09:59:00.500Z",
		"2026-11-21T10:00:00-00:00":                                      "2026-11-21T10:00:00.000Z",
		"2024-02-29T00:00:00Z":                                           "2024-02-29T00:00:00.000Z",
		"0001-01-01T00:00:00Z":                                           "0001-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999Z":                                       "9999-12-31T23:59:59.999Z",
		"0000-12-31T23:30:00-01:00":                                      "0001-01-01T00:30:00.000Z",
		"9999-12-31T23:59:59.9999999999Z":                                "9999-12-31T23:59:59.999Z",
		"2026-11-21T10:00:00.00000000000000000000000000000000000000001Z": "2026-11-21T10:00:00.000Z",
	} {
		got, ok := event.ParseTime([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, string(event.AppendTime(nil, got)), text)
	}
	for _, text := range []string{
		"", "2026", "2026-11-21", "2026-11-21T10:00:00", "2026-11-21T10:00Z", "2026-11-21 10:00:00Z", "2026-11-21t10:00:00z",
		"2026-11-21T10:00:00z", "2026-11-21T10:00:00,5Z", "2026-11-21T10:00:00.Z", "2026-11-21T10:00:00.", "2026-11-21T10:00:00+0530",
		"2026-11-21T10:00:00+05", "2026-11-21T10:00:00+24:00", "2026-11-21T10:00:00+05:60", "2026-11-21T10:00:00*05:30",
		"2026-11-21T10:00:00ZZ", "2026-11-21T24:00:00Z", "2026-11-21T10:60:00Z", "2026-11-21T10:00:60Z", "2026-11-21T9:00:00Z",
		"2026-13-21T10:00:00Z", "2026-00-21T10:00:00Z", "2026-11-00T10:00:00Z", "2026-11-31T10:00:00Z", "2025-02-29T10:00:00Z",
		"2026-02-30T10:00:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00Z", "-026-11-21T10:00:00Z",
		"10000-11-21T10:00:00Z", "1763719200", "2026-11-21T10:00:00.5", "2026-11-21T1\x80:00:00Z", " 2026-11-21T10:00:00Z",
	} {
		_, ok := event.ParseTime([]byte(text))
		require.False(t, ok, text)
	}
}

func TestTimeRoundTripsAndAgreesWithPackageTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.Int64Range(event.MinTime, event.MaxTime).Draw(t, "millis")
		text := event.AppendTime(nil, millis)
		require.Equal(t, time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z"), string(text))
		back, ok := event.ParseTime(text)
		require.True(t, ok)
		require.Equal(t, millis, back)
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "offset in minutes"))
		local := time.UnixMilli(millis).In(zone)
		if y := local.Year(); y < 0 || y > 9999 {
			return
		}
		back, ok = event.ParseTime([]byte(local.Format(time.RFC3339Nano)))
		require.True(t, ok)
		require.Equal(t, millis, back)
	})
}

func TestTimeOutOfRangeIsWrittenAsTheNearest(t *testing.T) {
	require.Equal(t, "0001-01-01T00:00:00.000Z", string(event.AppendTime(nil, event.MinTime-1)))
	require.Equal(t, "9999-12-31T23:59:59.999Z", string(event.AppendTime(nil, 1<<63-1)))
	require.Equal(t, "0001-01-01T00:00:00.000Z", string(event.AppendTime(nil, -1<<63)))
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-11-21T10:00:00.123Z", "2026-02-29T23:59:60+05:30", "0001-01-01T00:00:00.9-00:00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := event.ParseTime(b)
		want, wanted := oracleTime(string(b))
		require.Equal(t, wanted, ok, "%q", b)
		if ok {
			require.Equal(t, want, got, "%q", b)
		}
	})
}
