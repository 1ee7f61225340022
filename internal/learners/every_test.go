package learners

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// TestEveryLearner_CanDoWhatIsAskedOfIt: every accepted configuration can be made, shows its knowledge, explains its decisions
// (delay.Inspector) and can be carried over to other partitions (delay.Mergeable). Commands ask for these interfaces only when they
// need them. Each policy, delay and kind of utilities is accepted with something.
func TestEveryLearner_CanDoWhatIsAskedOfIt(t *testing.T) {
	seen := map[any]bool{}
	for _, payoffs := range []config.Payoffs{config.Stochastic, config.Adversarial} {
		for _, p := range config.Policies() {
			for _, d := range config.Delays() {
				for _, u := range config.UtilityKinds() {
					text := fmt.Sprintf("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
						"learners: {feed: {payoffs: %s, policy: %s, delay: %s, utilities: %s, on_expiry: drop}}\n", payoffs, p, d, u)
					cfg, _, err := config.Load("every.yaml", []byte(text), nil)
					if err != nil {
						continue
					}
					seen[p], seen[d], seen[u] = true, true, true
					t.Run(fmt.Sprintf("%s %s %s", p, d, u), func(t *testing.T) { capable(t, &cfg.Learners[0]) })
				}
			}
		}
	}
	for _, p := range config.Policies() {
		require.True(t, seen[p], p)
	}
	for _, d := range config.Delays() {
		require.True(t, seen[d], d)
	}
	for _, u := range config.UtilityKinds() {
		require.True(t, seen[u], u)
	}
}

func capable(t *testing.T, l *config.Learner) {
	build, err := New(l)
	require.NoError(t, err)
	one, other := build(), build()
	for _, learner := range []delay.Learner{one, other} {
		require.Implements(t, (*delay.Inspector)(nil), learner)
		require.Implements(t, (*delay.Mergeable)(nil), learner)
		learner.Grow(3)
	}
	items := []policy.Item{0, 1, 2}
	x := one.(delay.Inspector).Explain(items, nil, 1)
	require.NotEmpty(t, x.Rule)
	require.Len(t, x.Why, len(items))
	require.Len(t, x.Decision.Order, len(items))
	require.NotPanics(t, func() { one.(delay.Inspector).Inspect() })
	all := delay.Portion{Additive: true, Queues: true, Of: 1}
	require.NoError(t, delay.Merge(other.(delay.Mergeable), one, items, all, func(policy.Item) {}))
}
