package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
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
			r, err := explain(&cfg.Learners[0], &view{machine: m}, []Candidate{{Item: "a", Plain: true}, {Item: "b", Plain: true}})
			if needs {
				require.ErrorIs(t, err, ErrUtilities)
				require.ErrorContains(t, err, `candidate "a"`)
				return
			}
			require.NoError(t, err)
			require.True(t, r.OwnOrder)
			require.Len(t, r.Candidates, 2)
		})
	}
}
