package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
)

// TestPrintLearner_ShowsPayoffPerImpression: of learners that maximise it, and of no others.
func TestPrintLearner_ShowsPayoffPerImpression(t *testing.T) {
	share, each, product := 0.25, 0.5, 0.125
	l := admin.LearnerReport{Learner: "feed", Items: []admin.ItemReport{{Item: "a", ItemInspection: delay.ItemInspection{OnTop: 8, Selected: 2}, Share: &share}, {Item: "b"}},
		Impressions: &admin.ImpressionReport{Impressions: 8, Share: &share, PerSelection: &each, PerImpression: &product},
		Ranking: &admin.Ranking{Candidates: []admin.RankedCandidate{{Item: "a", PerSelection: &each, Share: &share, PerImpression: &product},
			{Item: "b", Share: &share}}}}
	printed := func() string {
		var b strings.Builder
		printLearner(&b, &l, 20)
		return strings.Join(strings.Fields(b.String()), " ")
	}
	text := printed()
	require.Contains(t, text, "0.2500 of 8 impressions ended with a selection; payoff per selection 0.5, per impression 0.125 (in payoff ranges)")
	require.Contains(t, text, "item payoffs mean in flight silence waiting on top select a 0 – 0 0.00 0 8 0.25 b 0 – 0 0.00 0 0 –")
	require.Contains(t, text, "worth per selection select per impression mean interval index propensity why a 0 0 0.00 0.5 0.25 0.125 –")
	require.Contains(t, text, "b 0 0 0.00 – 0.25 – –")
	l.Impressions.PerSelection, l.Impressions.PerImpression = nil, nil
	require.Contains(t, printed(), "payoff per selection not known yet, per impression not known yet")
	l.Impressions.Share = nil
	require.Contains(t, printed(), "share of impressions with a selection: no impression has ended yet")
	l.Impressions, l.Ranking.Candidates = nil, []admin.RankedCandidate{{Item: "a"}}
	require.NotContains(t, printed(), "per impression")
	require.NotContains(t, printed(), "on top")
}
