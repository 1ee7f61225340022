// Package theoremtest checks that tests of the paper's statements test learning: a learner that learns nothing fails them.
package theoremtest

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Check is a statement's claim in one world.
type Check[L any] struct {
	World string
	// Run returns an error if the claim does not hold. instead replaces the learner under test, for instance by a func(policy.Policy)
	// policy.Policy. Faults unrelated to the claim end t.
	Run func(t testing.TB, instead L) error
	// Blind is the reason that Run cannot detect a learner that learns nothing; "" if it can.
	Blind string
}

type Test[L any] struct {
	Name   string
	Checks []Check[L]
	// Blind is the reason that a test without checks has no learner to replace.
	Blind string
}

// Holds fails t unless all checks hold of the learner itself.
func Holds[L any](t *testing.T, checks []Check[L], itself L) {
	t.Helper()
	require.NotEmpty(t, checks)
	for _, c := range checks {
		require.NoError(t, c.Run(t, itself), c.World)
	}
}

// SeeNonLearners fails t unless each check without a reason fails with each of the non-learners. It also fails unless tests are all of the
// package's tests that are named after a statement, or stand beside one of the paper's in docs/contribute/statements.md.
func SeeNonLearners[L any](t *testing.T, pkg string, nonLearners map[string]L, tests []Test[L]) {
	t.Helper()
	var names []string
	for _, test := range tests {
		names = append(names, test.Name)
		require.NotEqual(t, len(test.Checks) == 0, test.Blind == "", "%s: either checks or a reason why not", test.Name)
		for _, c := range test.Checks {
			for name, instead := range nonLearners {
				if c.Blind != "" {
					continue
				}
				err := c.Run(t, instead)
				require.Error(t, err, "%s passes %s: %s", name, test.Name, c.World)
				t.Logf("%s, %s: %s: %v", test.Name, c.World, name, err)
			}
		}
	}
	slices.Sort(names)
	require.Equal(t, named(t, pkg), names, "tests of statements in package %s", pkg)
}

// statements matches tests named after a statement of the paper.
var statements = regexp.MustCompile(`^Test(Theorem|Lemma|Algorithm|Section|Appendix)[0-9A-Z]`)

// named returns the tests of statements among those of a package in the working directory, in order.
func named(t testing.TB, pkg string) (names []string) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	documented := documented(t)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		if file.Name.Name != pkg {
			continue
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && (statements.MatchString(f.Name.Name) || documented[f.Name.Name]) {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.SortFunc(names, cmp.Compare)
	return names
}

// documented returns the tests beside the paper's statements in the table of docs/contribute/statements.md, whose other rows are marked as ours.
func documented(t testing.TB) map[string]bool {
	dir, err := os.Getwd()
	require.NoError(t, err)
	page := filepath.Join("docs", "contribute", "statements.md")
	for !exists(filepath.Join(dir, page)) {
		require.NotEqual(t, filepath.Dir(dir), dir, "no %s above", page)
		dir = filepath.Dir(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, page))
	require.NoError(t, err)
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ours") {
			continue
		}
		for _, name := range regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(line, -1) {
			names[name[1]] = true
		}
	}
	require.NotEmpty(t, names)
	return names
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
