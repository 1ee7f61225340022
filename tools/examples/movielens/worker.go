package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

const (
	workerPackage = "github.com/ranker-worker/ranker-worker/cmd/ranker-worker"
	learner       = "films"

	readyTimeout = time.Minute
	startTries   = 3
	stopGrace    = 45 * time.Second // a worker drains within a third of its rebalance timeout of 30 s, and then leaves
	logLines     = 30
)

// configuration is the worker's file. Records carry the present real time, so nothing expires in a run.
const configuration = `# Written by tools/examples/movielens, for one run.
kafka:
  brokers: [%q]
  group: %s
  start: earliest
  topics: {impressions: %[2]s-impressions, selections: %[2]s-selections, payoffs: %[2]s-payoffs, rankings: %[2]s-rankings}
redis: {url: "redis://%[3]s/0"}
http: {listen: %[4]q, pprof: true}
log: {level: info, format: json}
learners:
  %[5]s:
    payoffs: stochastic
    policy: %[6]s
    payoff_horizon: 720h
    selection_timeout: 24h
    seed: %[7]d
`

// features is the learner's part on films, in the order of data.Film's Features.
func features() string {
	all := []string{"{name: age, range: [0, 1]}"}
	for _, genre := range data.Genres {
		all = append(all, strings.ToLower(strings.ReplaceAll(genre, "'", "")))
	}
	return "    context: {item: [" + strings.Join(all, ", ") + "]}\n"
}

func build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "ranker-worker")
	if out, err := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", path, workerPackage).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the worker (in a checkout of the repository): %w\n%s", err, out)
	}
	return path, nil
}

func writeConfiguration(dir string, opt *options, group, policy, listen string) (string, error) {
	file := filepath.Join(dir, "worker.yaml")
	text := fmt.Sprintf(configuration, opt.kafka, group, opt.redis, listen, learner, policy, opt.seed)
	if opt.personal {
		text += features()
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing the worker's configuration: %w", err)
	}
	return file, nil
}

type worker struct {
	process *proc.Process
	url     string
	client  *http.Client
}

// startWorker starts the binary with a configuration in dir, and waits until all partitions are active.
func startWorker(ctx context.Context, binary, dir string, opt *options, group, policy string) (*worker, error) {
	var failed error
	for range startTries {
		w, err := tryWorker(ctx, binary, dir, opt, group, policy)
		if err == nil {
			return w, nil
		}
		failed = err
		// Only a port that was taken meanwhile is worth another try.
		if !errors.Is(err, proc.ErrExited) || ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func tryWorker(ctx context.Context, binary, dir string, opt *options, group, policy string) (*worker, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, err
	}
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	file, err := writeConfiguration(dir, opt, group, policy, listen)
	if err != nil {
		return nil, err
	}
	p, err := proc.Start(proc.Config{Name: "ranker-worker", Path: binary, Args: []string{"run", "--config", file}, Dir: dir,
		Log: "worker.log"})
	if err != nil {
		return nil, err
	}
	w := &worker{process: p, url: "http://" + listen, client: &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.AwaitReady(ctx, func(ctx context.Context) error { return w.ready(ctx, opt.partitions) }); err != nil {
		return nil, errors.Join(err, w.kill())
	}
	return w, nil
}

// ready asks the worker whether it owns all partitions: the gauge has one line for each.
func (w *worker) ready(ctx context.Context, partitions int) error {
	if _, err := w.get(ctx, "/readyz"); err != nil {
		return err
	}
	metrics, err := w.get(ctx, "/metrics")
	if owned := strings.Count(metrics, "\nranker_on_hold{"); err == nil && owned < partitions {
		err = fmt.Errorf("it works on %d of %d partitions", owned, partitions)
	}
	return err
}

// maxAnswer bounds the worker's answers: /metrics has some 50 kB.
const maxAnswer = 8 << 20

func (w *worker) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return "", err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", path, res.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

func (w *worker) ended() error {
	return fmt.Errorf("the worker ended early: %v; its log ends with:\n%s", w.process.State(), w.process.Tail(logLines))
}

// stop drains the worker (SIGTERM), and returns its CPU time. An exit status other than 0 is an error.
func (w *worker) stop() (cpu time.Duration, err error) {
	defer w.client.CloseIdleConnections()
	if err := w.process.Stop(stopGrace); err != nil {
		return 0, err
	}
	state := w.process.State()
	if !state.Success() {
		return 0, fmt.Errorf("the worker received the signal to stop and ended with: %v; its log ends with:\n%s", state, w.process.Tail(logLines))
	}
	return state.UserTime() + state.SystemTime(), nil
}

// end ends a worker whose run has failed, or that has ended. If possible it lets the worker leave the group, so that the group can be
// removed.
func (w *worker) end() error {
	select {
	case <-w.process.Done():
	default:
		if _, err := w.stop(); err == nil {
			return nil
		}
	}
	return w.kill()
}

func (w *worker) kill() error {
	w.client.CloseIdleConnections()
	return w.process.Kill()
}
