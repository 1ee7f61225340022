package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/ranker-worker/ranker-worker"

// layers are the packages whose imports run one way. Each may import those of its own entry, besides packages below itself (policy may
// import policy/admissible), and nothing else of this module. All but "state" are pure.
var layers = map[string][]string{
	"policy":            {},
	"delay":             {"policy"},
	"stream/event":      {},
	"stream/experiment": {"policy"},
	"state":             {"stream/event"},
	"stream/partition":  {"policy", "delay", "stream/event", "stream/experiment", "state"},
	"stream/replay":     {"policy", "delay", "stream/event", "stream/experiment", "state", "stream/partition"},
	"stream/task":       {"policy", "delay", "stream/event", "stream/experiment", "state", "stream/partition"},
}

// pureImports are the only packages from outside the standard library that a pure package may import: those that
// compute, and are no client of anything.
var pureImports = []string{
	"gonum.org/v1/gonum", "google.golang.org/protobuf/encoding/protowire", "github.com/valyala/fastjson", "github.com/cespare/xxhash/v2", "golang.org/x/exp/constraints",
}

// impureImports are packages of the standard library that reach outside, run things side by side, or are random.
var impureImports = []string{
	"context", "net", "os", "sync", "log", "io/ioutil", "path/filepath", "syscall", "plugin", "math/rand", "crypto/rand", "runtime/debug", "runtime/pprof",
	"runtime/trace", "runtime/cgo", "runtime/metrics", "database/sql", "expvar", "testing", "embed", "C",
}

// These packages are pure in part. pureRand lists the names allowed of math/rand/v2, where most functions draw from a global source. clock
// and processes list the names forbidden of time and runtime.
var (
	pureRand = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}
	clock    = []string{
		"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Timer", "Ticker", "Local", "LoadLocation",
	}
	processes = []string{"GOMAXPROCS", "Gosched", "LockOSThread", "NumCPU", "NumGoroutine", "GC", "SetFinalizer", "AddCleanup"}
)

// file is one source file.
type file struct {
	dir    string // its package's directory, relative to the repository; "" is the root
	test   bool   // held only to the rule about tools
	syntax *ast.File
}

// violation is one breach of a rule.
type violation struct {
	pos  token.Position
	what string
}

func (v violation) String() string {
	return fmt.Sprintf("%s:%d: %s", v.pos.Filename, v.pos.Line, v.what)
}

// parse reads one file.
func parse(set *token.FileSet, name, dir string, src any) (file, error) {
	syntax, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution|parser.ParseComments)
	return file{dir: dir, test: strings.HasSuffix(name, "_test.go"), syntax: syntax}, err
}

// check finds all violations in the files of the repository.
func check(set *token.FileSet, files []file) []violation {
	var found []violation
	report := func(pos token.Pos, format string, args ...any) {
		found = append(found, violation{set.Position(pos), fmt.Sprintf(format, args...)})
	}
	for _, f := range files {
		checkTools(f, report)
		checkTestSupport(f, report)
		if f.test {
			continue
		}
		checkLayer(f, report)
		if isPure(f.dir) {
			checkPureImports(f, report)
			checkPureCode(set, f, report)
		}
	}
	checkTesting(files, report)
	checkOffline(set, files, report)
	return found
}

type reporter func(pos token.Pos, format string, args ...any)

// layerOf names the layer that a directory belongs to.
func layerOf(dir string) (layer string, ok bool) {
	for layer := range layers {
		if under(dir, layer) {
			return layer, true
		}
	}
	return "", false
}

func isPure(dir string) bool {
	layer, ok := layerOf(dir)
	return ok && layer != "state"
}

// under reports whether p is root or below it.
func under(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// ours gives the directory of an import of this module, or of that of tools.
func ours(importPath string) (dir string, ok bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser lets only string literals through
	}
	return p
}

// checkTools finds imports of the module of tools. The shipped module would depend on all of its dependencies.
func checkTools(f file, report reporter) {
	for _, spec := range f.syntax.Imports {
		if dir, ok := ours(importPath(spec)); ok && under(dir, "tools") && !under(f.dir, "tools") {
			report(spec.Pos(), "%s imports %s: nothing that ships, and no test of it, imports a tool", f.dir, dir)
		}
	}
}

// checkLayer holds imports within the module to their direction.
func checkLayer(f file, report reporter) {
	layer, layered := layerOf(f.dir)
	for _, spec := range f.syntax.Imports {
		dir, ok := ours(importPath(spec))
		if !ok {
			continue
		}
		switch {
		case under(dir, "cmd") && !under(f.dir, "cmd"):
			report(spec.Pos(), "%s imports %s: nothing imports a command", f.dir, dir)
		case !layered || under(dir, layer) && under(f.dir, layer):
		default:
			// Of the state, the layers know the interface, not its implementations.
			target, ok := layerOf(dir)
			if !ok || !slices.Contains(layers[layer], target) || target == "state" && dir != "state" {
				report(spec.Pos(), "%s imports %s: it may import only %v of this module", f.dir, dir, layers[layer])
			}
		}
	}
}

// checkPureImports holds a pure package to packages that only compute.
func checkPureImports(f file, report reporter) {
	for _, spec := range f.syntax.Imports {
		p := importPath(spec)
		if spec.Name != nil && spec.Name.Name == "." {
			report(spec.Pos(), "%s is pure, and imports %s by a dot, which hides what it uses", f.dir, p)
		}
		if _, ok := ours(p); ok {
			continue // checkLayer's business
		}
		within := func(root string) bool { return under(p, root) }
		first, _, _ := strings.Cut(p, "/")
		switch {
		case p == "math/rand/v2":
		case strings.Contains(first, "."):
			if !slices.ContainsFunc(pureImports, within) {
				report(spec.Pos(), "%s is pure, and imports %s, which is not among the libraries that only compute", f.dir, p)
			}
		case slices.ContainsFunc(impureImports, within):
			report(spec.Pos(), "%s is pure, and imports %s", f.dir, p)
		}
	}
}

// checkPureCode finds goroutines, and uses of the clock and of global random sources under whatever name.
func checkPureCode(set *token.FileSet, f file, report reporter) {
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname") {
				report(c.Pos(), "%s is pure, and links to a name of another package", f.dir)
			}
		}
	}
	uses := resolve(set, f).Uses
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "%s is pure, and starts a goroutine", f.dir)
		case *ast.ChanType:
			report(n.Pos(), "%s is pure, and has a channel", f.dir)
		case *ast.SelectStmt:
			report(n.Pos(), "%s is pure, and selects from channels", f.dir)
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			name, ok := uses[id].(*types.PkgName)
			if !ok {
				return true
			}
			p, what := name.Imported().Path(), n.Sel.Name
			if p == "time" && slices.Contains(clock, what) ||
				p == "math/rand/v2" && !slices.Contains(pureRand, what) ||
				p == "runtime" && slices.Contains(processes, what) {
				report(n.Pos(), "%s is pure, and uses %s.%s", f.dir, p, what)
			}
		}
		return true
	})
}

// resolve finds which identifiers of a file name an imported package, as far as the file shows. It follows renamed imports, and skips local
// variables of the same name. Imports stand for empty packages, so that nothing but this file is needed; names that cannot be resolved
// without them are left out, and do not matter here.
func resolve(set *token.FileSet, f file) *types.Info {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: hollow{}, Error: func(error) {}}
	// The error is that names of the empty packages are not found.
	_, _ = config.Check(f.dir, set, []*ast.File{f.syntax}, info)
	return info
}

// hollow imports each package as an empty one of the usual name.
type hollow struct{}

func (hollow) Import(p string) (*types.Package, error) {
	name := path.Base(p)
	if rest := strings.TrimPrefix(name, "v"); rest != name && strings.Trim(rest, "0123456789") == "" {
		name = path.Base(path.Dir(p)) // math/rand/v2 is package rand
	}
	pkg := types.NewPackage(p, name)
	pkg.MarkComplete()
	return pkg, nil
}

// testSupport holds packages for tests of both modules, and the servers that tools start. Nothing that ships imports it.
const testSupport = "internal/test"

// isTestHelper reports whether a directory holds code that may be for tests only.
func isTestHelper(dir string) bool {
	return under(dir, testSupport) || under(dir, "internal/lint") || under(dir, "tools")
}

// checkTestSupport finds shipped code that imports a package for tests.
func checkTestSupport(f file, report reporter) {
	if f.test || isTestHelper(f.dir) {
		return
	}
	for _, spec := range f.syntax.Imports {
		if dir, ok := ours(importPath(spec)); ok && under(dir, testSupport) {
			report(spec.Pos(), "%s is shipped, and imports %s, which is for tests", f.dir, dir)
		}
	}
}

// testLibraries are forbidden in shipped code; flags and global state of package testing come with it.
var testLibraries = []string{"testing", "net/http/httptest", "github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak"}

// checkTesting finds shipped packages that import a test library, themselves or through others of this module.
func checkTesting(files []file, report reporter) {
	byDir := map[string][]file{}
	for _, f := range files {
		if !f.test {
			byDir[f.dir] = append(byDir[f.dir], f)
		}
	}
	for dir := range byDir {
		if isTestHelper(dir) {
			continue
		}
		seen := map[string]bool{}
		var walk func(dir string, chain []string)
		walk = func(dir string, chain []string) {
			if seen[dir] {
				return
			}
			seen[dir] = true
			for _, f := range byDir[dir] {
				for _, spec := range f.syntax.Imports {
					p := importPath(spec)
					if slices.ContainsFunc(testLibraries, func(root string) bool { return under(p, root) }) {
						report(spec.Pos(), "%s is shipped, and imports %s", strings.Join(append(chain, dir), " → "), p)
					}
					if next, ok := ours(p); ok {
						walk(next, append(slices.Clone(chain), dir))
					}
				}
			}
		}
		walk(dir, nil)
	}
}

// offline begins the names of the files, in the pure packages, that only the state commands use: carrying state over, resetting,
// inspecting.
const offline = "offline"

func isOffline(set *token.FileSet, f file) bool {
	return isPure(f.dir) && strings.HasPrefix(path.Base(set.Position(f.syntax.Pos()).Filename), offline)
}

// checkOffline finds uses of an offline file's names on the path of a record: in another file of a layer, or in the packages that run a
// worker. Tests may.
func checkOffline(set *token.FileSet, files []file, report reporter) {
	apart := map[string]map[string]bool{} // by directory, the names
	for _, f := range files {
		if isOffline(set, f) {
			if apart[f.dir] == nil {
				apart[f.dir] = map[string]bool{}
			}
			for _, name := range declared(f) {
				apart[f.dir][name] = name != "_"
			}
		}
	}
	for _, f := range files {
		if f.test || isOffline(set, f) || !isPure(f.dir) && f.dir != "stream" && f.dir != "internal/app" {
			continue
		}
		info, members := resolve(set, f), map[*ast.Ident]bool{} // the latter are no names of the package
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				members[n.Sel] = true
				if id, ok := n.X.(*ast.Ident); ok {
					if p, ok := info.Uses[id].(*types.PkgName); ok {
						if dir, _ := ours(p.Imported().Path()); apart[dir][n.Sel.Name] {
							report(n.Pos(), "%s uses %s.%s, which is for the state commands", f.dir, dir, n.Sel.Name)
						}
					}
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					members[id] = true
				}
			case *ast.Ident:
				_, defined := info.Defs[n]
				if info.Uses[n] == nil && !defined && !members[n] && apart[f.dir][n.Name] {
					report(n.Pos(), "%s uses %s, which is for the state commands", f.dir, n.Name)
				}
			}
			return true
		})
	}
}

// declared are the names that a file gives to its package.
func declared(f file) (names []string) {
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
