package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

func payoffOf(id string) []byte { return fmt.Appendf(nil, `{"impression_id":%q,"payoff":0.5}`, id) }

// TestParking_FullIsBackPressure: a payoff without room waits in its topic while its impression may
// be unread, leaves no trace in the account, and is applied once its impression has come. When all
// is read, or the impressions are read up to its own time, it is an orphan, counted as crowded.
func TestParking_FullIsBackPressure(t *testing.T) {
	cfg := testConfig()
	cfg.MaxParked = 2
	w := newWorld(t, cfg)
	w.unread[event.Impressions] = true
	w.now = day
	for i := range 2 {
		require.NoError(t, w.read(event.Payoffs, fmt.Sprintf("i-%d", i), payoffOf(fmt.Sprintf("i-%d", i)), day))
	}
	third := w.record(event.Payoffs, "i-2", payoffOf("i-2"), day)
	before := w.m.Account()
	var wait *Wait
	require.ErrorAs(t, w.step(third, day), &wait)
	require.Contains(t, wait.For, "join.max_parked")
	require.Equal(t, before, w.m.Account())

	require.NoError(t, w.read(event.Impressions, "i-0", impression("i-0", "a"), day-1))
	require.ErrorAs(t, w.step(third, day), &wait, "i-0 waits for its selection now")
	require.NoError(t, w.read(event.Selections, "i-0", []byte(`{"impression_id":"i-0","item":"a"}`), day))
	require.NoError(t, w.step(third, day), "there is room again")

	fourth := w.record(event.Payoffs, "i-3", payoffOf("i-3"), day)
	require.ErrorAs(t, w.step(fourth, day), &wait)
	require.NoError(t, w.read(event.Impressions, "i-9", impression("i-9", "a"), day))
	require.NoError(t, w.step(fourth, day), "impressions have been read up to its time")
	a := w.m.Account()
	require.Equal(t, PayoffAccount{Applied: 1, Parked: 2, Orphan: 1}, a.Payoffs)
	require.Equal(t, int64(1), a.Crowded[event.Payoffs])
}

// TestParking_WaitsForSelectionsToo: a payoff behind an impression waits for the selections.
func TestParking_WaitsForSelectionsToo(t *testing.T) {
	cfg := testConfig()
	cfg.MaxParked = 0
	w := newWorld(t, cfg)
	w.now = day
	require.NoError(t, w.read(event.Impressions, "i-0", impression("i-0", "a"), day))
	w.unread[event.Selections] = true
	rec := w.record(event.Payoffs, "i-0", payoffOf("i-0"), day)
	var wait *Wait
	require.ErrorAs(t, w.step(rec, day), &wait)
	require.NoError(t, w.read(event.Selections, "i-0", []byte(`{"impression_id":"i-0","item":"a"}`), day))
	require.NoError(t, w.step(rec, day))
	require.Equal(t, int64(1), w.m.Account().Payoffs.Applied)
}

// TestParking_OneIDIsBounded: records parked under one id are bounded in bytes
// and number, which bounds a step's cost. A single record may be larger.
func TestParking_OneIDIsBounded(t *testing.T) {
	w := newWorld(t, testConfig())
	w.now = day
	large := fmt.Sprintf(`{"impression_id":"i-0","payoff":0.5,"x":%q}`, strings.Repeat("x", 60_000))
	for range 10 {
		require.NoError(t, w.read(event.Payoffs, "i-0", []byte(large), day))
	}
	a := w.m.Account()
	require.Equal(t, int64(maxParkedBytesPerID/len(large)), a.Payoffs.Parked)
	for i := range 400 {
		require.NoError(t, w.read(event.Payoffs, "i-1", fmt.Appendf(nil, `{"impression_id":"i-1","payoff":0.%d}`, i), day))
	}
	b := w.m.Account()
	require.Equal(t, int64(MaxParkedPerID), b.Payoffs.Parked-a.Payoffs.Parked)
	require.Equal(t, b.Payoffs.Orphan, b.Crowded[event.Payoffs])
}

// TestElsewhere_WaitsForAWorkerThatKnows: a record for a learner that only other workers have is not refused.
func TestElsewhere_WaitsForAWorkerThatKnows(t *testing.T) {
	w := newWorld(t, testConfig())
	w.now = day
	w.m.Elsewhere(Elsewhere{Learners: map[string]bool{"front": true}})
	rec := w.record(event.Impressions, "i-0", []byte(`{"impression_id":"i-0","learner":"front","candidates":[{"item":"a","utility":1}]}`), day)
	var wait *Wait
	require.ErrorAs(t, w.step(rec, day), &wait)
	require.Contains(t, wait.For, `"front"`)
	require.Zero(t, w.m.Account().Read)
	w.m.Elsewhere(Elsewhere{}) // they have gone
	require.NoError(t, w.step(rec, day))
	require.Equal(t, int64(1), w.m.Account().Impressions.Rejected)
}
