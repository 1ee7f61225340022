package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

var ErrExited = errors.New("the process ended")

type Config struct {
	Name string   // for messages: "Apache Kafka", "redis-server"
	Path string   // the executable
	Args []string // without the executable's own name
	Env  []string // added to ours
	Dir  string   // working directory; the log goes to NAME.log in it
	Log  string   // file name of the log in Dir; standard output and error are appended to it

	// RemoveDir lets the reaper remove Dir if this process ends before Stop or Kill.
	RemoveDir bool
}

type Process struct {
	cfg    Config
	cmd    *exec.Cmd
	reaper *reaper
	done   chan struct{} // closed when the server has ended and was waited for
	err    error         // how it ended; read after done
}

// Start returns as soon as the process exists; AwaitReady waits until it answers.
func Start(cfg Config) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(cfg.Dir, cfg.Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", cfg.Name, err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Dir = cfg.Dir
	cmd.Env = append(os.Environ(), cfg.Env...)
	cmd.Stdout, cmd.Stderr = log, log // files, so that exec needs no goroutines to copy
	setAttributes(cmd)

	p := &Process{cfg: cfg, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Name, err)
	}
	return p, nil
}

// own starts the server and waits for it, on one thread that lives as long as the server. Pdeathsig fires when the
// thread that started the child ends, and Go ends threads at any time.
func (p *Process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	dir := ""
	if p.cfg.RemoveDir {
		dir = p.cfg.Dir
	}
	reaper, err := startReaper(p.cmd.Process.Pid, dir)
	if err != nil {
		_ = signalGroup(p.cmd, sigKill)
		_ = p.cmd.Wait()
		started <- err
		return
	}
	p.reaper = reaper
	started <- nil
	p.err = p.cmd.Wait()
	reaper.forget() // before anyone can learn that the process id is free again
	close(p.done)
}

func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) Done() <-chan struct{} { return p.done }

// State returns the server's exit code and resource usage; nil until Done is closed.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

func (p *Process) LogPath() string { return filepath.Join(p.cfg.Dir, p.cfg.Log) }

// AwaitReady calls probe until it returns nil, the process ends, or ctx is done. The error carries the last lines of the server's log.
func (p *Process) AwaitReady(ctx context.Context, probe func(context.Context) error) error {
	last := errors.New("not asked yet")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // if ctx ended an attempt, the previous error says more
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s: %w (%v) before it answered; its log ends with:\n%s",
				p.cfg.Name, ErrExited, p.err, p.Tail(20))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w (last attempt: %v); its log ends with:\n%s",
				p.cfg.Name, ctx.Err(), last, p.Tail(20))
		case <-tick.C:
		}
	}
}

// Stop ends the server (SIGTERM), kills it after grace, and returns when the process is gone. It fails if the server ended before, or had
// to be killed.
func (p *Process) Stop(grace time.Duration) error {
	select {
	case <-p.done:
		return fmt.Errorf("stop %s: %w before (%v); its log ends with:\n%s", p.cfg.Name, ErrExited, p.err, p.Tail(20))
	default:
	}
	// A paused process would not see the signal.
	if err := errors.Join(signalGroup(p.cmd, sigCont), signalGroup(p.cmd, sigTerm)); err != nil {
		return fmt.Errorf("stop %s: %w", p.cfg.Name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	err := p.Kill()
	return errors.Join(fmt.Errorf("stop %s: still there after %v, killed", p.cfg.Name, grace), err)
}

// Kill ends the server at once (SIGKILL) and returns when it is gone. Killing an ended one is no error.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := signalGroup(p.cmd, sigKill); err != nil {
		return fmt.Errorf("kill %s: %w", p.cfg.Name, err)
	}
	<-p.done // bounded: nothing survives SIGKILL
	return nil
}

// Pause freezes the server (SIGSTOP): connections stay open without answers, as with a dead network.
func (p *Process) Pause() error { return p.signal("pause", sigStop) }

func (p *Process) Resume() error { return p.signal("resume", sigCont) }

func (p *Process) signal(what string, sig signal) error {
	select {
	case <-p.done:
		return fmt.Errorf("%s %s: %w", what, p.cfg.Name, ErrExited)
	default:
	}
	if err := signalGroup(p.cmd, sig); err != nil {
		return fmt.Errorf("%s %s: %w", what, p.cfg.Name, err)
	}
	return nil
}

// tailBytes bounds the part of a log read for its tail.
const tailBytes = 16 << 10

// Tail returns the last lines of the server's log, for messages.
func (p *Process) Tail(lines int) string {
	f, err := os.Open(p.LogPath())
	if err != nil {
		return "(" + err.Error() + ")"
	}
	defer func() { _ = f.Close() }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "(empty)"
	}
	all := bytes.Split(text, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
