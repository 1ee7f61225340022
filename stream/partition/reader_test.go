package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Reading a record allocates nothing once the reader has its buffers.
func TestReader_AllocatesNothing(t *testing.T) {
	cfg := qpmdConfig(t)
	r := newReader(&cfg)
	records := []Record{
		{Topic: event.Impressions, Key: []byte("i-1"), Value: impression("i-1", "a", "b")},
		{Topic: event.Selections, Key: []byte("i-1"), Value: event.AppendSelection(nil, &event.Selection{ID: []byte("i-1"), Item: []byte("a")})},
		{Topic: event.Payoffs, Key: []byte("i-1"), Value: event.AppendPayoff(nil, &event.Payoff{ID: []byte("i-1"), Payoff: 0.5})},
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for k := range records {
			if f, err := r.read(&records[k]); f != nil || err != nil {
				t.Fatal(f, err)
			}
		}
	}))
}
