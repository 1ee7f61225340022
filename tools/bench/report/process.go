package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

type child struct {
	name string
	cmd  *exec.Cmd
	log  bytes.Buffer
	ends bool // by itself
	done chan struct{}
	err  error
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

// stop ends a program, or waits for its end if it ends by itself.
func (c *child) stop() error {
	if !c.ends {
		select {
		case <-c.done:
			return c.died()
		default:
		}
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", c.name, err)
		}
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

// cpuTime returns a process's CPU time, user and system; 0 if unknown.
func cpuTime(pid int) time.Duration {
	p, err := procfs.NewProc(pid)
	if pid <= 0 || err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// peakResident returns a process's peak resident memory in bytes; 0 if unknown, as for a zombie.
func peakResident(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.VmHWM)
}

// loadAverage returns that of the last minute; 0 if unknown.
func loadAverage() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return 0
	}
	return load.Load1
}
