package evaluate

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// shop is the small shop of docs/clients/shop.py: users see one to three of six products.
func shop(t testing.TB, seed uint64) simulate.Config {
	windows, err := admissible.NewWindows([]float64{1. / 3, 1. / 3, 1. / 3})
	require.NoError(t, err)
	c := simulate.Defaults(seed)
	c.Items, c.Candidates, c.Taste, c.Windows, c.Interval = 6, 6, 0, windows, 100*time.Millisecond
	c.SelectionDelay, c.MinDelay, c.MaxDelay, c.Horizon = time.Second, time.Second, 10*time.Second, time.Minute
	c.Unselected, c.Missing, c.Late, c.Duplicates, c.Orphans = 0, 0, 0, 0, 0
	return c
}

// TestLog_EarlyRankings: a learner's propensities are of its prior's windows until it has learned those of its users. A log with its first
// rankings is judged, and one whose propensities are wrong is refused, as long as it may be.
func TestLog_EarlyRankings(t *testing.T) {
	settings := []config.Setting{{"selection_timeout", "30s"}, {"payoff_horizon", "1m"}}
	for _, rows := range []int{1500, 5000} {
		w, log := played(t, shop(t, 1), 0, rows, settings...)
		r := judged(t, w, log, "greedy")
		require.Equal(t, OK, r.Targets[0].Verdict, r.Targets[0].Reasons)
		require.EqualValues(t, rows-600, r.Log.Judged)
		require.Equal(t, []string{"600 rankings of the first minute left out: the learner may not have learned windows yet"}, r.Notes)

		rankings := &w.Records[event.Rankings]
		wrong := regexp.MustCompile(`"propensities":\[[^]]*]`).ReplaceAll(rankings.Bytes(), []byte(`"propensities":[0.1,0.2,0.1,0.2,0.2,0.2]`))
		rankings.Reset()
		rankings.Write(wrong)
		log, err := w.Journal(t.Context())
		require.NoError(t, err)
		require.Contains(t, judged(t, w, log, "greedy").Targets[0].Reasons[0], "the weights do not add up")
		require.NoError(t, log.Close())
	}
	windows := config.Setting{"windows", "{list: [0.33333, 0.33333, 0.33334]}"}
	w, log := played(t, shop(t, 1), 0, 1500, append(settings, windows)...)
	require.EqualValues(t, 1500, judged(t, w, log, "greedy").Log.Judged, "windows were known from the beginning")
}
