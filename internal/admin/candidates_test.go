package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/policy"
)

// TestExplain_PlainItemsWhereUtilitiesAreFound: a learner that finds the order of utilities itself takes plain items; one
// that is given them says that it needs them.
func TestExplain_PlainItemsWhereUtilitiesAreFound(t *testing.T) {
	for kind, needs := range map[string]bool{"given": true, "sorted": false, "social": false} {
		t.Run(kind, func(t *testing.T) {
			cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
				"learners: {feed: {payoffs: stochastic, utilities: "+kind+"}}\n"), nil)
			require.NoError(t, err)
			machine, err := app.MachineConfig(cfg)
			require.NoError(t, err)
			tool := &Tool{cfg: cfg, machine: machine}
			m, err := tool.emptyMachine(0)
			require.NoError(t, err)
			r, err := Explain(&cfg.Learners[0], m, 0, []Candidate{{Item: "a", Plain: true}, {Item: "b", Plain: true}}, nil, policy.Key(cfg.Learners[0].Seed))
			if needs {
				require.ErrorIs(t, err, ErrUtilities)
				require.ErrorContains(t, err, `learner "feed"`)
				return
			}
			require.NoError(t, err)
			require.True(t, r.OwnOrder)
			require.Len(t, r.Candidates, 2)
			require.False(t, r.Candidates[0].Filled || r.Candidates[1].Filled)
		})
	}
}

// TestExplain_FillsUtilities: a plain item among others is ranked with the median of their utilities, and marked.
func TestExplain_FillsUtilities(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
		"learners: {feed: {payoffs: stochastic, policy: utility}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	m, err := (&Tool{cfg: cfg, machine: machine}).emptyMachine(0)
	require.NoError(t, err)
	r, err := Explain(&cfg.Learners[0], m, 0, []Candidate{{Item: "a", Utility: -3}, {Item: "b", Plain: true}, {Item: "c", Utility: 2}, {Item: "d", Utility: -1}}, nil, policy.Key(cfg.Learners[0].Seed))
	require.NoError(t, err)
	var order []string
	for _, c := range r.Candidates {
		order = append(order, c.Item)
		require.Equal(t, c.Item == "b", c.Filled, c.Item)
		if c.Filled {
			require.Equal(t, -1.0, c.Utility)
		}
	}
	require.Equal(t, []string{"c", "d", "b", "a"}, order, "of equal utilities the later by name is liked better")
}
