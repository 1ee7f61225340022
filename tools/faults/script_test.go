package faults

import (
	"cmp"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScript: the first failure ends a script, damage is undone nevertheless, and a bug stays a panic.
func TestScript(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	failed, stuck := errors.New("failed"), errors.New("stuck")
	undone := 0
	count := func() error { undone++; return nil }
	require.NoError(t, script(ctx, func() { defer undo(count); try(nil) }))
	err := script(ctx, func() {
		defer undo(func() error { return stuck })
		defer undo(count)
		get(1, failed)
		t.Error("a step after the failure")
	})
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, err, stuck)
	require.ErrorIs(t, script(ctx, func() { defer undo(func() error { return stuck }) }), stuck)
	require.ErrorIs(t, script(ctx, func() { expect(ctx, failed) }), ErrViolation)
	require.ErrorIs(t, script(ctx, func() { expectNone([]string{"one"}) }), ErrViolation)
	require.Panics(t, func() { _ = script(ctx, func() { defer undo(count); panic("bug") }) })
	require.Equal(t, 3, undone)
	cancel()
	require.ErrorIs(t, script(ctx, func() {}), context.Canceled)
	require.NotErrorIs(t, script(ctx, func() { expect(ctx, failed) }), ErrViolation)
}

// TestScripts_StepsAreTheirOwn: callbacks of until and other goroutines have no step of a script, not even in a function that they call.
func TestScripts_StepsAreTheirOwn(t *testing.T) {
	steps := map[string]bool{"fail": true, "try": true, "get": true, "expect": true, "undo": true}
	called := func(f ast.Expr) string { // .name for methods
		switch f := ast.Unparen(f).(type) {
		case *ast.Ident:
			return f.Name
		case *ast.SelectorExpr:
			return "." + f.Sel.Name
		}
		return ""
	}
	step := func(in ast.Node) (found string) { // the first one, scripts of its own aside
		ast.Inspect(in, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && steps[called(call.Fun)] {
				found = cmp.Or(found, called(call.Fun))
			}
			return !ok || called(call.Fun) != "script"
		})
		return found
	}
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	for known := 0; known < len(steps); {
		known = len(steps)
		for _, f := range files {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && step(d.Body) != "" {
					steps[map[bool]string{true: "."}[d.Recv != nil]+d.Name.Name] = true
				}
			}
		}
	}
	require.True(t, steps[".runOn"] && steps[".keepsLaws"])
	require.False(t, steps[".Measure"] || steps[".Endure"])
	seen := 0
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			var apart []ast.Expr
			switch n := n.(type) {
			case *ast.GoStmt:
				apart = []ast.Expr{n.Call.Fun}
			case *ast.CallExpr:
				if slices.Contains([]string{"until", "every", ".Go", "OnceValue"}, called(n.Fun)) {
					apart = n.Args
				}
			}
			for _, x := range apart {
				seen++
				require.Empty(t, step(x), set.Position(x.Pos()))
			}
			return true
		})
	}
	require.Greater(t, seen, 50)
}
