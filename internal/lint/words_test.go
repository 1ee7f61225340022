package lint

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// translated matches words that stand where a term is missing, and idioms that are not English.
var translated = regexp.MustCompile(`(?i)\b(what|told|tells?|anew|of before)\b`)

// most bounds the lines with such a word. Nobody raises a bound, and whoever removes slack lines lowers it.
var most = map[string]int{".go": 4290, ".md": 1196}

const slack = 60

// TestTranslatedWordsBecomeFewer, in comments and in documentation.
func TestTranslatedWordsBecomeFewer(t *testing.T) {
	found := map[string]int{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if strings.HasPrefix(name, ".") && path != "../.." || name == "node_modules" || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(name)
		if _, counted := most[kind]; !counted {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && kind == ".go" {
			text, err = comments(path, text)
		}
		for line := range strings.Lines(string(text)) {
			if translated.MatchString(line) {
				found[kind]++
			}
		}
		return err
	}))
	for kind, n := range found {
		assert.LessOrEqual(t, n, most[kind], "lines of %s files with a word of %v", kind, translated)
		assert.Greater(t, n, most[kind]-slack, "lines of %s files: lower the bound", kind)
	}
}

// comments returns a source file's comments.
func comments(path string, text []byte) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, group := range file.Comments {
		for _, c := range group.List {
			all = append(append(all, c.Text...), '\n')
		}
	}
	return all, nil
}
