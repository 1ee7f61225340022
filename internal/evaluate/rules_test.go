package evaluate

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestLog_TargetsAreUnderTheRules: in a log of ranking by utility, pins and a cap have moved candidates of every impression. The same
// policy as a target ranks as was shown, so its worth is the payoff of the log, in every row; without rules it would rank otherwise. A
// recorded propensity would be of the ranking shown. A learner that has found the order of utilities has impressions without them.
func TestLog_TargetsAreUnderTheRules(t *testing.T) {
	for _, utilities := range []config.Utilities{config.Given, config.Sorted} {
		t.Run(string(utilities), func(t *testing.T) { targetsAreUnderTheRules(t, utilities) })
	}
}

func targetsAreUnderTheRules(t *testing.T, utilities config.Utilities) {
	w, err := syntheticlog.New(population(6), 0, config.Setting{"payoffs", "stochastic"}, config.Setting{"policy", "utility"},
		config.Setting{"payoff_horizon", "48h"}, config.Setting{"silence", "waits"})
	require.NoError(t, err)
	require.NoError(t, w.Play(3000, 9))
	w.Learner.Utilities = utilities
	w.Learner.Caps = []config.Cap{{Category: "ads", Most: 0, First: 1}}
	d := event.NewKeylessDecoder(event.Limits{})
	var impressions, rankings bytes.Buffer
	shown := w.Records[event.Rankings].Bytes()
	for line := range bytes.Lines(w.Records[event.Impressions].Bytes()) {
		var imp event.Impression
		var r event.Ranking
		require.NoError(t, d.Impression(&imp, nil, line))
		ranking, rest, _ := bytes.Cut(shown, []byte("\n"))
		shown = rest
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, ranking))
		best, n := r.Items[0], len(r.Items)
		imp.Context.Candidates = make([]event.CandidateContext, n)
		for i := range imp.Candidates {
			switch c := &imp.Candidates[i]; {
			case bytes.Equal(c.Item, r.Items[n-1]):
				c.Pin = 2
			case bytes.Equal(c.Item, best):
				imp.Context.Candidates[i].Category = []byte("ads")
			}
		}
		imp.HasUtilities = utilities == config.Given
		impressions.Write(append(event.AppendImpression(nil, &imp), '\n'))
		r.Items = slices.Concat(r.Items[1:2], r.Items[n-1:], r.Items[:1], r.Items[2:n-1]) // the cap moves the best, the pin the last
		r.Decision.Decided = []int32{2, 0}
		for at := range n - 3 {
			r.Decision.Decided = append(r.Decision.Decided, int32(3+at))
		}
		r.Decision.Decided = append(r.Decision.Decided, 1)
		if utilities == config.Sorted {
			r.Decision.Ranks = []int32{int32(n - 2), 0, int32(n - 1)}
			for at := range n - 3 {
				r.Decision.Ranks = append(r.Decision.Ranks, int32(n-3-at))
			}
		}
		rankings.Write(append(event.AppendRanking(nil, &r), '\n'))
	}
	w.Records[event.Impressions], w.Records[event.Rankings] = impressions, rankings
	log, err := w.Journal(context.Background())
	require.NoError(t, err)
	defer log.Close()
	opt, rows := unit(), 0
	opt.Decided = func(_ string, _ int32, order []int32) {
		rows++
		n := int32(len(order))
		require.Equal(t, []int32{n - 2, 0, n - 1, n - 3}, order[:4])
	}
	report, err := Log(context.Background(), log, &w.Learner, targets(t, w, "utility"), opt)
	require.NoError(t, err)
	require.Equal(t, 3000, rows)
	require.Zero(t, report.Targets[0].Difference.Value)
	require.Zero(t, report.Targets[0].Difference.Stderr)
	require.Contains(t, report.Notes[len(report.Notes)-1], "3000 rankings under pins or caps")
}
