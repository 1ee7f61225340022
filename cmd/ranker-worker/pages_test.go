package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// notRun are the beginnings of commands that the test does not run, with the reason.
var notRun = map[string]string{
	"go build -o ranker-worker ./cmd/ranker-worker": "the test runs the program in its own process",
	"pip install":                    "installs a package from a registry",
	"python3 docs/clients/rank.py":   "needs that package",
	"./ranker-worker run --config d": "the worker of `demo --config` is at work on the same partition",
	"kubectl":                        "needs a Kubernetes cluster",
	"helm":                           "needs a Kubernetes cluster",
	"go build -o checker":            "the checker is another module, whose tests run it",
	"checker":                        "the checker is another module, whose tests run it",
	"kafka-configs.sh":               "needs a distribution of Kafka, with Java",
	"ranker-worker state warm":       "needs a new learner and a file; tools/e2e runs it",
	"redis-cli CONFIG REWRITE":       "the Redis of a test has no configuration file",
}

// fences match fenced blocks: language and text.
var fences = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// programs begin the lines of a fence that has commands. Other fences have configurations, records and outputs.
var programs = regexp.MustCompile(`^(?:go|\./ranker-worker|ranker-worker|curl|docker|python3|pip|make|git|sh|kubectl|helm|checker|redis-cli|kcat|jq|openssl|kafka-\w+\.sh|#) `)

// comment matches a line's comment, and word a word of an output.
var (
	comment = regexp.MustCompile(`(?:^| +)# .*`)
	word    = regexp.MustCompile(`[a-z]{3,}`)
)

// curl is a record that a page sends over HTTP.
var curl = regexp.MustCompile(`(?s)^curl --json '([^']*)' http://127\.0\.0\.1:8081(/v1/(\w+))$`)

// reader follows a page: it runs its commands one after another, in a directory with its files, against embedded servers.
type reader struct {
	t       *testing.T
	address string // of `serve`
	script  string // the client that simulates a shop
	atWork  []*atWork
}

// TestCommandsOfREADMEAndTutorialsRun, in their order on the page, with their exit codes and answers.
func TestCommandsOfREADMEAndTutorialsRun(t *testing.T) {
	for _, page := range []string{"README.md", "docs/learn/ten-minutes.md", "docs/learn/your-own-events.md", "docs/learn/is-it-better.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", page))
			require.NoError(t, err)
			r := newReader(t)
			if page == "README.md" {
				all := fences.FindAllStringSubmatch(string(text), -1)
				r.write("worker.yaml", all[slices.IndexFunc(all, func(fence []string) bool { return fence[1] == "yaml" })][2])
			}
			commands := commandsOf(string(text))
			for _, c := range commands {
				r.run(c.text)
			}
			assert.GreaterOrEqual(t, len(commands), 4)
		})
	}
}

// TestCommandsOfPagesParse: each command of the program that stands in a fence of any page exists, with its flags and arguments. Most of
// them need a cluster, so they do not run here.
func TestCommandsOfPagesParse(t *testing.T) {
	pages := []string{"../../README.md", "../../deploy/README.md"}
	require.NoError(t, filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	}))
	parsed := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, fence := range fences.FindAllStringSubmatch(string(text), -1) {
			for _, line := range regexp.MustCompile(`(?m)^ *(?:\$ )?(?:\./)?(?:go run \./cmd/)?ranker-worker ([a-z][^|<>#&;\n]*)`).FindAllStringSubmatch(fence[2], -1) {
				command, _, _ := strings.Cut(line[1], "    ") // a comment
				if strings.ContainsAny(command, "[{(…") {
					continue // a line of usage
				}
				parsed++
				root, _ := newRootCommand(strings.NewReader(""), io.Discard, io.Discard)
				cmd, args, err := root.Find(strings.Fields(regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(strings.TrimSuffix(command, "\\"), "quoted")))
				if assert.NoError(t, err, "%s: %s", page, command) && assert.NoError(t, cmd.ParseFlags(args), "%s: %s", page, command) {
					assert.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: %s", page, command)
					assert.True(t, cmd.Runnable(), "%s: %s", page, command)
				}
			}
		}
	}
	assert.Greater(t, parsed, 100)
}

// pageCommand is a command of a page, with the output that the page shows right behind its fence.
type pageCommand struct{ text, output string }

// commandsOf returns the commands of a page's fences, without their comments. One goes on where a line ends in a quotation or with a backslash.
func commandsOf(page string) (all []pageCommand) {
	end := 0
	for _, at := range fences.FindAllStringSubmatchIndex(page, -1) {
		behind := page[end:at[0]]
		language, fence := page[at[2]:at[3]], page[at[4]:at[5]]
		end = at[1]
		switch {
		case language != "":
		case strings.HasPrefix(fence, "$ "):
			command, output, _ := strings.Cut(fence[2:], "\n")
			all = append(all, pageCommand{command, output})
		case programs.MatchString(fence):
			command := ""
			for line := range strings.Lines(fence) {
				command += comment.ReplaceAllString(line, "")
				if strings.Count(command, "'")%2 == 0 && !strings.HasSuffix(command, "\\\n") {
					if command = strings.ReplaceAll(strings.TrimSpace(command), "\\\n", " "); command != "" {
						all = append(all, pageCommand{text: command})
					}
					command = ""
				}
			}
		case len(all) > 0 && !strings.Contains(behind, "\n#") && !strings.HasPrefix(fence, "{"): // neither another section nor a record
			all[len(all)-1].output = fence
		}
	}
	return all
}

// shows requires the words that a page shows of an output. Numbers are those of another run, and so are indented lines.
func (r *reader) shows(output, page string) {
	var missing []string
	for line := range strings.Lines(page) {
		for _, w := range word.FindAllString(line, -1) {
			if !strings.HasPrefix(line, " ") && !strings.Contains(output, w) {
				missing = append(missing, w)
			}
		}
	}
	assert.Empty(r.t, missing, output)
}

// newReader makes a directory with the files of the tutorials, whose servers listen on free ports.
func newReader(t *testing.T) *reader {
	ports, err := proc.FreePorts(3)
	require.NoError(t, err)
	script, err := filepath.Abs("../../docs/clients/shop.py")
	require.NoError(t, err)
	files, err := filepath.Glob("../../docs/learn/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts["docs/learn/"+filepath.Base(file)] = string(text)
	}
	t.Chdir(t.TempDir())
	t.Setenv("KAFKA_BROKERS", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	t.Setenv("REDIS_URL", fmt.Sprintf("redis://127.0.0.1:%d/0", ports[1]))
	r := &reader{t: t, address: fmt.Sprintf("127.0.0.1:%d", ports[2]), script: script}
	for name, text := range texts {
		r.write(name, text)
	}
	return r
}

func (r *reader) write(name, text string) {
	require.NoError(r.t, os.MkdirAll(filepath.Dir(name), 0o700))
	text += fmt.Sprintf("http: {listen: '127.0.0.1:0'}\nserve: {listen: '%s', timeout: 10s}\n", r.address)
	require.NoError(r.t, os.WriteFile(name, []byte(text), 0o600))
}

// reasonNotToRun is the reason of notRun, or "".
func reasonNotToRun(command string) string {
	for beginning, reason := range notRun {
		if strings.HasPrefix(command, beginning) {
			return reason
		}
	}
	return ""
}

// run runs a command, and returns its output if it has ended.
func (r *reader) run(command string) (output string) {
	r.t.Log(command)
	if reason := reasonNotToRun(command); reason != "" {
		return ""
	}
	if request := curl.FindStringSubmatch(command); request != nil {
		r.post(request[1], request[2], request[3])
		return ""
	}
	words := strings.Fields(regexp.MustCompile(`^(go run \./cmd/|\./)`).ReplaceAllString(command, ""))
	switch {
	case command == "python3 docs/clients/shop.py":
		r.shop()
	case words[0] != "ranker-worker":
		r.t.Errorf("%q is not known here: run it, or give a reason", command)
	case command == "go run ./cmd/ranker-worker demo":
		got := run(r.t, "", "demo", "--impressions", "200")
		assert.Equal(r.t, exitOK, got.code, got)
	case words[1] == "demo" && words[2] == "--serve":
		r.start("In another terminal", "demo", "--impressions", "200", "--serve="+r.address)
	case words[1] == "demo" || words[1] == "run":
		r.start("partition running", words[1:]...)
	case words[1] == "serve":
		r.start("ranker-worker serves", words[1:]...)
		require.Eventually(r.t, func() bool { return run(r.t, "", "health", "--serve", "worker.yaml").code == exitOK }, 45*time.Second, 10*time.Millisecond)
	default:
		got := run(r.t, "", words[1:]...)
		if words[1] != "evaluate" || got.code != exitNone || !strings.Contains(command, "docs/learn/") { // their young log holds no answer
			assert.Equal(r.t, exitOK, got.code, got)
		}
		return got.out
	}
	return ""
}

// start starts a command that goes on until the page ends, and waits for a text of its output.
func (r *reader) start(says string, args ...string) {
	w := &atWork{t: r.t, ended: make(chan int, 1)}
	ctx, cancel := context.WithCancel(r.t.Context())
	w.end = cancel
	go func() { w.ended <- execute(ctx, args, strings.NewReader(""), &w.errOut, &w.errOut) }()
	r.t.Cleanup(func() { assert.Equal(r.t, exitOK, w.stop(), w.errOut.String()) })
	w.says(says)
	r.atWork = append(r.atWork, w)
}

// post sends a record of the page. A list is answered with its ranking, other records are accepted.
func (r *reader) post(body, path, kind string) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.address+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	answer, _ := bufio.NewReader(response.Body).ReadString('\n')
	if kind == "rank" {
		assert.Equal(r.t, http.StatusOK, response.StatusCode, answer)
		assert.Contains(r.t, answer, `"items":[`)
		return
	}
	assert.Equal(r.t, http.StatusAccepted, response.StatusCode, answer)
}

// shop runs the simulated users of a shop until ten of them have been there.
func (r *reader) shop() {
	python, err := exec.LookPath("python3")
	if err != nil {
		r.t.Log("left out, since there is no python3")
		return
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 45*time.Second)
	defer cancel()
	users := exec.CommandContext(ctx, python, r.script, r.address)
	out, err := users.StdoutPipe()
	require.NoError(r.t, err)
	var faults strings.Builder
	users.Stderr = &faults
	require.NoError(r.t, users.Start())
	lines := bufio.NewScanner(out)
	seen := false
	for !seen && lines.Scan() {
		seen = strings.Contains(lines.Text(), " 10 visits")
	}
	cancel()
	_ = users.Wait() // it was killed
	assert.True(r.t, seen, faults.String())
}
