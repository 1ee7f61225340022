// Package testworker runs workers in the process of a test.
package testworker

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// deadline bounds each wait; waits are usually much shorter.
const deadline = 2 * time.Minute

// Load writes a configuration file, and reads it as a worker does. Of the files that it names it checks those given.
func Load(t testing.TB, text string, env config.Env, files ...config.Files) (cfg *config.Config, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, _, err := config.LoadFile(file, env, files...)
	require.NoError(t, err)
	return cfg, file
}

// MakeTopics makes a group's topics, and waits until a worker finds no fault of them.
func MakeTopics(t testing.TB, cfg *config.Config, partitions int) {
	t.Helper()
	b, err := app.NewBroker(cfg)
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err = b.Create(ctx, broker.Spec{Partitions: partitions, Replication: 1})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a broker takes a moment to lead a new topic
		problems, err := b.Check(ctx)
		return err == nil && len(problems) == 0
	}, deadline, 20*time.Millisecond)
}

// Worker is a worker that runs until Stop, Kill or the test's end.
type Worker struct {
	*app.App
	Ended       <-chan error // has the error of Run, and is closed
	drain, kill context.CancelFunc
}

// Start starts a worker. Its session timeout is 6 s by default.
func Start(t testing.TB, cfg *config.Config, opt app.Options) *Worker {
	t.Helper()
	opt.SessionTimeout = cmp.Or(opt.SessionTimeout, 6*time.Second)
	a, err := app.New(cfg, opt)
	require.NoError(t, err)
	draining, drain := context.WithCancel(context.Background())
	forced, kill := context.WithCancel(context.Background())
	t.Cleanup(kill)
	ended := make(chan error, 1)
	go func() {
		ended <- a.Run(draining, forced)
		close(ended)
	}()
	return &Worker{a, ended, drain, kill}
}

// Stop drains the worker.
func (w *Worker) Stop(t testing.TB) {
	t.Helper()
	w.drain()
	require.NoError(t, w.end(t))
}

// Kill ends the worker where it is: nothing is finished, and nothing saved. It returns the error of Run.
func (w *Worker) Kill(t testing.TB) error {
	t.Helper()
	w.kill()
	w.drain()
	return w.end(t)
}

func (w *Worker) end(t testing.TB) (err error) {
	t.Helper()
	select {
	case err = <-w.Ended:
	case <-time.After(deadline):
		t.Fatal("the worker did not end")
	}
	return err
}

// Log collects the lines of goroutines or processes.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
