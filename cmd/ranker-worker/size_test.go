package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSizeIsWhatThePageShows: the example of docs/do/size.md is the command's output.
func TestSizeIsWhatThePageShows(t *testing.T) {
	page, err := os.ReadFile("../../docs/do/size.md")
	require.NoError(t, err)
	const command = "ranker-worker size --rate 1000 --selected 5% --horizon 7d --items 200000"
	_, shown, found := strings.Cut(string(page), "\n$ "+command+"\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	got := run(t, "", strings.Fields(command)[1:]...)
	assert.Zero(t, got.code, got.errOut)
	assert.Equal(t, got.out, shown)
}

// TestSizeOfAConfiguration: a configuration's settings count, and flags override them.
func TestSizeOfAConfiguration(t *testing.T) {
	const two = `kafka: {brokers: ['127.0.0.1:9092'], group: g}
redis: {url: 'redis://127.0.0.1:6379/0'}
learners:
  feed: {payoffs: stochastic, payoff_horizon: 48h, selection_timeout: 10m, default: true}
  front: {payoffs: adversarial, payoff_horizon: 24h}
`
	inFile(t, "worker.yaml", two)
	got := run(t, "", "size", "-c", "worker.yaml")
	assert.Zero(t, got.code, got.errOut)
	assert.Contains(t, got.out, "paid, after 24h\nhorizon 48h, selection timeout 10m, ")
	got = run(t, "", "size", "-c", "worker.yaml", "--horizon", "12h", "--paid-after", "1h")
	assert.Contains(t, got.out, "paid, after 1h\nhorizon 12h, selection timeout 10m, ")
	front := run(t, "", "size", "-c", "worker.yaml", "--learner", "front", "--remember", "1d")
	assert.Contains(t, front.out, "horizon 24h, selection timeout 30m, remembered for 24h; ")
	assert.NotEqual(t, got.out, front.out)
	assert.Contains(t, got.out, "remembered for 24h; ")
	inFile(t, "long.yaml", two+"join: {remember: 3d}\n")
	assert.Contains(t, run(t, "", "size", "-c", "long.yaml").out, "remembered for 72h; ")
	assert.Contains(t, run(t, "", "size", "-c", "long.yaml", "--remember", "horizon").out, "remembered until the payoff deadline and 1h after it; ")
	without := run(t, "", "size", "--policy", "robust", "--horizon", "24h", "--remember", "24h")
	assert.Equal(t, front.out, without.out, "the same learner, by flags")
}

// TestSizeRefuses: all invalid flags are named.
func TestSizeRefuses(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	for _, args := range [][]string{{"--rate", "0"}, {"--selected", "105%"}, {"--id", "long"}, {"--remember", "soon"}, {"--remember", "1s"}, {"--horizon", "x"},
		{"--policy", "best"}, {"--policy", "moss", "-c", "worker.yaml"}, {"-c", "worker.yaml", "--learner", "none"}, {"--workers", "7"}, {"more"}} {
		got := run(t, "", append([]string{"size"}, args...)...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Empty(t, got.out, args)
		assert.Contains(t, got.errOut, "--help'.\n", args)
	}
	got := run(t, "", "size", "--rate", "-1", "--workers", "7")
	assert.Contains(t, got.errOut, "a rate of -1")
	assert.Contains(t, got.errOut, "7 workers")
}
