package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaults_AreThoseOfThePage: docs/operations.md lists each kind once, and no other.
func TestFaults_AreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n### What happens when something fails\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n#")
	var tried, told []string
	for _, f := range Faults() {
		tried = append(tried, f.Kind)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*)\\|$").FindAllStringSubmatch(section, -1) {
		cells := strings.Split(row[1], "|")
		require.Len(t, cells, 4, row)
		require.NotEmpty(t, strings.TrimSpace(cells[2]), row)
		for _, kind := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			told = append(told, kind[1])
		}
	}
	require.ElementsMatch(t, tried, told)
}
