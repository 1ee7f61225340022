package faults

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	awaits   = regexp.MustCompile(`Await(Said|Unready|Reported)\(|cutOff\(ctx|\.says\(ctx|\bwaits := |\bconst outside `)
	literals = regexp.MustCompile("\"((?:[^\"\\\\]|\\\\.)+)\"|`([^`]+)`")
)

// TestAwaitedMessagesExist in the worker's source: faults await them, and most faults happen in soaks only. A quoted name stands for %q.
func TestAwaitedMessagesExist(t *testing.T) {
	worker := sources(t, "../../stream", "../../state", "../../internal", "../../cmd", "../../delay")
	found := 0
	for line := range strings.Lines(sources(t, ".")) {
		if !awaits.MatchString(line) || strings.HasPrefix(line, "func ") {
			continue
		}
		for _, literal := range literals.FindAllStringSubmatch(line, -1) {
			for _, text := range regexp.MustCompile(`"[a-z]+"`).Split(literal[1]+literal[2], -1) {
				if text = strings.Trim(text, ` :`); text != "" {
					found++
					assert.Contains(t, worker, text)
				}
			}
		}
	}
	require.Greater(t, found, 10)
}

// sources returns all Go sources of directories but tests.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}
