package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestSignals_DuringTheStart: a SIGTERM that comes before a worker is put together ends it. A worker that missed it would run until it is killed.
func TestSignals_DuringTheStart(t *testing.T) {
	cmd := verb(0, &cobra.Command{}, func(c *call) error {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-c.ctx.Done()
		drain, force, stop := signals(c.ctx, slog.New(slog.DiscardHandler))
		defer stop()
		select {
		case <-drain.Done():
		case <-time.After(time.Minute):
			t.Error("the worker does not drain")
		}
		require.NoError(t, force.Err())
		return nil
	})
	cmd.SetArgs(nil)
	cmd.SetContext(context.Background())
	require.NoError(t, cmd.RunE(cmd, nil))
}
