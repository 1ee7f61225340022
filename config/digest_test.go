package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDigest: equal settings of learners are equal, however they are written; any other setting of one makes another.
func TestDigest(t *testing.T) {
	const head = "kafka: {brokers: ['127.0.0.1:9092'], group: g}\nredis: {url: 'redis://127.0.0.1:6379/0'}\n"
	digest := func(text string) string {
		t.Helper()
		cfg, _, err := Load("worker.yaml", []byte(text), func(string) (string, bool) { return "", false })
		require.NoError(t, err)
		d, err := cfg.Digest()
		require.NoError(t, err)
		require.Len(t, d, 2*digestBytes)
		return d
	}
	one := digest(head + "learners: {a: {payoffs: stochastic}, b: {payoffs: adversarial}}\n")
	require.Equal(t, one, digest(head+"learners: {b: {payoffs: adversarial}, a: {payoffs: stochastic, policy: moss}}\nlog: {level: debug}\n"))
	require.NotEqual(t, one, digest(head+"learners: {a: {payoffs: stochastic, policy: greedy}, b: {payoffs: adversarial}}\n"))
	require.NotEqual(t, one, digest(head+"learners: {a: {payoffs: stochastic}}\n"))
	require.NotEqual(t, one, digest(head+"learners: {a: {payoffs: stochastic}, c: {payoffs: adversarial}}\n"))
}
