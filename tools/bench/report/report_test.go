package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport_Table(t *testing.T) {
	pass := func(rate float64, micros, kafkas, redis int) Pass {
		return Pass{PerSecond: rate, CPU: time.Duration(micros) * time.Microsecond, Kafka: time.Duration(kafkas) * time.Microsecond,
			Redis: time.Duration(redis) * time.Microsecond}
	}
	r := Report{
		Options: Options{Partitions: 6, Impressions: 600_000, Rate: 10_000, KafkaPID: 1, RedisPID: 2},
		Load:    Load{0.25, 4},
		Rounds: rounds{
			{pass(60_000, 9, 3, 1), pass(45_000, 12, 4, 2), pass(200_000, 1, 2, 0)},
			{pass(40_000, 12, 4, 3), pass(36_000, 14, 5, 3), pass(250_000, 2, 1, 0)},
			{pass(50_000, 11, 5, 2), pass(50_000, 11, 3, 1), pass(100_000, 3, 3, 0)},
		},
		Latency: &Latency{P50: 2 * time.Millisecond, P99: 12_340 * time.Microsecond, WorkerP50: time.Millisecond, WorkerP99: 10 * time.Millisecond,
			CPU: 25 * time.Microsecond},
	}
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	require.Equal(t, `One worker, 6 partitions, 600000 impressions of 20 candidates (950 B), medians of 3 runs in turn; load average 0.2 before, 4.0 after

| quantity                                                   | measured                     | aim        |
| ---------------------------------------------------------- | ---------------------------- | ---------- |
| drain: worker                                              | 50000 impressions/s          |            |
| drain: bare copier, same broker and minute                 | 200000 records/s             |            |
| drain: worker / copier                                     | 0.30 (0.30 0.16 0.50)        | ≥ 0.5      |
| drain: the worker's CPU per impression                     | 11.0 µs                      | ≤ 10 µs    |
| drain: the copier's CPU per record                         | 2.0 µs                       |            |
| drain: Kafka's CPU per impression (and per copied record)  | 4.0 µs (2.0 µs)              |            |
| drain: Redis' CPU per impression                           | 2.0 µs                       |            |
| drain: worker with an adversarial learner                  | 45000 impressions/s          |            |
| drain: adversarial / stochastic learner                    | 0.90                         | ≥ 0.7      |
| drain: the adversarial worker's CPU per impression         | 12.0 µs                      |            |
| latency at 10000/s, seen by a consumer: p50                | 2.0 ms                       | ≤ 5 ms     |
| latency at 10000/s, seen by a consumer: p99                | 12.3 ms                      | ≤ 25 ms    |
| latency at 10000/s, the worker's histogram: p50            | ≤ 1.0 ms                     |            |
| latency at 10000/s, the worker's histogram: p99            | ≤ 10.0 ms                    |            |
| latency at 10000/s, the worker's CPU per impression        | 25.0 µs                      |            |
`, b.String())
}
