package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
)

// serving is a `serve` on an embedded pair, which listens on a free port.
type serving struct {
	atWork
	url   string
	token string
}

// startServe writes the configuration, whose section serve has more settings, makes the topics, and starts `serve`.
func startServe(t *testing.T, more string) *serving {
	t.Helper()
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	inFile(t, "worker.yaml", onPair(testenv.Embedded(t))+fmt.Sprintf("log: {level: info}\nserve: {listen: '127.0.0.1:%d', timeout: 10s%s}\n", ports[0], more))
	made := run(t, "", "topics", "worker.yaml", "--create", "--partitions", "2")
	require.Equal(t, exitOK, made.code, made)
	s := &serving{atWork: atWork{t: t, ended: make(chan int, 1)}, url: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	if more != "" {
		require.NoError(t, os.WriteFile("tokens", []byte("shop 0123456789abcdef\n"), 0o600))
		s.token = "0123456789abcdef"
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.end = cancel
	go func() {
		s.ended <- execute(ctx, []string{"serve", "worker.yaml"}, strings.NewReader(""), &testworker.Log{}, &s.errOut)
	}()
	t.Cleanup(func() { s.stop() })
	s.says("ranker-worker serves")
	require.Eventually(t, func() bool { return run(t, "", "health", "--serve", "worker.yaml").code == exitOK }, 45*time.Second, 10*time.Millisecond)
	return s
}

// post sends a record, and gives the answer; status 0: there was none.
func (s *serving) post(path, body string) (status int, answer string) {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(said)
}

const payoff = `{"impression_id":"i","payoff":1}`

// TestServeStarts: serve logs its addresses, takes records, and is healthy for `health` until it ends.
func TestServeStarts(t *testing.T) {
	s := startServe(t, "")
	status, answer := s.post("/v1/payoffs", payoff)
	require.Equal(t, http.StatusAccepted, status, answer)
	for _, want := range []string{"version=", "group=g", "listens=127.0.0.1:", "tls=false", "tokens=false"} {
		assert.Contains(t, s.errOut.String(), want)
	}
	assert.Equal(t, exitOK, run(t, "", "health", "--serve", "--live", "worker.yaml").code)
	require.Equal(t, exitOK, s.stop(), s.errOut.String())
	got := run(t, "", "health", "--serve", "worker.yaml")
	assert.Equal(t, exitFault, got.code)
	assert.Contains(t, got.errOut, "no server listens at http:")
	assert.NotContains(t, s.errOut.String(), "level=ERROR")
}

// TestServeDrainsAtSIGTERM: requests from before the signal are answered, by a worker that starts only then.
func TestServeDrainsAtSIGTERM(t *testing.T) {
	s := startServe(t, ", concurrency: 1, tokens_file: tokens")
	type reply struct {
		status int
		body   string
	}
	answered := make(chan reply, 1)
	go func() {
		for { // it has to be the one request that is under way
			status, body := s.post("/v1/rank", `{"impression_id":"i","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`)
			if status != http.StatusServiceUnavailable {
				answered <- reply{status, body}
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		status, _ := s.post("/v1/payoffs", payoff)
		return status == http.StatusServiceUnavailable
	},
		45*time.Second, time.Millisecond)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	s.says(`msg="draining; a second signal stops at once" signal=terminated`)
	worker := atWork{t: t, ended: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	worker.end = cancel
	go func() {
		worker.ended <- execute(ctx, []string{"run", "worker.yaml"}, strings.NewReader(""), &testworker.Log{}, &worker.errOut)
	}()
	t.Cleanup(func() { worker.stop() })
	got := <-answered
	assert.Equal(t, http.StatusOK, got.status, got.body)
	assert.Contains(t, got.body, `"items":["b","a"]`)
	require.Equal(t, exitOK, <-s.ended, s.errOut.String())
	s.ended <- exitOK
	status, said := s.post("/v1/payoffs", payoff)
	assert.Zero(t, status, said)
}

// TestServeTakesOverAtSIGHUP: the tokens and the log's level change, and settings that need a restart are named.
func TestServeTakesOverAtSIGHUP(t *testing.T) {
	s := startServe(t, ", tokens_file: tokens")
	file, err := os.ReadFile("worker.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("tokens", []byte("shop 00112233445566778899\n"), 0o600))
	changed := strings.NewReplacer("level: info", "level: debug", "timeout: 10s", "timeout: 1s").Replace(string(file))
	require.NoError(t, os.WriteFile("worker.yaml", []byte(changed), 0o600))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	s.says("hold after a restart")
	assert.Contains(t, s.errOut.String(), `msg="the configuration was reloaded" log.level=debug`)
	assert.Contains(t, s.errOut.String(), "settings=[serve.timeout]")
	assert.Contains(t, s.errOut.String(), "the tokens were reloaded")
	status, answer := s.post("/v1/payoffs", payoff)
	assert.Equal(t, http.StatusUnauthorized, status, answer)
	s.token = "00112233445566778899"
	status, answer = s.post("/v1/payoffs", payoff)
	assert.Equal(t, http.StatusAccepted, status, answer)
	require.Equal(t, exitOK, s.stop(), s.errOut.String())
}
