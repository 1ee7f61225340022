package checker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLawsAreDocumented: each law has a statement in laws.go and stands on the page of laws, which names no other.
func TestLawsAreDocumented(t *testing.T) {
	statements, err := os.ReadFile("laws.go")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "contribute", "laws.md"))
	require.NoError(t, err)
	for _, name := range lawNames {
		require.NotEmpty(t, name)
		require.Regexp(t, `"`+regexp.QuoteMeta(name)+`"\) +// \w`, string(statements))
		require.Contains(t, string(page), "`"+name+"`")
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+)").FindAllSubmatch(page, -1) {
		for _, name := range strings.Split(strings.TrimSpace(string(row[1])), ", ") {
			require.Contains(t, lawNames, strings.Trim(name, "`"))
		}
	}
}

// TestNothingIsSharedWithTheStateMachine: a bug there must not be repeated here. The machine's packages
// are not imported, except blocks of time, and package task for the names of its requests to Kafka.
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
		for _, m := range regexp.MustCompile(`\binflight\.([A-Z]\w*)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, []string{"Scheme", "NewScheme", "NewSchemeUpTo", "Bucket", "Shortest"}, m[1], file)
		}
	}
}
