//go:build unix

package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// deadline of every wait in these tests.
const deadline = time.Minute

func shell(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(proc.Config{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir(), Log: "script.log",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

// lineProbe is ready when the log holds the line.
func lineProbe(p *proc.Process, line string) func(context.Context) error {
	return func(context.Context) error {
		if !strings.Contains(p.Tail(100), line) {
			return errors.New("no such line")
		}
		return nil
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, deadline, 5*time.Millisecond, what)
}

func TestStopEndsInAnOrderlyWay(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	require.NoError(t, p.AwaitReady(ctx, lineProbe(p, "up")))
	require.Nil(t, p.State(), "it has not ended")
	require.NoError(t, p.Stop(deadline))
	require.Zero(t, p.State().ExitCode())
	require.Regexp(t, `(?s)^up\n.*bye$`, p.Tail(5), "some shells say in between that their sleep was ended too")
	require.ErrorIs(t, p.Stop(deadline), proc.ErrExited, "to stop what is gone is an error: nobody meant that")
	require.NoError(t, p.Kill())
}

func TestStopKillsAfterItsGraceAndSaysSo(t *testing.T) {
	p := shell(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	require.NoError(t, p.AwaitReady(ctx, lineProbe(p, "up")))
	require.ErrorContains(t, p.Stop(50*time.Millisecond), "killed")
	<-p.Done()
}

func TestPausedProcessCanBeStopped(t *testing.T) {
	p := shell(t, `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	require.NoError(t, p.AwaitReady(ctx, lineProbe(p, "up")))
	require.NoError(t, p.Pause())
	require.NoError(t, p.Stop(deadline))
}

func TestErrorOfAwaitReadyCarriesTheLog(t *testing.T) {
	p := shell(t, `for i in 1 2 3 4 5; do echo line $i; done; exit 3`)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	err := p.AwaitReady(ctx, func(context.Context) error { return errors.New("nobody there") })
	require.ErrorIs(t, err, proc.ErrExited)
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "line 5")

	q := shell(t, `echo thinking; sleep 60`)
	await(t, "the script has written", func() bool { return q.Tail(1) == "thinking" })
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = q.AwaitReady(short, func(context.Context) error { return errors.New("nobody there") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "nobody there")
	require.ErrorContains(t, err, "thinking")
}

func TestTailIsBounded(t *testing.T) {
	p := shell(t, `i=0; while [ $i -lt 5000 ]; do echo "line $i"; i=$((i+1)); done`)
	<-p.Done()
	require.Equal(t, "line 4997\nline 4998\nline 4999", p.Tail(3))
	require.Less(t, len(p.Tail(1_000_000)), 17<<10)
}

func TestMissingExecutableIsAnError(t *testing.T) {
	_, err := proc.Start(proc.Config{Name: "nothing", Path: "/does/not/exist", Dir: t.TempDir(), Log: "l"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestFreePortsAreFreeAndDistinct(t *testing.T) {
	ports, err := proc.FreePorts(20)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range ports {
		require.False(t, seen[port])
		seen[port] = true
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
	}
}

// gone reports whether a process has ended. In a container whose first process waits for nobody, one that has ended
// stays as a zombie.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux: pid (name) state …
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestServerEndsWithItsOwner has a second process of this test binary start a server, and end in every way that a
// test can end. The server and its directory must be gone soon after.
func TestServerEndsWithItsOwner(t *testing.T) {
	for _, way := range []string{"kill", "panic", "exit"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "server")
			require.NoError(t, os.Mkdir(dir, 0o700))
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			owner := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOwnerProcess$")
			owner.Env = append(os.Environ(), "PROC_TEST_DIR="+dir, "PROC_TEST_WAY="+way)
			out, err := owner.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, owner.Start())
			var pid int
			for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
				_, _ = fmt.Sscanf(lines.Text(), "server %d", &pid)
			}
			require.NotZero(t, pid, "the owner said which process it started")
			if way == "kill" {
				require.NoError(t, owner.Process.Kill())
			}
			require.Error(t, owner.Wait())
			await(t, "the server is gone", func() bool { return gone(pid) })
			await(t, "its directory is gone", func() bool {
				_, err := os.Stat(dir)
				return errors.Is(err, os.ErrNotExist)
			})
		})
	}
}

// TestOwnerProcess is the owner of TestServerEndsWithItsOwner; it does nothing when it runs as a test.
func TestOwnerProcess(t *testing.T) {
	dir := os.Getenv("PROC_TEST_DIR")
	if dir == "" {
		return
	}
	p, err := proc.Start(proc.Config{
		Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM HUP INT; while :; do sleep 1; done"},
		Dir: dir, Log: "log", RemoveDir: true,
	})
	require.NoError(t, err)
	fmt.Printf("server %d\n", p.PID())
	switch os.Getenv("PROC_TEST_WAY") {
	case "panic":
		panic("as a test may")
	case "exit":
		os.Exit(7)
	default:
		select {} // until we are killed
	}
}
