package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// translated matches words that stand where a term is missing, and idioms that are not English.
var translated = regexp.MustCompile(`(?i)\b(what|told|tells?|anew|of before)\b`)

// most bounds the lines with such a word, by kind of file; messages are Go's strings outside tests. Nobody raises a bound, and whoever
// removes slack lines lowers it.
var most = map[string]int{".go": 0, messages: 0, ".md": 18, ".yaml": 0, ".json": 0, ".proto": 0, ".tpl": 0}

const messages = "messages"

// mostLong bounds the sentences of doc comments above longest words, by the same rule.
const (
	mostLong = 1
	longest  = 30
	slack    = 10
)

// versions matches talk of versions that nobody ever ran: 0.1.0 is the first.
var versions = regexp.MustCompile(`(?i)\b(earlier|older|previous|former) versions?\b|\bversions? before\b`)

// TestTranslatedWordsBecomeFewer, in comments, messages, documentation, and the files of deploy/.
func TestTranslatedWordsBecomeFewer(t *testing.T) {
	found := map[string]int{}
	count := func(kind string, text string) {
		for line := range strings.Lines(text) {
			if translated.MatchString(line) {
				found[kind]++
			}
		}
	}
	eachText(t, func(path string, text []byte) { count(filepath.Ext(path), string(text)) })
	eachFile(t, func(path string, text []byte) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.Contains(s.Value, " ") {
				message, err := strconv.Unquote(s.Value)
				require.NoError(t, err)
				count(messages, message)
			}
			return true
		})
	})
	for kind, n := range found {
		atMost(t, n, most[kind], "lines of "+kind+" files with a word of "+translated.String())
	}
}

// TestNoEarlierVersion is named in comments or documentation.
func TestNoEarlierVersion(t *testing.T) {
	eachText(t, func(path string, text []byte) {
		text = bytes.ReplaceAll(text, []byte("\n//"), nil)
		assert.Empty(t, versions.FindString(string(text)), path)
	})
}

// TestSentencesBecomeShorter, in doc comments.
func TestSentencesBecomeShorter(t *testing.T) {
	long := 0
	eachFile(t, func(path string, text []byte) {
		if filepath.Ext(path) != ".go" {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, doc := range docs(file) {
			long += longSentences(doc.Text())
		}
	})
	atMost(t, long, mostLong, "sentences of doc comments with more than 30 words")
	require.Equal(t, 1, longSentences("A b.\n"+strings.Repeat("word ", 31)+"end. A b.\n\n\t"+strings.Repeat("code ", 40)))
}

// atMost holds a count to its bound, and the bound to the count.
func atMost(t *testing.T, n, bound int, what string) {
	assert.LessOrEqual(t, n, bound, what)
	assert.Greater(t, n, bound-slack, what+": lower the bound")
}

// docs returns the doc comments of a file: of the package, declarations, fields and methods.
func docs(file *ast.File) (all []*ast.CommentGroup) {
	ast.Inspect(file, func(n ast.Node) bool {
		var doc *ast.CommentGroup
		switch n := n.(type) {
		case *ast.File:
			doc = n.Doc
		case *ast.GenDecl:
			doc = n.Doc
		case *ast.FuncDecl:
			doc = n.Doc
		case *ast.TypeSpec:
			doc = n.Doc
		case *ast.ValueSpec:
			doc = n.Doc
		case *ast.Field:
			doc = n.Doc
		}
		if doc != nil {
			all = append(all, doc)
		}
		return true
	})
	return all
}

var sentenceEnd = regexp.MustCompile(`[.?!]\s`)

// longSentences counts a text's sentences above longest words. Blank lines and list items end a sentence, too; code blocks have none.
func longSentences(text string) (n int) {
	var plain strings.Builder
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimLeft(line, " "); {
		case strings.HasPrefix(line, "\t"), trimmed == "\n":
			plain.WriteString(". ")
		case strings.HasPrefix(trimmed, "- "):
			plain.WriteString(". " + trimmed)
		default:
			plain.WriteString(line)
		}
	}
	for _, sentence := range sentenceEnd.Split(plain.String(), -1) {
		if len(strings.Fields(sentence)) > longest {
			n++
		}
	}
	return n
}

// eachText calls do with the comments of each Go file, and with each page of documentation.
func eachText(t *testing.T, do func(path string, text []byte)) {
	eachFile(t, func(path string, text []byte) {
		if filepath.Ext(path) == ".go" {
			var err error
			text, err = comments(path, text)
			require.NoError(t, err)
		}
		do(path, text)
	})
}

// eachFile calls do with each file of both modules whose lines are bounded.
func eachFile(t *testing.T, do func(path string, text []byte)) {
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
		if _, counted := most[filepath.Ext(name)]; !counted {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			do(path, text)
		}
		return err
	}))
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
