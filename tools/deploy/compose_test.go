package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// patience bounds each wait.
const patience = 2 * time.Minute

// byHand starts this program's services of compose.yaml, with their commands and configuration, beside a Kafka and a Redis of its own, on
// other ports.
type byHand struct {
	binary, dir string
	env         []string
}

// run runs a command to its end.
func (h *byHand) run(args ...string) (string, error) {
	cmd := exec.Command(h.binary, args...)
	cmd.Dir, cmd.Env = h.dir, append(os.Environ(), h.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// up starts a service, and waits until its health check succeeds.
func (h *byHand) up(t *testing.T, name string, command, check []string) {
	t.Helper()
	p, err := proc.Start(proc.Config{Name: name, Path: h.binary, Args: command, Env: h.env, Dir: h.dir, Log: name + ".log"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(patience), p.Tail(20)) })
	require.Eventually(t, func() bool { _, err := h.run(check...); return err == nil }, patience, 50*time.Millisecond, name)
}

// protect gives a Redis a password.
func protect(t *testing.T, address, password string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	require.NoError(t, client.ConfigSet(t.Context(), "requirepass", password).Err())
	require.NoError(t, client.Close())
}

// TestComposeAnswersTheFirstCurl: the README's steps after `docker compose up` work, with the services' own commands, configuration and
// health checks.
func TestComposeAnswersTheFirstCurl(t *testing.T) {
	p := project(t)
	kafka, server := testenv.OwnKafka(t), testenv.OwnRedis(t)
	password := *p.Services["worker"].Environment["REDIS_PASSWORD"]
	protect(t, server.Addr, password)
	dir := t.TempDir()
	ports, err := proc.FreePorts(2)
	require.NoError(t, err)
	file := read(t, p.Configs["worker"].File)
	require.Contains(t, file, "listen: 0.0.0.0:9108")
	file = strings.Replace(file, "listen: 0.0.0.0:9108", fmt.Sprintf("listen: 127.0.0.1:%d", ports[0]), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(file), 0o600))
	h := &byHand{binary: filepath.Join(dir, "ranker-worker"), dir: dir, env: []string{"KAFKA_BROKERS=" + kafka.Addr,
		"REDIS_URL=redis://" + server.Addr + "/0", "REDIS_PASSWORD=" + password, fmt.Sprintf("SERVE_LISTEN=127.0.0.1:%d", ports[1])}}
	built, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", h.binary, "github.com/ranker-worker/ranker-worker/cmd/ranker-worker").CombinedOutput()
	require.NoError(t, err, string(built))

	here := func(command []string) (args []string) { // the configuration's path is another
		for _, arg := range command {
			args = append(args, strings.Replace(arg, configPath, "config.yaml", 1))
		}
		return args
	}
	check := func(service string) []string {
		test := p.Services[service].HealthCheck.Test
		require.Equal(t, []string{"CMD", "/usr/local/bin/ranker-worker"}, []string(test[:2]))
		return here(test[2:])
	}
	said, err := h.run(here(p.Services["topics"].Command)...)
	require.NoError(t, err, said)
	h.up(t, "worker", []string{"run", "--config", "config.yaml"}, check("worker"))
	h.up(t, "serve", here(p.Services["serve"].Command), check("serve"))

	require.Contains(t, read(t, "README.md"), fmt.Sprintf("http://127.0.0.1:%s", p.Services["serve"].Ports[0].Published))
	curls := regexp.MustCompile(`curl --json '([^']+)' http://127\.0\.0\.1:\d+(/v1/\w+)`).FindAllStringSubmatch(read(t, "../README.md"), -1)
	require.Len(t, curls, 2)
	ask := func(curl []string) (int, string) {
		res, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d%s", ports[1], curl[2]), "application/json", strings.NewReader(curl[1]))
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	require.Eventually(t, func() bool { // a busy machine may be late once
		status, body := ask(curls[0])
		require.Equal(t, http.StatusOK, status, body)
		return strings.HasPrefix(body, `{"substitute":false`)
	}, patience, 10*time.Millisecond)
	status, body := ask(curls[1])
	require.Equal(t, http.StatusAccepted, status, body)
}
