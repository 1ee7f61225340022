package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaults_AreThoseOfThePage: docs/runbooks/faults.md lists each kind once, and no other. A name that ends with … lists all kinds that
// begin with it.
func TestFaults_AreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbooks", "faults.md"))
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*)\\|$").FindAllStringSubmatch(string(page), -1) {
		cells := strings.Split(row[1], "|")
		require.Len(t, cells, 3, row)
		require.NotEmpty(t, strings.TrimSpace(cells[1]), row)
		for _, kind := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			listed = append(listed, kind[1])
		}
	}
	found := map[string]int{}
	for _, f := range Faults() {
		times := 0
		for _, name := range listed {
			prefix, open := strings.CutSuffix(name, " …")
			if f.Kind == name || open && (f.Kind == prefix || strings.HasPrefix(f.Kind, prefix+" ")) {
				times++
				found[name]++
			}
		}
		require.Equal(t, 1, times, f.Kind)
	}
	require.Len(t, found, len(listed), "names of no fault")
}
