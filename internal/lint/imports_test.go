package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports holds the code of both modules to the rules.
func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(mod), "module "+module+"\n"), "the rules are for another module")

	set := token.NewFileSet()
	files := read(t, set, root)
	for layer := range layers { // or the rules would hold for want of anything to break them
		require.True(t, slices.ContainsFunc(files, func(f file) bool { return f.dir == layer && !f.test }), "no code found in %s", layer)
	}
	for _, v := range check(set, files) {
		t.Error(v)
	}
}

// read parses all Go files below a directory. Build constraints do not matter: a rule holds on every system.
func read(t *testing.T, set *token.FileSet, root string) (files []file) {
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		name := d.Name()
		if d.IsDir() {
			if rel != "." && (name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || name[0] == '.' || name[0] == '_' {
			return nil
		}
		dir := path.Dir(rel)
		if dir == "." {
			dir = ""
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parse(set, rel, dir, src)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	require.NoError(t, err)
	return files
}

// TestUnracedTestsStartNoGoroutine: the Makefile runs the tests of PURE and PLAIN without the race detector. PURE names all pure packages, and
// no others.
func TestUnracedTestsStartNoGoroutine(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	makefile := strings.ReplaceAll(string(text), "\\\n", "")
	listed := func(name string) []string {
		_, after, found := strings.Cut(makefile, "\n"+name+" := ")
		require.True(t, found, name)
		line, _, _ := strings.Cut(after, "\n")
		return strings.Fields(line)
	}
	var pure []string
	for layer := range layers {
		if isPure(layer) {
			pure = append(pure, layer)
		}
	}
	require.ElementsMatch(t, pure, listed("PURE"), "PURE of the Makefile has to name the pure packages")
	unraced := append(pure, listed("PLAIN")...)
	set := token.NewFileSet()
	for _, f := range read(t, set, root) {
		if !slices.ContainsFunc(unraced, func(dir string) bool { return f.dir == dir || strings.HasPrefix(f.dir, dir+"/") }) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if startsGoroutine(n) {
				t.Errorf("%s: a goroutine is started, and the tests run without the race detector", set.Position(n.Pos()))
			}
			return true
		})
	}
}

// TestUnracedTestsOfE2EAreNamed: of tools/e2e, which runs under the race detector, the Makefile runs tests named TestUnraced_ without it. They
// are all tests of the files that the race detector leaves out.
func TestUnracedTestsOfE2EAreNamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "tools", "e2e", "*_test.go"))
	require.NoError(t, err)
	unraced := 0
	for _, name := range files {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		text := string(src)
		named := strings.Count(text, "\nfunc TestUnraced_")
		if strings.HasPrefix(text, "//go:build !race\n") {
			require.Equal(t, strings.Count(text, "\nfunc Test"), named, "%s: a test that nothing runs", name)
			unraced += named
		} else {
			require.Zero(t, named, "%s: a test that runs twice", name)
		}
	}
	require.Positive(t, unraced)
}

// startsGoroutine finds go statements, and calls of a method Go, as those of sync.WaitGroup and errgroup.Group.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Go"
	}
	return false
}

// TestRulesCatch feeds the checker a violation of each rule, and code that only looks like one.
func TestRulesCatch(t *testing.T) {
	const clean = ""
	for _, c := range []struct{ dir, src, want string }{
		// Packages that reach outside.
		{"policy", `import "context"`, "imports context"},
		{"policy/admissible", `import "net/http"`, "imports net/http"},
		{"delay", `import "os"`, "imports os"},
		{"delay", `import "os/exec"`, "imports os/exec"},
		{"delay", `import "log/slog"`, "imports log/slog"},
		{"stream/event", `import _ "sync"`, "imports sync"},
		{"stream/partition", `import a "sync/atomic"`, "imports sync/atomic"},
		{"stream/task", `import "math/rand"`, "imports math/rand"},
		{"stream/task", `import "crypto/rand"`, "imports crypto/rand"},
		{"stream/task", `import "testing"`, "imports testing"},
		{"stream/task", `import "C"`, "imports C"},
		{"stream/task", `import "github.com/segmentio/kafka-go"`, "not among the libraries"},
		{"stream/partition", `import "github.com/redis/go-redis/v9"`, "not among the libraries"},
		{"policy", `import "github.com/prometheus/client_golang/prometheus"`, "not among the libraries"},
		{"policy", `import "github.com/valyala/fastjsonx"`, "not among the libraries"},
		{"policy", `import ("math"; "slices"; "gonum.org/v1/gonum/mat"; "time"; "math/rand/v2"; "strings"; "hash/maphash"; "errors")`, clean},
		{"stream", `import ("context"; "net"; "os"; "sync"; "log/slog"; "github.com/segmentio/kafka-go"); func f() { go f() }`, clean},
		{"state", `import ("context"; "sync")`, clean},
		{"policytools", `import "os"`, clean},

		// The clock, in every spelling.
		{"delay", `import "time"; var x = time.Now()`, "uses time.Now"},
		{"delay", `import "time"; var x = time.Now`, "uses time.Now"},
		{"delay", `import clock "time"; func f() { clock.Sleep(clock.Second) }`, "uses time.Sleep"},
		{"delay", `import "time"; func f() { _ = time.Since(time.Time{}) }`, "uses time.Since"},
		{"delay", `import "time"; func f() { <-time.After(1) }`, "uses time.After"},
		{"delay", `import "time"; var x = time.NewTimer(1)`, "uses time.NewTimer"},
		{"delay", `import "time"; var x = time.Tick(1)`, "uses time.Tick"},
		{"delay", `import "time"; type t struct{ *time.Ticker }`, "uses time.Ticker"},
		{"delay", `import "time"; var x = time.UnixMilli(0).In(time.Local)`, "uses time.Local"},
		{"delay", `import . "time"; var x = Now()`, "by a dot"},
		{"delay", `import "time"; var x = time.UnixMilli(3).UTC().Add(time.Second)`, clean},
		{"delay", `import "time"; const d = time.Second; type c struct{}; func (c) Now() {}; func f(time c) { time.Now() }`, clean},
		{"delay", `import "time"; const d = time.Second; func f(c struct{ time struct{ Now int } }) int { return c.time.Now }`, clean},
		{"stream", `import "time"; var x = time.Now()`, clean},

		// Global random numbers.
		{"policy", `import "math/rand/v2"; var x = rand.IntN(3)`, "uses math/rand/v2.IntN"},
		{"policy", `import r "math/rand/v2"; var x = r.Float64`, "uses math/rand/v2.Float64"},
		{"policy", `import "math/rand/v2"; func f() { rand.Shuffle(1, nil) }`, "uses math/rand/v2.Shuffle"},
		{"policy", `import "math/rand/v2"; var x = rand.N(3)`, "uses math/rand/v2.N"},
		{"policy", `import . "math/rand/v2"; var x = IntN(3)`, "by a dot"},
		{"policy", `import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(3) + rand.New(rand.NewPCG(1, 2)).IntN(3) }`, clean},

		// Things side by side.
		{"stream/partition", `func f() { go f() }`, "starts a goroutine"},
		{"stream/partition", `func f() { go func() {}() }`, "starts a goroutine"},
		{"stream/partition", `var c chan int`, "has a channel"},
		{"stream/partition", `func f() { select {} }`, "selects from channels"},
		{"stream/partition", `import "runtime"; var n = runtime.NumCPU()`, "uses runtime.NumCPU"},
		{"stream/partition", "import _ \"unsafe\"\n//go:linkname now time.now\nfunc now() int64", "links to a name"},

		// One direction.
		{"policy", `import "` + module + `/delay"`, "policy imports delay"},
		{"policy", `import "` + module + `/stream/event"`, "policy imports stream/event"},
		{"policy", `import "` + module + `/policy/admissible"`, clean},
		{"policy/admissible", `import "` + module + `/policy"`, clean},
		{"delay", `import ("` + module + `/policy"; "` + module + `/policy/admissible")`, clean},
		{"delay", `import "` + module + `/state"`, "delay imports state"},
		{"stream/event", `import "` + module + `/policy"`, "stream/event imports policy"},
		{"stream/experiment", `import "` + module + `/stream/event"`, "stream/experiment imports stream/event"},
		{"stream/partition", `import "` + module + `/stream/task"`, "stream/partition imports stream/task"},
		{"stream/partition", `import "` + module + `/config"`, "stream/partition imports config"},
		{"stream/partition", `import "` + module + `"`, "stream/partition imports :"},
		{"stream/partition", `import "` + module + `/state"`, clean},
		{"stream/partition", `import "` + module + `/state/redis"`, "stream/partition imports state/redis"},
		{"stream/task", `import ("` + module + `/stream/partition"; "` + module + `/stream/event"; "` + module + `/state")`, clean},
		{"stream/task", `import "` + module + `/stream"`, "stream/task imports stream"},
		{"stream/task", `import "` + module + `/internal/simulate"`, "stream/task imports internal/simulate"},
		{"state", `import "` + module + `/stream/event"`, clean},
		{"state", `import "` + module + `/policy"`, "state imports policy"},
		{"state/redis", `import ("` + module + `/state"; "github.com/redis/go-redis/v9")`, clean},
		{"state/redis", `import "` + module + `/stream"`, "state/redis imports stream"},
		{"stream", `import ("` + module + `/stream/task"; "` + module + `/state/redis")`, clean},
		{"stream", `import "` + module + `/cmd/ranker-worker"`, "nothing imports a command"},
		{"config", `import "` + module + `/cmd/ranker-worker"`, "nothing imports a command"},
		{"cmd/ranker-worker", `import ("` + module + `/stream"; "` + module + `/config")`, clean},
		{"cmd/ranker-worker", `import "` + module + `/tools/checker"`, "nothing that ships, and no test of it, imports a tool"},
		{"internal/admin", `import "` + module + `/tools/checker"`, "internal/admin imports tools/checker"},
		{"stream/task", `import "` + module + `/tools/checker"`, "stream/task imports tools/checker"},
		{"tools/faults", `import ("` + module + `/tools/checker"; "` + module + `/internal/app"; "` + module + `/stream/event")`, clean},
		{"tools/faults", `import "` + module + `/cmd/ranker-worker"`, "nothing imports a command"},

		// Tests' libraries.
		{"stream", `import "testing"`, "stream is shipped, and imports testing"},
		{"stream", `import "testing/synctest"`, "stream is shipped, and imports testing/synctest"},
		{"config", `import "github.com/stretchr/testify/require"`, "config is shipped"},
		{"internal/test/statetest", `import ("testing"; "` + module + `/state"; "github.com/stretchr/testify/require")`, clean},
		{"internal/test/testenv", `import "testing"`, clean},
		{"internal/app", `import "testing"`, "internal/app is shipped, and imports testing"},
		{"internal/app", `import "` + module + `/internal/test/memstore"`, "internal/app is shipped, and imports internal/test/memstore, which is for tests"},
		{"tools/bench", `import "` + module + `/internal/test/testenv/kafka"`, clean},
		{"tools/e2e", `import "github.com/stretchr/testify/require"`, clean},
	} {
		found := checkSources(t, c.dir, c.src)
		if c.want == clean {
			require.Empty(t, found, "%s: %s", c.dir, c.src)
			continue
		}
		require.NotEmpty(t, found, "%s: %s", c.dir, c.src)
		for _, v := range found { // one snippet breaks rules about one thing
			if strings.Contains(v.String(), c.want) {
				require.Equal(t, c.dir+"/x0.go", v.pos.Filename)
				found = nil
				break
			}
		}
		require.Empty(t, found, "%s: %s: wanted %q", c.dir, c.src, c.want)
	}
}

// TestTestingIsFoundBehindOthers: a shipped package must not get package testing through another one either.
func TestTestingIsFoundBehindOthers(t *testing.T) {
	found := fmt.Sprint(checkSources(t,
		"cmd/demo", `import "`+module+`/internal/users"`,
		"internal/users", `import "`+module+`/internal/users/draw"`,
		"internal/users/draw", `import "testing"`))
	require.Contains(t, found, "cmd/demo → internal/users → internal/users/draw is shipped, and imports testing")
	require.Empty(t, checkSources(t,
		"internal/test/users", `import "`+module+`/internal/test/users/draw"`,
		"internal/test/users/draw", `import "testing"`), "helpers may use each other")
	require.NotEmpty(t, checkSources(t, "stream", `import "`+module+`/internal/test/statetest"`, "internal/test/statetest", `import "testing"`))
}

// TestTestsAreHeldToOneRule: all imports of a module's tests are in its own go.mod, so that tests of shipped code
// import no tool. Otherwise tests are free.
func TestTestsAreHeldToOneRule(t *testing.T) {
	set := token.NewFileSet()
	f, err := parse(set, "stream/task/x_test.go", "stream/task", `package task; import ("os"; "testing"; "`+module+`/tools/checker")`)
	require.NoError(t, err)
	found := check(set, []file{f})
	require.Len(t, found, 1)
	require.Contains(t, found[0].String(), "stream/task imports tools/checker")
}

// TestOfflineStaysApart: code that only the state commands need is not used on a record's path.
func TestOfflineStaysApart(t *testing.T) {
	apart := []string{"delay/offline_merge.go", `type Mergeable interface{}; var _ Mergeable = other{}; func plus() {}; type other struct{ plus int }`}
	uses := func(where, src string) []violation { return checkSources(t, append([]string{where, src}, apart...)...) }
	for where, src := range map[string]string{
		"delay":            `func f(x any) { _, _ = x.(Mergeable) }`,
		"stream/partition": `import d "` + module + `/delay"; func f(x any) { _, _ = x.(d.Mergeable) }`,
		"stream":           `import "` + module + `/delay"; var x delay.Mergeable`,
	} {
		found := uses(where, src)
		require.Len(t, found, 1, "%s: %s", where, src)
		require.Contains(t, found[0].String(), "Mergeable, which is for the state commands")
	}
	require.Empty(t, uses("delay", `func f(plus int) (s struct{ plus int }) { s.plus = plus; return }`), "another thing of the name")
	require.Empty(t, uses("stream/partition/offline.go", `import "`+module+`/delay"; var x delay.Mergeable`))
	require.Empty(t, uses("internal/admin", `import "`+module+`/delay"; var x delay.Mergeable`))
}

// checkSources checks pairs of a directory, or a file in it, and the text of its one file behind the package clause.
func checkSources(t *testing.T, pairs ...string) []violation {
	t.Helper()
	set := token.NewFileSet()
	var files []file
	for i := 0; i < len(pairs); i += 2 {
		dir, name := pairs[i], pairs[i]+"/x"+string(rune('0'+i))+".go"
		if strings.HasSuffix(dir, ".go") {
			dir, name = path.Dir(dir), dir
		}
		f, err := parse(set, name, dir, "package p; "+pairs[i+1])
		require.NoError(t, err, pairs[i+1])
		files = append(files, f)
	}
	return check(set, files)
}
