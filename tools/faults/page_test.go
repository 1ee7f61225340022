package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaults_AreThoseOfThePage: docs/runbooks/faults.md lists each kind once, and no other.
func TestFaults_AreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbooks", "faults.md"))
	require.NoError(t, err)
	var tried, listed []string
	for _, f := range Faults() {
		tried = append(tried, f.Kind)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*)\\|$").FindAllStringSubmatch(string(page), -1) {
		cells := strings.Split(row[1], "|")
		require.Len(t, cells, 3, row)
		require.NotEmpty(t, strings.TrimSpace(cells[1]), row)
		for _, kind := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			listed = append(listed, kind[1])
		}
	}
	require.ElementsMatch(t, tried, listed)
}
