package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTermsOfTheGlossaryAreNamesOfTheCode: each stands for a package, for a name that the package exports, or for a member of such a type.
func TestTermsOfTheGlossaryAreNamesOfTheCode(t *testing.T) {
	terms := map[string]bool{}
	for _, row := range table(t, read(t, "glossary.md"), "## Terms", "term") {
		require.Len(t, row, 4, row)
		assert.NotContains(t, terms, row[0])
		terms[row[0]] = true
		name := strings.Trim(row[3], "`")
		dir, member, named := strings.Cut(filepath.Base(name), ".")
		dir = filepath.Join("..", filepath.Dir(name), dir)
		names := exported(t, dir)
		assert.NotEmpty(t, names, "%s: there is no package %s", row[0], dir)
		if named {
			assert.True(t, names[member], "%s: %s has no name %s", row[0], dir, member) // of a thousand names
		}
	}
}

// exported lists the exported names of a package's files, and the members of its types as Type.Member.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						names[spec.Name.Name] = true
						for _, m := range members(spec.Type) {
							names[spec.Name.Name+"."+m] = true
						}
					}
				}
			}
		}
	}
	return names
}

// members lists a struct's fields, or an interface's methods.
func members(of ast.Expr) (names []string) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}
