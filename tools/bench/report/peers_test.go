package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPeers_Table(t *testing.T) {
	pass := func(rate float64, micros int, mib int64) Pass {
		return Pass{PerSecond: rate, CPU: time.Duration(micros) * time.Microsecond, Kafka: 3 * time.Microsecond, Memory: mib << 20}
	}
	r := Peers{
		Options: Options{Sizes: []Size{{Partitions: 6, Items: 200_000}}, Impressions: 600_000, Threads: 2},
		Load:    [2]float64{0.25, 4},
		Rounds: rounds{
			{pass(50_000, 25, 700), pass(50_000, 30, 2000), pass(20_000, 60, 1500)},
			{pass(40_000, 30, 720), pass(60_000, 40, 2100), pass(25_000, 70, 1600)},
			{pass(45_000, 20, 710), pass(30_000, 25, 2050), pass(15_000, 80, 1400)},
		},
	}
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	require.Equal(t, `6 partitions, 200,000 items, 600000 impressions of 20 candidates of which the last two thirds count, without feedback, 3 runs of each in turn, 2 threads of Kafka Streams; least, median and most; load average 0.2 before, 4.0 after

| program | impressions/s | its CPU each | Kafka's CPU each | its memory |
|---|---|---|---|---|
| ranker-worker | 40,000, **45,000**, 50,000 | 20.0, **25.0**, 30.0 µs | 3.0 µs | 710 MiB |
| Kafka Streams, in memory | 30,000, **50,000**, 60,000 | 25.0, **30.0**, 40.0 µs | 3.0 µs | 2,050 MiB |
| Kafka Streams, on RocksDB | 15,000, **20,000**, 25,000 | 60.0, **70.0**, 80.0 µs | 3.0 µs | 1,500 MiB |

| ranker-worker's, as a multiple of | impressions/s | its CPU each |
|---|---|---|
| Kafka Streams, in memory | 0.67, **1.00**, 1.50 | 0.75, **0.80**, 0.83 |
| Kafka Streams, on RocksDB | 1.60, **2.50**, 3.00 | 0.25, **0.42**, 0.43 |
`, b.String())
	require.Error(t, (&Peers{}).Write(&b))
}
