// Package transcript runs tests that are transcripts of commands and results.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata")

// Run plays each file of testdata in a test of its own, and compares the results. A file is a list of blocks with an empty line between
// them: commands, a line "----", results. Lines that begin with # are comments. The function that begin returns carries out one command,
// given as its words, and returns the lines of its result.
func Run(t *testing.T, begin func(*testing.T) func(words []string) []string) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(string(content), begin(t))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(content), got)
		})
	}
}

// play returns a transcript with the present results.
func play(text string, do func(words []string) []string) string {
	var b strings.Builder
	for i, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		commands, _, _ := strings.Cut(block, "\n----")
		b.WriteString(commands + "\n")
		var lines []string
		done := false
		for c := range strings.SplitSeq(commands, "\n") {
			if c != "" && c[0] != '#' {
				lines = append(lines, do(strings.Fields(c))...)
				done = true
			}
		}
		if done {
			b.WriteString("----\n" + strings.Join(append(lines, ""), "\n"))
		}
	}
	return b.String()
}
