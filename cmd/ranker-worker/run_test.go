package main

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
)

// atWork is a worker that runs on an embedded pair, and listens on a free port.
type atWork struct {
	t      *testing.T
	errOut testworker.Log
	end    context.CancelFunc
	ended  chan int
}

// startWorker writes the configuration, with more as its last line, makes the topics, and starts the worker.
func startWorker(t *testing.T, more string) *atWork {
	t.Helper()
	env := testenv.Embedded(t)
	inFile(t, "worker.yaml", onPair(env)+more)
	made := run(t, "", "topics", "worker.yaml", "--create", "--partitions", "2")
	require.Equal(t, exitOK, made.code, made)
	w := &atWork{t: t, ended: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	w.end = cancel
	go func() {
		w.ended <- execute(ctx, []string{"run", "worker.yaml"}, strings.NewReader(""), &testworker.Log{}, &w.errOut)
	}()
	t.Cleanup(func() { w.stop() })
	return w
}

func onPair(env testenv.Env) string {
	return strings.NewReplacer("127.0.0.1:9092", env.Kafka, "redis://127.0.0.1:6379/0", env.RedisURL()).Replace(sound) +
		"http: {listen: '127.0.0.1:0'}\n"
}

// says waits until the worker has logged a text.
func (w *atWork) says(text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return strings.Contains(w.errOut.String(), text) }, 45*time.Second, 10*time.Millisecond, text)
}

// stop has the worker drain, and gives its exit code.
func (w *atWork) stop() int {
	w.end()
	code := <-w.ended
	w.ended <- code
	return code
}

// TestRunSaysWhatItIs and where it begins, and nothing that would worry anybody.
func TestRunSaysWhatItIs(t *testing.T) {
	w := startWorker(t, "")
	w.says("begins where kafka.start says")
	require.Equal(t, exitOK, w.stop(), w.errOut.String())
	_, banner, _ := strings.Cut(w.errOut.String(), "time=")
	banner, _, _ = strings.Cut(banner, "\n")
	for _, want := range []string{`msg="ranker-worker starts"`, "version=", "group=g", "brokers=127.0.0.1:", "redis=127.0.0.1:", "listens=127.0.0.1:",
		"older ones are skipped"} {
		assert.Contains(t, banner, want)
	}
	assert.Contains(t, w.errOut.String(), `partitions="[0 1]" skipped.impressions=0 skipped.selections=0 skipped.payoffs=0`)
	assert.NotContains(t, w.errOut.String(), "level=WARN")
	assert.NotContains(t, w.errOut.String(), "level=ERROR")
}

// TestHangupReloads: SIGHUP applies the settings that can change, names the others, and ends nothing, even if the
// file is faulty.
func TestHangupReloads(t *testing.T) {
	w := startWorker(t, "log: {level: info}\n")
	w.says("ranker-worker starts")
	file, err := os.ReadFile("worker.yaml")
	require.NoError(t, err)
	hangUp := func(text, says string) {
		t.Helper()
		require.NoError(t, os.WriteFile("worker.yaml", []byte(text), 0o600))
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		w.says(says)
	}
	hangUp("kafka: 1\n", "the configuration was not reloaded; the present one stays in force")
	changed := strings.NewReplacer("level: info", "level: debug", "silence: ages", "silence: at_once").Replace(string(file))
	hangUp(changed, "hold after a restart")
	assert.Contains(t, w.errOut.String(), `msg="the configuration was reloaded" log.level=debug`)
	assert.Contains(t, w.errOut.String(), "settings=[learners.feed.silence]")
	w.says("partition running") // else there is no group to leave
	require.Equal(t, exitOK, w.stop(), w.errOut.String())
	assert.Contains(t, w.errOut.String(), "level=DEBUG", "leaving the group is logged at this level")
}

// TestRunNamesAllMissingTopics and the command that makes them.
func TestRunNamesAllMissingTopics(t *testing.T) {
	inFile(t, "worker.yaml", onPair(testenv.Embedded(t)))
	got := run(t, "", "run", "worker.yaml")
	assert.Equal(t, exitFault, got.code)
	assert.Contains(t, got.errOut, "topics do not exist: impressions, impressions.dlq, selections, selections.dlq, payoffs, payoffs.dlq, rankings\n"+
		"Make them with: ranker-worker topics --config worker.yaml --create\n")
}

// TestAPortInUseIsNamedByItsSetting: of run, and of serve.
func TestAPortInUseIsNamedByItsSetting(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for command, section := range map[string]string{"run": "http", "serve": "serve"} {
		inFile(t, "worker.yaml", sound+section+": {listen: '"+taken.Addr().String()+"'}\n")
		got := run(t, "", command, "worker.yaml")
		assert.Equal(t, exitFault, got.code)
		assert.Contains(t, got.errOut, "worker.yaml:5: "+section+".listen: ")
		assert.Contains(t, got.errOut, "set another host:port")
	}
}
