package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// The configuration has the values given and passes lint, whatever the environment is.
func TestInit_WritesAConfigurationThatLintAccepts(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--horizon", "168h", "--range", "-5,100", "--unpaid", "-1"},
		{"--unpaid", "none", "--brokers", "a:9092,b:9092", "--group", "shop", "--redis", "redis://127.0.0.1:6379/3"},
	} {
		file := filepath.Join(t.TempDir(), "worker.yaml")
		got := run(t, "", append([]string{"init", "--output", file}, args...)...)
		require.Equal(t, 0, got.code, got.errOut)
		require.Contains(t, got.out, "topics --config "+file+" --create")
		cfg, _, err := config.LoadFile(file, func(string) (string, bool) { return "", false }, config.KafkaFiles, config.RedisFiles)
		require.NoError(t, err)
		require.Len(t, cfg.Learners, 1)
		got = run(t, "", "init", "--output", file)
		require.Equal(t, 1, got.code)
		require.Contains(t, got.errOut, "exists")
		got = run(t, "", "init", "--output", file, "--force")
		require.Equal(t, 0, got.code, got.errOut)
	}
}

func TestInit_RefusesValues(t *testing.T) {
	for _, args := range [][]string{{"--unpaid", "much"}, {"--horizon", "soon"}, {"--group", "a#b"}, {"--range", "1,0"}} {
		file := filepath.Join(t.TempDir(), "worker.yaml")
		got := run(t, "", append([]string{"init", "--output", file}, args...)...)
		require.Equal(t, 2, got.code, "%s: %s", args, got.errOut)
		require.NoFileExists(t, file)
	}
}

// On a terminal each value without a flag is asked for; an empty line takes the default, and the end of the input writes nothing.
func TestInit_Asks(t *testing.T) {
	cmd := newInitCommand()
	require.NoError(t, cmd.ParseFlags([]string{"--group", "shop"}))
	var asked bytes.Buffer
	cmd.SetErr(&asked)
	a := answersOf(cmd)
	require.NoError(t, ask(cmd, bytes.NewBufferString("k:9092\n\n24h\n0,10\n\n"), a))
	require.Equal(t, answers{Brokers: "k:9092", Group: "shop", Redis: "redis://127.0.0.1:6379/0", Horizon: "24h", Range: "0,10", Expiry: "0"}, *a)
	require.NotContains(t, asked.String(), "name of the group")
	require.ErrorContains(t, ask(cmd, bytes.NewBufferString("k:9092\n"), a), "nothing is written")
	_, err := os.Stat("worker.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// answersOf reads the flags' values.
func answersOf(cmd *cobra.Command) *answers {
	a := &answers{}
	for _, q := range questions {
		*q.of(a) = cmd.Flag(q.flag).Value.String()
	}
	return a
}
