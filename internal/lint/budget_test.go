package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rooms are the parts of the shipped code and of tools, by the beginning of their directories, with their lines of Go, tests aside. A file
// counts in the room with the longest match. A room may grow by spare percent; a change that needs more raises its number here.
var rooms = map[string]int{
	"cmd":                4760,
	"config":             5100,
	"delay":              11330,
	"docs":               20,
	"internal":           7890,
	"internal/admin":     3940,
	"internal/dashboard": 1980,
	"internal/evaluate":  2800,
	"internal/joinedlog": 1700,
	"internal/lab":       4380,
	"internal/platform":  590,
	"internal/registry":  620,
	"internal/serve":     1940,
	"policy":             9200,
	"state":              2840,
	"stream":             5640,
	"stream/broker":      3770,
	"stream/event":       3160,
	"stream/experiment":  1950,
	"stream/partition":   10480,
	"stream/replay":      1660,
	"stream/task":        4340,
	"tools":              5710,
	"tools/checker":      7430,
	"tools/faults":       5200,
}

const (
	spare           = 2 // percent
	mostMethods     = 40
	mostFields      = 25
	mostOfInterface = 10
)

// larger are the types above a limit, with their numbers, which may only fall. A type within the limit has no line here.
var larger = map[string]int{
	"fields of config.Learner":              29,
	"fields of delay.awaiting":              30,
	"fields of delay.contexts":              32,
	"fields of internal/dashboard.Learner":  29,
	"fields of internal/lab.Result":         35,
	"fields of internal/lab.World":          33,
	"fields of stream.Metrics":              34,
	"fields of stream/replay.replayed":      39,
	"fields of stream/task.Task":            28,
	"fields of tools/checker.entry":         32,
	"fields of tools/checker.fold":          37,
	"fields of tools/checker.learnerFold":   27,
	"fields of tools/checker.life":          28,
	"fields of tools/checker.storedLearner": 34,
	"interface delay.Learner":               19,
	"interface delay.Pooling":               15,
	"interface policy/preference.Finder":    12,
	"interface stream/task.Shell":           17,
	"methods of delay.awaiting":             44,
	"methods of delay.base":                 59,
	"methods of delay.contexts":             83,
	"methods of internal/admin.Tool":        70,
	"methods of policy/contextual.Model":    59,
	"methods of state/redisstore.Store":     46,
	"methods of stream/task.Task":           79,
	"methods of tools/checker.fold":         95,
	"methods of tools/checker.learnerFold":  62,
}

// TestRoomsKeepToTheirLines fails if a part of the code has grown.
func TestRoomsKeepToTheirLines(t *testing.T) {
	set := token.NewFileSet()
	lines, byDir := map[string]int{}, map[string]int{}
	imports := map[string][]string{}
	for _, f := range read(t, set, filepath.Join("..", "..")) {
		if f.test || under(f.dir, "internal/test") {
			continue
		}
		n := set.File(f.syntax.Pos()).LineCount() - 1
		room := roomOf(f.dir)
		require.NotEmpty(t, room, "no room holds %s", f.dir)
		lines[room] += n
		byDir[f.dir] += n
		for _, spec := range f.syntax.Imports {
			if dir, ok := ours(importPath(spec)); ok {
				imports[f.dir] = append(imports[f.dir], dir)
			}
		}
	}
	for room, most := range rooms {
		assert.LessOrEqual(t, 100*lines[room], (100+spare)*most, "%s has %d lines, its number is %d. The program has %d", room, lines[room], most,
			linked(imports, byDir))
	}
}

func roomOf(dir string) (room string) {
	for r := range rooms {
		if under(dir, r) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

// linked returns the lines of this module that are linked into the program.
func linked(imports map[string][]string, lines map[string]int) (n int) {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		n += lines[dir]
		for _, d := range imports[dir] {
			visit(d)
		}
	}
	visit("cmd/ranker-worker")
	return n
}

// TestTypesAreSmall bounds the methods and fields of types, and the methods of interfaces.
func TestTypesAreSmall(t *testing.T) {
	set := token.NewFileSet()
	sizes := map[string]int{}
	for _, f := range read(t, set, filepath.Join("..", "..")) {
		if f.test || under(f.dir, "internal/test") {
			continue
		}
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					sizes[fmt.Sprintf("methods of %s.%s", f.dir, receiver(d.Recv.List[0].Type))]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						measure(sizes, f.dir+"."+s.Name.Name, s.Type)
					}
				}
			}
		}
	}
	for what, n := range sizes {
		kind, _, _ := strings.Cut(what, " ")
		most := map[string]int{"methods": mostMethods, "fields": mostFields, "interface": mostOfInterface}[kind]
		allowed, excepted := larger[what]
		if n <= most {
			assert.False(t, excepted, "%s: %d are within the limit of %d: take it out of larger", what, n, most)
			continue
		}
		assert.LessOrEqual(t, n, max(most, allowed), what)
	}
	for what := range larger {
		assert.Contains(t, sizes, what, "there is no such type: take it out of larger")
	}
}

func measure(sizes map[string]int, name string, of ast.Expr) {
	switch x := of.(type) {
	case *ast.StructType:
		for _, f := range x.Fields.List {
			sizes["fields of "+name] += max(1, len(f.Names))
		}
	case *ast.InterfaceType:
		sizes["interface "+name] = len(slices.DeleteFunc(slices.Clone(x.Methods.List), func(f *ast.Field) bool { return len(f.Names) == 0 }))
	}
}

// receiver returns the name of a method's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
