// Command matrix runs the tests of the store, of the broker and of the whole pipeline on several versions of Apache Kafka and with several
// stores. It writes its table into docs/reference/tested-servers.md:
//
//	go run ./tools/matrix                  all rows
//	go run ./tools/matrix -row 4.0.2       rows whose name contains 4.0.2; the page stays as it is
//	go run ./tools/matrix -list
//
// Kafka's jars come from Maven Central. Stores are programs on this machine: a row without its program says so, and fails.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// row is a pair of servers.
type row struct {
	kafka string // version; "": the embedded broker of the demo
	store string // program of the store
	from  string // the package that has the program
}

// rows begin with the newest Kafka.
var rows = []row{
	{"4.4.0", "redis-server", "redis-server"},
	{"4.3.1", "redis-server", "redis-server"},
	{"4.2.1", "redis-server", "redis-server"},
	{"4.1.2", "redis-server", "redis-server"},
	{"4.0.2", "redis-server", "redis-server"},
	{"4.3.1", "valkey-server", "valkey-server, of Debian's backports"},
	{"", "", ""},
}

func (r row) name() string {
	if r.kafka == "" {
		return "the embedded pair of the demo"
	}
	return "Apache Kafka " + r.kafka + ", " + r.store
}

// suite is a package's tests that are run in each row.
type suite struct {
	dir, run string
	real     bool // needs real servers
}

// suites are the contracts of store and broker, and the pipeline through a restart, a kill, a failover, a loss of the store and a replay.
var suites = []suite{
	{"state/redisstore", "^(TestSuite|TestSuiteCluster|TestTornAtEveryWriteIsRepaired|TestScriptsMayRunTwice|TestReadySaysWhatIsWrong|" +
		"TestOutOfMemoryTearsNothing|TestACLUser|TestWaitReplicas|TestRollbackByFailover|TestTLS)$", true},
	{"stream/broker", "", true},
	{"tools/e2e", "^(TestPipeline_RankJoinLearnThroughARestart|TestPipeline_FaultyRecordsGoToTheDeadLetterTopic|" +
		"TestKill_TwoWorkersOneKilledAndRestarted|TestReplicas|TestState_RebuildAfterATotalLoss|TestReplay_FromABase)$", false},
}

func main() {
	only := flag.String("row", "", "only rows whose name contains `TEXT`")
	list := flag.Bool("list", false, "print the rows")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// result is a row's outcome.
type result struct {
	row
	version string // of the store, as the server says
	passed  int
	failed  []string
	took    time.Duration
}

func run(ctx context.Context, only string, list bool) error {
	var chosen []row
	for _, r := range rows {
		if strings.Contains(r.name(), only) {
			chosen = append(chosen, r)
		}
	}
	if list {
		for _, r := range chosen {
			fmt.Println(r.name())
		}
		return nil
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no row's name contains %q: -list prints them", only)
	}
	binaries, err := os.MkdirTemp("", "ranker-matrix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	if err := compile(ctx, binaries); err != nil {
		return err
	}
	var results []result
	failed := false
	for _, r := range chosen {
		fmt.Fprintf(os.Stderr, "matrix: %s …\n", r.name())
		got, err := play(ctx, r, binaries)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name(), err)
		}
		fmt.Fprintf(os.Stderr, "matrix: %s: %d tests passed, %d failed %v, %.0f s\n", r.name(), got.passed, len(got.failed), got.failed, got.took.Seconds())
		failed = failed || len(got.failed) > 0
		results = append(results, got)
	}
	if only == "" {
		if err := write(results); err != nil {
			return err
		}
	}
	if failed {
		return errors.New("tests failed")
	}
	return nil
}

// compile builds testenv and each suite's tests once.
func compile(ctx context.Context, into string) error {
	args := [][]string{{"build", "-o", filepath.Join(into, testenv), "./internal/test/testenv/cmd/testenv"}}
	for _, s := range suites {
		args = append(args, []string{"test", "-c", "-o", filepath.Join(into, filepath.Base(s.dir)), "./" + s.dir})
	}
	for _, a := range args {
		if out, err := exec.CommandContext(ctx, "go", a...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %s", strings.Join(a, " "), err, out)
		}
	}
	return nil
}

const testenv = "testenv"

var (
	passed      = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
	failing     = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	storeBanner = regexp.MustCompile(`v=(\d+\.\d+\.\d+)`)
)

// play runs all suites on one pair of servers.
func play(ctx context.Context, r row, binaries string) (result, error) {
	got := result{row: r}
	env := os.Environ()
	if r.kafka != "" {
		program, err := exec.LookPath(r.store)
		if err != nil {
			return got, fmt.Errorf("%s is not installed: it is in the package %s", r.store, r.from)
		}
		banner, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return got, fmt.Errorf("ask %s for its version: %w", program, err)
		}
		if m := storeBanner.FindSubmatch(banner); m != nil {
			got.version = string(m[1])
		}
		env = append(env, "RANKER_TEST_KAFKA_VERSION="+r.kafka, "RANKER_TEST_REDIS_SERVER="+program)
	} else {
		env = append(env, "RANKER_TEST_SHORT=1")
	}
	began := time.Now()
	for _, s := range suites {
		if s.real && r.kafka == "" {
			continue
		}
		out, err := test(ctx, s, r, env, binaries)
		got.passed += len(passed.FindAll(out, -1))
		names := failing.FindAllSubmatch(out, -1)
		for _, m := range names {
			got.failed = append(got.failed, string(m[1]))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s\n", tail(out, 4000))
			if len(names) == 0 {
				return got, fmt.Errorf("tests of %s: %w", s.dir, err)
			}
		}
	}
	got.took = time.Since(began)
	return got, nil
}

// test runs one suite, with real servers unless the row is the embedded pair.
func test(ctx context.Context, s suite, r row, env []string, binaries string) ([]byte, error) {
	args := []string{filepath.Join(binaries, filepath.Base(s.dir)), "-test.v", "-test.timeout=15m", "-test.run", s.run}
	if r.kafka != "" {
		args = append([]string{filepath.Join(binaries, testenv), "--"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.dir, env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd.CombinedOutput()
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

const page = "docs/reference/tested-servers.md"

// begin and end enclose the table in the page.
const (
	begin = "<!-- begin: make matrix writes this table -->\n"
	end   = "<!-- end -->\n"
)

func write(results []result) error {
	var table bytes.Buffer
	table.WriteString("| Kafka | store | tests passed | failed |\n|---|---|---|---|\n")
	for _, r := range results {
		kafka, store := "Apache Kafka "+r.kafka, strings.TrimSuffix(r.store, "-server")+" "+r.version
		if r.kafka == "" {
			kafka, store = "the demo's, in the process", "the demo's, in the process"
		}
		fails := "none"
		if len(r.failed) > 0 {
			fails = strings.Join(r.failed, ", ")
		}
		fmt.Fprintf(&table, "| %s | %s | %d | %s |\n", kafka, store, r.passed, fails)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, foot, too := strings.Cut(rest, end)
	if !ok || !too {
		return fmt.Errorf("%s has no place for the table, between the lines %q and %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(head+begin+table.String()+end+foot), 0o644)
}
