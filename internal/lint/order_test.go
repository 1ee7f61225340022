package lint

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// backUp are packages whose files a reader can take from the lowest to the highest, with the number of arrows back up. An arrow is a pair of
// files, one of which uses the other. The numbers may only fall.
var backUp = map[string]int{
	"config":           0,
	"delay":            0,
	"policy":           12,
	"stream/partition": 0,
	"stream/task":      21,
	"tools/checker":    18,
}

// TestFilesAreInOrder fails if more files of a package come to use higher ones. Usually a function stands beside the type that it belongs to,
// and calls functions that are built upon that type. It belongs in the higher file.
func TestFilesAreInOrder(t *testing.T) {
	for dir, most := range backUp {
		uses := fileUses(t, dir)
		up := arrowsUp(uses, inOrder(uses))
		switch n := len(up); {
		case n > most:
			var all []string
			for _, a := range up {
				all = append(all, a[0]+" uses "+strings.Join(slices.Sorted(maps.Keys(uses[a[0]][a[1]])), ", ")+" of "+a[1])
			}
			t.Errorf("%s: %d arrows back up, %d are allowed:\n%s", dir, n, most, strings.Join(all, "\n"))
		case n < most:
			t.Errorf("%s: lower its number to %d", dir, n)
		}
	}
}

// TestArrowsBackUpAreFound orders chains and circles.
func TestArrowsBackUpAreFound(t *testing.T) {
	for text, want := range map[string]int{"": 0, "ab bc ac": 0, "ab bc cb cd": 1, "ab ba bc cd de ed": 2, "ab bc ca": 1, "ba ca da ab ac": 2} {
		uses := fileGraph{}
		for _, a := range strings.Fields(text) {
			uses.add(a[:1], a[1:], "name")
		}
		require.Len(t, arrowsUp(uses, inOrder(uses)), want, text)
	}
}

// fileGraph has, by file and by other file of the package, the functions, methods, types, variables and constants of the latter that the
// former uses.
type fileGraph map[string]map[string]map[string]bool

func (g fileGraph) add(from, to, name string) {
	for _, f := range []string{from, to} {
		if g[f] == nil {
			g[f] = map[string]map[string]bool{}
		}
	}
	if g[from][to] == nil {
		g[from][to] = map[string]bool{}
	}
	g[from][to][name] = true
}

// inOrder returns the files from the lowest to the highest. It begins with an order that has no arrow up if there is one, and moves
// single files while that leaves fewer arrows up. The fewest possible may be fewer.
func inOrder(uses fileGraph) (order []string) {
	files := slices.Sorted(maps.Keys(uses))
	seen := map[string]bool{}
	var place func(f string)
	place = func(f string) {
		if !seen[f] {
			seen[f] = true
			for _, g := range slices.Sorted(maps.Keys(uses[f])) {
				place(g)
			}
			order = append(order, f)
		}
	}
	for _, f := range files {
		place(f)
	}
	for fewest, before := len(arrowsUp(uses, order)), -1; fewest > 0 && fewest != before; {
		before = fewest
		for _, f := range files {
			rest := slices.DeleteFunc(slices.Clone(order), func(g string) bool { return g == f })
			for at := range len(order) {
				tried := slices.Insert(slices.Clone(rest), at, f)
				if n := len(arrowsUp(uses, tried)); n < fewest {
					fewest, order = n, tried
				}
			}
		}
	}
	return order
}

// arrowsUp returns the pairs of files of which the first uses the second, which is higher.
func arrowsUp(uses fileGraph, order []string) (up [][2]string) {
	for at, from := range order {
		for _, to := range order[at+1:] {
			if uses[from][to] != nil {
				up = append(up, [2]string{from, to})
			}
		}
	}
	return up
}

// fileUses returns the graph of a package's files, tests aside.
func fileUses(t *testing.T, dir string) fileGraph {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", ".")
	list.Dir = filepath.Join("..", "..", dir)
	out, err := list.Output()
	require.NoError(t, err, dir)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = export
	}
	set := token.NewFileSet()
	var files []*ast.File
	uses := fileGraph{}
	fileOf := func(p token.Pos) string { return filepath.Base(set.Position(p).Filename) }
	for _, f := range read(t, set, list.Dir) {
		if f.dir == "" && !f.test {
			files = append(files, f.syntax)
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(set, "gc", open)}).Check(dir, set, files, info)
	require.NoError(t, err, dir)
	for at, used := range info.Uses {
		if f, ok := used.(*types.Func); ok {
			used = f.Origin()
		}
		_, function := used.(*types.Func)
		if used.Pkg() != pkg || used.Parent() != pkg.Scope() && !function {
			continue // fields come with their types
		}
		from, to := fileOf(at.Pos()), fileOf(used.Pos())
		if from != to {
			uses.add(from, to, used.Name())
		}
	}
	return uses
}
