package docs_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// TestTutorialsAreShort: the three of them have at most 25 KB together.
func TestTutorialsAreShort(t *testing.T) {
	paths, err := filepath.Glob("learn/*.md")
	require.NoError(t, err)
	require.Len(t, paths, 3)
	bytes := 0
	for _, path := range paths {
		bytes += len(read(t, path))
	}
	assert.LessOrEqual(t, bytes, 25<<10)
}

// TestTutorialsShowTheirConfigurations: each file beside the tutorials loads without a warning, and its page has it in full.
func TestTutorialsShowTheirConfigurations(t *testing.T) {
	shown := map[string]string{"learn/shop.yaml": "learn/your-own-events.md", "learn/experiment.yaml": "learn/is-it-better.md"}
	for path, page := range shown {
		text := read(t, path)
		assert.Contains(t, fences(t, page), text, path)
		_, warnings, err := config.Load(path, []byte(text), func(string) (string, bool) { return "", false })
		require.NoError(t, err, path)
		assert.Empty(t, warnings, path)
	}
}

// TestFiguresOfTheDemoAreThoseOfItsTutorial: README.md repeats lines of the output that the tutorial shows.
func TestFiguresOfTheDemoAreThoseOfItsTutorial(t *testing.T) {
	blocks := fences(t, "../README.md")
	at := slices.IndexFunc(blocks, func(text string) bool { return strings.HasPrefix(text, "Learner ") })
	require.GreaterOrEqual(t, at, 0)
	output := strings.Join(fences(t, "learn/ten-minutes.md"), "\n")
	assert.Contains(t, output, blocks[at])
	mean := found(t, blocks[at], `(\d\.\d{3}) `, 3)
	_, text, _ := strings.Cut(read(t, "learn/ten-minutes.md"), "## 2. Read the numbers")
	for _, figure := range mean {
		assert.Contains(t, text, figure)
	}
}
