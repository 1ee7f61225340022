package checker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLawsAreDocumented: each law stands in the package's documentation and on the page about the architecture, and
// neither names one that is not.
func TestLawsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	require.NoError(t, err)
	for _, name := range lawNames {
		require.NotEmpty(t, name)
		require.Regexp(t, `(?m)^//   - (.*, )?`+regexp.QuoteMeta(name)+`[,:]`, string(doc))
		require.Contains(t, string(page), "`"+name+"`")
	}
	for _, m := range regexp.MustCompile("`((?:meta|rankings|account|entries|items|delay|silence|qpmd|bold)\\.[a-z]+)`").FindAllSubmatch(page, -1) {
		require.Contains(t, lawNames, string(m[1]))
	}
}

// TestNothingIsSharedWithTheStateMachine: a mistake there must not be repeated here. The machine's own packages are not
// imported; of package silence its grid, for blocks of time, and package task only for what its requests to Kafka are called.
func TestNothingIsSharedWithTheStateMachine(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	forbidden := regexp.MustCompile(`ranker-worker/(stream/partition|delay|policy|state|internal/admin|internal/learners)\b`)
	for _, file := range files {
		if matched, _ := filepath.Match("*_test.go", file); matched {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(source), `ranker-worker/delay/inflight"`, "")
		require.NotRegexp(t, forbidden, text, file)
		for _, m := range regexp.MustCompile(`\bsilence\.([A-Z]\w*)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, []string{"Grid", "NewGrid", "NewGridUpTo", "Block"}, m[1], file)
		}
	}
}
