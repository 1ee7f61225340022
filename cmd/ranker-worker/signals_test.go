package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignals_TheThird ends a process whose end hangs.
func TestSignals_TheThird(t *testing.T) {
	if os.Getenv("HANGS") != "" {
		cmd := verb(0, &cobra.Command{}, func(c *call) error {
			send := func() { assert.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM)) }
			drain, force, stop := signals(c.ctx, slog.New(slog.DiscardHandler))
			defer stop()
			send()
			<-drain.Done()
			send()
			<-force.Done()
			send()
			select {} // an end that hangs
		})
		cmd.SetContext(context.Background())
		require.NoError(t, cmd.RunE(cmd, nil))
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	self := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), "HANGS=1")
	ended, ok := errors.AsType[*exec.ExitError](self.Run())
	require.True(t, ok, "it ended as if nothing had come")
	require.Equal(t, syscall.SIGTERM, ended.Sys().(syscall.WaitStatus).Signal())
}

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
