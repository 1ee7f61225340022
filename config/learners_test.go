package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPayoffs_FollowFromTheOtherSettings: a file that sets none has robust, and moss or the configured policy where robust does not go.
func TestPayoffs_FollowFromTheOtherSettings(t *testing.T) {
	for _, c := range []struct {
		payoffs  Payoffs
		policy   Policy
		delay    Delay
		silence  Silence
		settings []string
	}{
		{Adversarial, Robust, Direct, Ages, []string{"", "payoff_horizon: 7d", "delay: direct"}},
		{Adversarial, Robust, Direct, Waits, []string{"on_expiry: drop", "silence: waits"}},
		{Adversarial, FTRL, BOLD, Waits, []string{"delay: bold"}},
		{Adversarial, OSMD, BOLD, Waits, []string{"policy: osmd"}},
		{Stochastic, "greedy", Direct, Ages, []string{"policy: greedy"}},
		{Stochastic, MOSS, Direct, Ages, []string{"aggregate: sum", "drift: 0.1", "context: {age: true}", "payoffs: stochastic"}},
		{Stochastic, MOSS, Direct, AtOnce, []string{"silence: at_once"}},
		{Stochastic, MOSS, QPMD, Waits, []string{"delay: qpmd", "payoffs: stochastic, delay: qpmd"}},
	} {
		for _, settings := range c.settings {
			l := load(t, complete("learners: {feed: {"+settings+"}}"), noEnv).Learners[0]
			require.Equal(t, []any{c.payoffs, c.policy, c.delay, c.silence}, []any{l.Payoffs, l.Policy, l.Delay, l.Silence}, settings)
		}
	}
}
