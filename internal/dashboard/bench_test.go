package dashboard

import (
	"testing"
	"time"

	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// BenchmarkSecond measures a second of the page, for a worker of 24 partitions, after two hours, with any number of viewers. That is a
// tick, and page and history made and compressed once. Serving them is copying.
func BenchmarkSecond(b *testing.B) {
	w := busy("w-1")
	one := w.seen[1]
	w.seen = map[int32]stream.Observed{}
	for p := range int32(24) {
		w.seen[p] = one
	}
	board := board(w, nil)
	now := time.Now()
	for range 3 * 3600 {
		board.history.add(point{at: now.UnixMilli(), learners: map[string]Counts{"feed": {Ended: 300, Value: partition.Value{Payoffs: 200, PayoffSum: 100}}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		w.does()
		now = now.Add(time.Second)
		board.tick(now)
		board.Live()
		board.History()
	}
}
