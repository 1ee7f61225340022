package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type child struct {
	name string
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
	err  error
}

func (b *bench) start(ctx context.Context, name string, args ...string) (*child, error) {
	return launch(name, exec.CommandContext(ctx, filepath.Join(b.dir, name), args...))
}

func launch(name string, cmd *exec.Cmd) (*child, error) {
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

const stopGrace = 30 * time.Second

func (c *child) stop() error {
	select {
	case <-c.done:
		return c.died()
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.done:
	case <-time.After(stopGrace):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	if c.err != nil {
		return c.died()
	}
	return nil
}

func (c *child) died() error {
	return fmt.Errorf("%s: %w (%v):\n%s", c.name, errDied, c.err, c.log.String())
}

// clockTick is the unit of CPU times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuTime returns a process's CPU time, user and system; 0 if unknown.
func cpuTime(pid int) time.Duration {
	if pid <= 0 {
		return 0
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything; numbers follow the last one.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

// peakResident returns a process's peak resident memory in bytes; 0 if unknown.
func peakResident(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	return highWater(string(b))
}

// highWater reads the peak resident memory from the text of /proc/PID/status, in bytes; 0 if missing, as for a zombie.
func highWater(status string) int64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kilobytes << 10
		}
	}
	return 0
}

// loadAverage returns that of the last minute; 0 if unknown.
func loadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
