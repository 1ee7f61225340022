package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestExplain_SaysWhatAddsToACandidate: an impression's context counts, and each
// summand is named. Without an impression all is in the middle of its range.
func TestExplain_SaysWhatAddsToACandidate(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
		"learners: {feed: {payoffs: stochastic, context: {user: [age], item: [price, predicted]}}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	tool := &Tool{cfg: cfg, machine: machine}
	m, err := tool.emptyMachine(0)
	require.NoError(t, err)
	var imp event.Impression
	require.NoError(t, event.NewDecoder(event.Limits{MaxCandidates: 9, MaxRecordBytes: 1000}).WithContext().Impression(&imp, []byte("i"), []byte(`{"impression_id": "i",
		"features": [0.5], "candidates": [{"item": "a", "utility": 1, "features": [1], "predicted": 0.75}, {"item": "b", "utility": 0, "features": [0], "predicted": 0.25}]}`)))
	candidates := []Candidate{{Item: "a", Utility: 1}, {Item: "b"}}
	r, err := Explain(&cfg.Learners[0], m, 0, candidates, &imp, 1)
	require.NoError(t, err)
	for _, c := range r.Candidates {
		of := map[string]float64{}
		for _, a := range c.Adds {
			of[a.Cause.String()+" "+a.Feature] = a.Adds
		}
		require.Len(t, of, 5)
		require.Zero(t, of["features price"], "nothing has been learned")
		require.Zero(t, of["item "])
		require.InDelta(t, map[string]float64{"a": 0.25, "b": -0.25}[c.Item], of["features predicted"], 0.005)
	}
	r, err = Explain(&cfg.Learners[0], m, 0, candidates, nil, 1)
	require.NoError(t, err)
	require.Zero(t, r.Candidates[0].Adds[3].Adds)

	one, err := m.Inspect("feed")
	require.NoError(t, err)
	require.Equal(t, []delay.Deviation{{Level: "payoff", SD: 0.5}, {Level: "features"}, {Level: "item", SD: 0.25}}, one.Contextual.Modelled())
	require.Nil(t, new(delay.ContextualStatus).Modelled())
}
