package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
)

// TestKill_TwoWorkersOneKilledAndRestarted: two worker processes share six partitions; one is killed with SIGKILL in
// mid-stream and started again. No impression stays without a ranking, none has two, and no payoff is lost or applied
// twice.
func TestKill_TwoWorkersOneKilledAndRestarted(t *testing.T) {
	t.Parallel()
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka and a real redis-server", testenv.ShortEnv)
	}
	const impressions = 20_000
	w := newWorld(t, testenv.Real(t), 6, "policy: elimination")
	binary := build(t)
	steady := w.spawn(t, binary, "steady")
	victim := w.spawn(t, binary, "victim")
	reached := map[int]chan struct{}{impressions / 4: make(chan struct{}), impressions / 2: make(chan struct{})}
	players, done := w.play(t, impressions, 5, func(p platform.Progress) {
		for n, c := range reached {
			if p.Rankings >= n {
				close(c)
				delete(reached, n)
			}
		}
	})
	quarter, half := reached[impressions/4], reached[impressions/2]
	w.reach(t, quarter, done)
	victim.kill(t)
	again := w.spawn(t, binary, "again")
	w.reach(t, half, done)
	require.NoError(t, <-done)
	got := w.await(t, players.sent)
	again.stop(t)
	steady.stop(t)
	checkAccount(t, got, players.sent)
	w.ranked(t, impressions)
	w.replayed(t, impressions, impressions/10)
	t.Logf("adopted %d decisions of the killed worker", got["impressions.adopted"])
}

// reach waits until the play has come to a point. done is closed with the play's end.
func (w *world) reach(t *testing.T, point <-chan struct{}, done <-chan error) {
	t.Helper()
	select {
	case <-point:
	case err := <-done: // both may be there at once
		require.NoError(t, err)
		select {
		case <-point:
		default:
			t.Fatal("the play ended early")
		}
	case <-time.After(deadline):
		t.Fatal("the play does not go on")
	}
}

var (
	buildOnce sync.Once
	buildPath string
	buildErr  error
)

// build builds the worker's binary, once per test run.
func build(t *testing.T) string {
	t.Helper()
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "ranker-e2e-")
		if err != nil {
			buildErr = err
			return
		}
		buildPath = filepath.Join(dir, "ranker-worker")
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", buildPath, "github.com/ranker-worker/ranker-worker/cmd/ranker-worker")
		if out, err := cmd.CombinedOutput(); err != nil {
			buildErr = &exec.Error{Name: string(out), Err: err}
		}
	})
	require.NoError(t, buildErr)
	return buildPath
}

// process is a worker of its own.
type process struct {
	cmd   *exec.Cmd
	name  string
	log   *testworker.Log
	ended chan struct{}
}

// spawn starts a worker with further variables in its environment.
func (w *world) spawn(t *testing.T, binary, name string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, "run", "--config", w.file), name: name, log: &testworker.Log{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append(os.Environ(), env...)
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of worker %s:\n%s", name, p.log)
		}
	})
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	<-p.ended
}

// stop sends SIGTERM and waits for a clean end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(deadline):
		t.Fatalf("worker %s did not drain", p.name)
	}
	require.True(t, p.cmd.ProcessState.Success(), "worker %s: %v", p.name, p.cmd.ProcessState)
}
