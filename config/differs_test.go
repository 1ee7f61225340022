package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffering(t *testing.T) {
	load := func(text string) *Config {
		c, _, err := Load("worker.yaml", []byte(text), func(string) (string, bool) { return "", false })
		require.NoError(t, err)
		return c
	}
	before := load(`kafka: {brokers: ['k:9092'], group: g, sasl: {mechanism: plain, username: u, password: one}}
redis: {url: 'redis://me:one@r:6379/0'}
learners: {feed: {payoffs: stochastic, default: true}, gone: {payoffs: stochastic}}
`)
	require.Empty(t, before.Differing(before))
	after := load(`kafka: {brokers: ['k:9092', 'l:9092'], group: g, sasl: {mechanism: plain, username: u, password: two}}
redis: {url: 'redis://me:two@r:6379/0'}
log: {level: debug}
learners: {feed: {payoffs: stochastic, default: true, policy: greedy, payoff_horizon: 1d}, new: {payoffs: stochastic}}
`)
	keys := before.Differing(after)
	require.Subset(t, keys, []string{"kafka.brokers", "kafka.sasl.password", "redis.password", "log.level", "learners.gone", "learners.new",
		"learners.feed.policy", "learners.feed.payoff_horizon"})
	require.ElementsMatch(t, keys, after.Differing(before))
	require.NotContains(t, keys, "kafka.group")
	rest, added := before.Added(after)
	require.Equal(t, []string{"new"}, added)
	require.NotContains(t, rest, "learners.new")
}
