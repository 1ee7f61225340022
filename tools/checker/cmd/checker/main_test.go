package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/broker"

	"github.com/ranker-worker/ranker-worker/config"
)

// TestStatusShowsTheResult: 0 where there is no violation, 1 where there is one, 2 where nothing could be checked.
func TestStatusShowsTheResult(t *testing.T) {
	env := testenv.Embedded(t)
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kafka: {brokers: ["+env.Kafka+"], group: g}\nredis: {url: \""+env.RedisURL()+
		"\"}\nlearners: {feed: {payoffs: stochastic}}\n"), 0o600))
	cfg, _, err := config.LoadFile(file, os.LookupEnv)
	require.NoError(t, err)
	b, err := app.NewBroker(cfg)
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Create(t.Context(), broker.Spec{Partitions: 2, Replication: 1})
	require.NoError(t, err)

	status, err := run(t.Context(), []string{"-config", file})
	require.NoError(t, err)
	require.Equal(t, statusOK, status)

	env.Mini.HSet("{g:1}:meta", "token", "t", "layout", "1") // most is missing
	status, err = run(t.Context(), []string{"-config", file, "-json", "-partitions", "1"})
	require.NoError(t, err)
	require.Equal(t, statusViolated, status)
	status, err = run(t.Context(), []string{"-config", file, "-partitions", "0"})
	require.NoError(t, err)
	require.Equal(t, statusOK, status)

	for _, args := range [][]string{{}, {"-config", "missing.yaml"}, {"-config", file, "-partitions", "x"}, {"-config", file, "more"}, {"-lag", "x"}} {
		status, err := run(t.Context(), args)
		require.Error(t, err)
		require.Equal(t, statusUnchecked, status)
	}
	_, err = run(t.Context(), []string{"-h"})
	require.True(t, errors.Is(err, flag.ErrHelp))

	stopped, stop := context.WithCancel(t.Context())
	stop()
	status, err = run(stopped, []string{"-config", file, "-watch", "1ms"})
	require.NoError(t, err)
	require.Equal(t, statusOK, status)
}
