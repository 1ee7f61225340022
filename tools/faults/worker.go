package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ranker-worker/ranker-worker/internal/failpoint"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

const logName = "worker.log"

// Worker is a slot for one worker process of a group, which dies and comes back.
type Worker struct {
	g      *Group
	slot   int
	listen string
	config string
	dir    string
	binary string                   // "": the cluster's
	edit   func(text string) string // of this worker's configuration only; nil: none

	mu      sync.Mutex
	process *proc.Process // the last one; nil before the first
	started int
}

func newWorker(g *Group, slot int) (*Worker, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, err
	}
	w := &Worker{g: g, slot: slot, listen: "127.0.0.1:" + strconv.Itoa(ports[0]),
		dir: filepath.Join(g.c.dir, fmt.Sprintf("%s-%d", g.Name, slot))}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a worker's directory: %w", err)
	}
	return w, w.configure()
}

func (w *Worker) configure() (err error) {
	text := w.g.text(w.g.c.bootstrap(w.slot), w.g.redis.section(w.slot), w.listen)
	if w.edit != nil {
		text = w.edit(text)
	}
	w.config, err = w.g.write(fmt.Sprintf("%s-%d.yaml", w.g.Name, w.slot), text)
	return err
}

// SetClock makes the worker's clock wrong from now on, whether a process runs or not; 0 corrects it.
func (w *Worker) SetClock(by time.Duration) error {
	next := w.clockFile() + ".next"
	if err := os.WriteFile(next, []byte(by.String()), 0o600); err != nil {
		return fmt.Errorf("set a worker's clock: %w", err)
	}
	if err := os.Rename(next, w.clockFile()); err != nil {
		return fmt.Errorf("set a worker's clock: %w", err)
	}
	return nil
}

func (w *Worker) clockFile() string { return filepath.Join(w.dir, "clock") }

func (w *Worker) Start() error { return w.StartWith("", nil) }

// StartWith starts the worker with failpoints and settings of package failpoint.
func (w *Worker) StartWith(points string, settings map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running() {
		return fmt.Errorf("worker %d of %s runs already", w.slot, w.g.Name)
	}
	all := map[string]string{"session_timeout": w.g.c.Session.String(), "clock_file": w.clockFile()}
	maps.Copy(all, settings)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	p, err := proc.Start(proc.Config{Name: fmt.Sprintf("worker %d of %s", w.slot, w.g.Name), Path: cmp.Or(w.binary, w.g.c.binary),
		Args: []string{"run", "--config", w.config}, Dir: w.dir, Log: logName, Env: []string{
			failpoint.PointsEnv + "=" + points, failpoint.SettingsEnv + "=" + strings.Join(list, ","), "GOMAXPROCS=2"}})
	if err != nil {
		return err
	}
	w.process = p
	w.started++
	return nil
}

// running is Running with mu held, for the last process.
func (w *Worker) running() bool {
	if w.process == nil {
		return false
	}
	select {
	case <-w.process.Done():
		return false
	default:
		return true
	}
}

// Running reports whether there is a process, frozen or not.
func (w *Worker) Running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running()
}

func (w *Worker) Kill() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return nil
	}
	return w.process.Kill()
}

// stopGrace bounds a drain, with leaving the group.
const stopGrace = 25 * time.Second

// Stop drains the worker (SIGTERM). A worker that must be killed is an error.
func (w *Worker) Stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running() {
		return nil
	}
	return w.process.Stop(stopGrace)
}

func (w *Worker) Pause() error { w.mu.Lock(); defer w.mu.Unlock(); return w.process.Pause() }

func (w *Worker) Resume() error { w.mu.Lock(); defer w.mu.Unlock(); return w.process.Resume() }

// Frozen reports whether the process is stopped, by us or by a failpoint.
func (w *Worker) Frozen() bool { return w.stat().State == "T" }

// Resident returns the process' memory in bytes; 0 without one.
func (w *Worker) Resident() int64 { return int64(w.stat().ResidentMemory()) }

// stat returns the kernel's statistics of the process; the zero value without one.
func (w *Worker) stat() procfs.ProcStat {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running() {
		return procfs.ProcStat{}
	}
	p, err := procfs.NewProc(w.process.PID())
	if err != nil {
		return procfs.ProcStat{}
	}
	stat, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}
	}
	return stat
}

var httpClient = &http.Client{Timeout: 2 * time.Second}

func (w *Worker) get(ctx context.Context, path string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.listen+path, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func (w *Worker) Ready(ctx context.Context) (bool, string) {
	status, body, err := w.get(ctx, "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return status == http.StatusOK, body
}

// AwaitReady waits until the worker works on all its partitions.
func (w *Worker) AwaitReady(ctx context.Context) error {
	text := ""
	err := until(ctx, time.Minute, "a worker is ready", func() (ok bool, err error) {
		ok, text = w.Ready(ctx)
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// AwaitUnready waits until /readyz gives this reason.
func (w *Worker) AwaitUnready(ctx context.Context, patience time.Duration, why string) error {
	text := ""
	err := until(ctx, patience, "/readyz says "+why, func() (bool, error) {
		var ok bool
		ok, text = w.Ready(ctx)
		return !ok && strings.Contains(text, why), nil
	})
	if err != nil {
		return fmt.Errorf("%w: it says %s", err, text)
	}
	return nil
}

// AwaitReported waits until the worker reports a wait in all ways: /readyz, the log, and a metric of partitions that wait
// or have stopped, or are not owned. Running partitions wait for the store; those taken over meanwhile stop, and retry.
func (w *Worker) AwaitReported(ctx context.Context, why, logged string) error {
	if err := w.AwaitUnready(ctx, 30*time.Second, why); err != nil {
		return err
	}
	metrics := regexp.MustCompile(`(?m)^ranker_(waiting_partitions [1-9]|stopped_partitions\{reason="[a-z_]+"\} [1-9]|partitions_assigned 0)`)
	return until(ctx, 30*time.Second, "log and metrics say "+why, func() (bool, error) {
		_, text, err := w.get(ctx, "/metrics")
		return metrics.MatchString(text) && strings.Contains(w.Log(1000), logged), err
	})
}

// crash matches the first line that Go's runtime writes when it ends a program, or that its race detector reports.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address |WARNING: DATA RACE)`)

// crashed returns a violation with the first crash in the logs of all the worker's processes.
func (w *Worker) crashed() error {
	log, err := os.ReadFile(filepath.Join(w.dir, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no process was started
	}
	if err != nil {
		return fmt.Errorf("read a worker's log: %w", err)
	}
	at := crash.FindIndex(log)
	if at == nil {
		return nil
	}
	return violated("worker %d of %s crashed: %s", w.slot, w.g.Name, log[at[0]:min(len(log), at[0]+4096)])
}

// Log returns the end of the worker's log.
func (w *Worker) Log(lines int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return ""
	}
	return w.process.Tail(lines)
}
