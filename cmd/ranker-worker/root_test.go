package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// ran is the result of a command line.
type ran struct {
	code        int
	out, errOut string
}

func run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	// Without arguments, but not nil: cobra would take those of the test's own process.
	code := execute(t.Context(), append([]string{}, args...), strings.NewReader(stdin), &out, &errOut)
	return ran{code, out.String(), errOut.String()}
}

// inFile writes a configuration and makes its directory the current one, so that messages are short.
func inFile(t *testing.T, name, content string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	t.Chdir(dir)
}

const sound = `kafka: {brokers: ['127.0.0.1:9092'], group: g}
redis: {url: 'redis://127.0.0.1:6379/0'}
learners: {feed: {payoffs: stochastic, on_expiry: {default: 0}, silence: ages, out_of_range: clamp, item_retention: 1440h}}
join: {remember: 24h}
`

// TestLintThreeFaults: a file with three faults gives three lines, each with its line number, and exit code 1.
func TestLintThreeFaults(t *testing.T) {
	inFile(t, "worker.yaml", `kafka:
  brokers: [127.0.0.1:9092]
  gruop: ranker
redis:
  url: redis://127.0.0.1:6379/0
join:
  parking_time: 1 hour
learners:
  feed:
    payoffs: stochastic
    aggregate: mean
`)
	got := run(t, "", "lint", "worker.yaml")
	assert.Equal(t, ran{code: 1, out: `worker.yaml:3: kafka.gruop: unknown key; did you mean group?
worker.yaml:7: join.parking_time: "1 hour" is not a duration; write for example 100ms, 30m, 720h or 30d
worker.yaml:11: learners.feed.aggregate: "mean" is unknown; there are first and sum
`}, got)
}

func TestLint(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	assert.Equal(t, ran{}, run(t, "", "lint", "worker.yaml"))
	assert.Equal(t, ran{}, run(t, sound, "lint", "-"))
	assert.Equal(t, ran{}, run(t, "", "lint"), "the default")
	assert.Equal(t, ran{code: 1, out: "<stdin>:1: not valid YAML: did not find expected node content\n"}, run(t, "{", "lint", "-"))
	assert.Equal(t, ran{code: 1, out: "none.yaml: cannot be read: no such file or directory\n"}, run(t, "", "lint", "worker.yaml", "none.yaml"))

	noisy := strings.Replace(sound, ", group: g", "", 1)
	got := run(t, noisy, "lint", "--print", "-")
	assert.Equal(t, 0, got.code)
	assert.True(t, strings.HasPrefix(got.errOut, "<stdin>:1: warning: kafka.group: "), got.errOut)
	assert.Equal(t, 1, strings.Count(got.errOut, "\n"))
	again := run(t, got.out, "lint", "--print", "-")
	assert.Equal(t, ran{out: got.out}, again, "what is printed is sound, and prints the same")

	two := run(t, "", "lint", "--print", "worker.yaml", "worker.yaml")
	assert.Equal(t, 0, two.code)
	assert.True(t, strings.HasPrefix(two.out, "# worker.yaml\nkafka:"), two.out)
	assert.Contains(t, two.out, "\n---\n# worker.yaml\nkafka:")
}

// TestLintLooksAtFiles unless a flag forbids it, and so does the worker. Other commands report the faults of the
// files that they use. So topics can be created where Redis' password is missing. The health check uses no file, and
// must not fail while a certificate is renewed.
func TestLintLooksAtFiles(t *testing.T) {
	inFile(t, "worker.yaml", strings.Replace(sound, ", group: g", ", group: g, tls: {ca_file: ca.pem}, "+
		"sasl: {mechanism: plain, username: u, password_file: secret}", 1)+"http: {listen: '127.0.0.1:1'}\n")
	const faults = `worker.yaml:1: kafka.tls.ca_file: "ca.pem": no such file or directory, seen from the directory that the worker is started in
worker.yaml:1: kafka.sasl.password_file: "secret": no such file or directory, seen from the directory that the worker is started in
`
	assert.Equal(t, ran{code: 1, out: faults}, run(t, "", "lint", "worker.yaml"))
	assert.Equal(t, ran{}, run(t, "", "lint", "--no-files", "worker.yaml"))
	file, err := os.ReadFile("worker.yaml")
	require.NoError(t, err)
	assert.Equal(t, ran{code: 1, out: strings.ReplaceAll(faults, "worker.yaml", "<stdin>")}, run(t, string(file), "lint", "-"))
	assert.Equal(t, ran{}, run(t, string(file), "lint", "--no-files", "-"))
	assert.Equal(t, ran{code: 1, errOut: faults}, run(t, "", "run", "--config", "worker.yaml"))
	first, _, _ := strings.Cut(faults, "\n")
	assert.Equal(t, ran{code: 1, errOut: "ranker-worker: " + first + "\n"}, run(t, "", "topics", "--config", "worker.yaml"))
	assert.Contains(t, run(t, "", "health", "--config", "worker.yaml").errOut, "no worker listens at http://127.0.0.1:1: is it running, and is worker.yaml:5: http.listen right?")
}

// TestLintMasksSecrets also those that come from the environment.
func TestLintMasksSecrets(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", "s3cr3t")
	got := run(t, strings.Replace(sound, "redis://", "redis://me:${REDIS_PASSWORD}@", 1), "lint", "--print", "-")
	assert.Equal(t, 0, got.code, got)
	assert.NotContains(t, got.out+got.errOut, "s3cr3t")
	assert.Contains(t, got.out, "password: '********'")
}

func TestLintJSON(t *testing.T) {
	inFile(t, "worker.yaml", "kafka: {brokers: ['127.0.0.1:9092']}\nredis: 3\nlearners: {feed: {payoffs: stochastic}}\n")
	got := run(t, "", "lint", "--json", "worker.yaml")
	assert.Equal(t, 1, got.code)
	assert.Empty(t, got.errOut)
	var reports []lintReport
	require.NoError(t, json.Unmarshal([]byte(got.out), &reports))
	require.Len(t, reports, 1)
	assert.Equal(t, []config.Fault{{Line: 2, Column: 8, Key: "redis", Message: "must be a mapping of keys, not a single value"}}, reports[0].Faults)
	assert.Len(t, reports[0].Warnings, 1)
	got = run(t, sound, "lint", "--json", "-")
	assert.Equal(t, ran{out: "[\n  {\n    \"file\": \"-\",\n    \"faults\": [],\n    \"warnings\": []\n  }\n]\n"}, got)
}

// TestLintSchema: the schema is one JSON document, and needs no file. Package config tests its contents.
func TestLintSchema(t *testing.T) {
	got := run(t, "", "lint", "--schema")
	assert.Zero(t, got.code)
	assert.Empty(t, got.errOut)
	var schema map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &schema))
	assert.Contains(t, schema["properties"], "learners")
}

// brokenWriter is a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestOutputThatCannotBeWritten is not a success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"lint", "--print", "-"}, {"lint", "--json", "-"}, {"lint", "--schema"}, {"version"}, {"version", "--json"}} {
		var errOut bytes.Buffer
		assert.Equal(t, exitFault, execute(t.Context(), args, strings.NewReader(sound), brokenWriter{}, &errOut), args)
		assert.Contains(t, errOut.String(), "short write", args)
	}
}

// TestUsage: a wrong command line exits with 2 and says where to look, not with pages of flags.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"lnt"}, {"lint", "--colour", "x"}, {"lint", "--print", "--json", "x"}, {"lint", "--schema", "x"}, {"version", "extra"}, {"--nothing"},
		{"health"}, {"run"}, {"topics"}, {"health", "--config", "x", "--timeout", "soon"}, {"run", "--config", "x", "y"},
	} {
		got := run(t, "", args...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Empty(t, got.out, args)
		assert.Contains(t, got.errOut, "--help'.\n", args)
		assert.Less(t, strings.Count(got.errOut, "\n"), 9, args)
	}
	assert.Contains(t, run(t, "", "lnt").errOut, "lint", "a near command is named")
}

// TestFaultsOfConfig: every command that takes a configuration shows all its faults, and exits with 1.
func TestFaultsOfConfig(t *testing.T) {
	inFile(t, "worker.yaml", "kafka: 1\nredis: 2\nlearners: 3\n")
	for _, verb := range []string{"run", "topics", "health"} {
		got := run(t, "", verb, "--config", "worker.yaml")
		assert.Equal(t, ran{code: 1, errOut: `worker.yaml:1: kafka: must be a mapping of keys, not a single value
worker.yaml:2: redis: must be a mapping of keys, not a single value
worker.yaml:3: learners: must be a mapping of keys, not a single value
`}, got, verb)
	}
}

// TestConfigWithoutItsFlag: the file may stand alone, and only one may be given.
func TestConfigWithoutItsFlag(t *testing.T) {
	inFile(t, "worker.yaml", "kafka: 1\n")
	for _, verb := range [][]string{{"run"}, {"topics"}, {"health"}, {"state", "inspect"}} {
		flagged := run(t, "", append(verb, "--config", "worker.yaml")...)
		assert.Equal(t, exitFault, flagged.code, verb)
		assert.Equal(t, flagged, run(t, "", append(verb, "worker.yaml")...), verb)
		assert.Equal(t, exitUsage, run(t, "", append(verb, "worker.yaml", "more.yaml")...).code, verb)
	}
}

// TestConfigByDefault is that of RANKER_CONFIG, else worker.yaml; without both, the command line is wrong.
func TestConfigByDefault(t *testing.T) {
	inFile(t, "other.yaml", "kafka: 1\nredis: 2\nlearners: 3\n")
	verbs := [][]string{{"run"}, {"serve"}, {"topics"}, {"health"}, {"generate"}, {"lift"}, {"replay"}, {"explain", "i-1"}, {"dlq", "tail"},
		{"dlq", "show", "payoffs/1/2"}, {"dlq", "replay"}, {"state", "inspect"}, {"state", "export"}, {"state", "reset", "--learner", "l"}}
	each := func(code int, says string) {
		for _, verb := range verbs {
			got := run(t, "", verb...)
			assert.Equal(t, code, got.code, "%s %s", verb, got.errOut)
			assert.Contains(t, got.errOut, says, verb)
		}
	}
	each(exitUsage, "no configuration: give --config FILE, or set RANKER_CONFIG")
	t.Setenv("RANKER_CONFIG", "other.yaml")
	each(exitFault, "other.yaml:1: kafka: must be a mapping")
	t.Setenv("RANKER_CONFIG", "")
	require.NoError(t, os.Rename("other.yaml", "worker.yaml"))
	verbs = append(verbs, []string{"evaluate"})
	each(exitFault, "worker.yaml:1: kafka: must be a mapping")
	t.Setenv("RANKER_CONFIG", "none.yaml")
	each(exitFault, "none.yaml: cannot be read")
	assert.Contains(t, run(t, "", "topics", "--config", "worker.yaml").errOut, "worker.yaml:1", "the flag wins")
	assert.Contains(t, run(t, "", "doctor").out, "none.yaml")
}

// TestEveryCommandHasHelp with a sentence and an example.
func TestEveryCommandHasHelp(t *testing.T) {
	root, _ := newRootCommand(nil, io.Discard, io.Discard)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.Contains(t, c.Example, "ranker-worker", c.CommandPath())
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		got := run(t, "", args...)
		assert.Equal(t, 0, got.code, args)
		assert.Contains(t, got.out, "Examples:", args)
		assert.Empty(t, got.errOut, args)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	assert.Equal(t, run(t, "", "--help"), run(t, ""), "no command at all shows the help")
}

func TestCompletion(t *testing.T) {
	got := run(t, "", "completion", "bash")
	assert.Equal(t, 0, got.code)
	assert.Contains(t, got.out, "__start_ranker-worker")
	got = run(t, "", "__complete", "li")
	assert.Contains(t, got.out, "lint\t")
}

func TestVersion(t *testing.T) {
	got := run(t, "", "version")
	assert.Equal(t, 0, got.code)
	assert.Regexp(t, `^ranker-worker \S+ \(commit \S+ of \S+, (modified, )?go1\.\S+, \S+/\S+\)\n$`, got.out)
	assert.Equal(t, got, run(t, "", "--version"))
	got = run(t, "", "version", "--json")
	var b build
	dec := json.NewDecoder(strings.NewReader(got.out))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&b))
	assert.Equal(t, buildVersion(), b)
	require.ErrorIs(t, dec.Decode(&b), io.EOF, "one document and nothing else")

	version, commit, date = "v1.2.3", "abc", "2026-01-02T03:04:05Z"
	t.Cleanup(func() { version, commit, date = "", "", "" })
	assert.Regexp(t, `^ranker-worker v1.2.3 \(commit abc of 2026-01-02T03:04:05Z, go`, run(t, "", "version").out)
}

// TestVersionOfAModule: go install leaves no data of version control, and its versions of commits have them.
func TestVersionOfAModule(t *testing.T) {
	b := build{Version: "v0.0.0-20260918054303-01f206a7e32c"}
	b.ofModule()
	assert.Equal(t, build{Version: b.Version, Commit: "01f206a7e32c", Date: "2026-09-18T05:43:03Z"}, b)
	b = build{Version: "v0.1.0"}
	b.ofModule()
	assert.Equal(t, build{Version: "v0.1.0"}, b)
}

func TestHealth(t *testing.T) {
	ready := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/livez":
			_, _ = io.WriteString(w, "alive\n")
		case "/readyz":
			w.WriteHeader(ready)
			_, _ = io.WriteString(w, "partition 3: loading\n")
		}
	}))
	defer server.Close()
	inFile(t, "worker.yaml", sound+"http: {listen: '"+server.Listener.Addr().String()+"'}\n")
	assert.Equal(t, ran{out: "partition 3: loading\n"}, run(t, "", "health", "-c", "worker.yaml"))
	ready = http.StatusServiceUnavailable
	got := run(t, "", "health", "-c", "worker.yaml")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.errOut, "/readyz answers 503")
	assert.Equal(t, ran{out: "alive\n"}, run(t, "", "health", "-c", "worker.yaml", "--live"))
	server.Close()
	got = run(t, "", "health", "-c", "worker.yaml", "--live")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.errOut, "no worker listens at http://127.0.0.1:")

	for address, want := range map[string]string{":1": "http://localhost:1", "0.0.0.0:1": "http://localhost:1", "[::]:1": "http://localhost:1",
		"10.0.0.1:1": "http://10.0.0.1:1", "[::1]:1": "http://[::1]:1"} {
		assert.Equal(t, want, localURL(address))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, exitFault, execute(ctx, []string{"health", "-c", "worker.yaml"}, nil, io.Discard, io.Discard))
}
