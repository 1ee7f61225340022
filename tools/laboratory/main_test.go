package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// final is the regret in a row of a table.
var final = regexp.MustCompile(`(?m)^\| \w[^|]* \| (-?\d+) \|`)

// Every study has its place in the page and its picture, with the figures of its table at line ends, and can be played; the page
// has no others.
func TestStudiesAreThoseOfThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, s := range studies() {
		require.Contains(t, string(page), begin(s.name))
		require.Contains(t, string(page), end(s.name))
		require.Contains(t, string(page), "](laboratory/"+s.name+".svg)")
		picture, err := os.ReadFile(filepath.Join(root, pictures, s.name+".svg"))
		require.NoError(t, err)
		_, table, _ := strings.Cut(string(page), begin(s.name))
		table, _, _ = strings.Cut(table, end(s.name))
		finals := final.FindAllStringSubmatch(table, -1)
		require.Greater(t, len(finals), 1)
		for _, m := range finals {
			regret, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Contains(t, string(picture), ">"+strings.Replace(config.Grouped(regret), "-", "−", 1)+"</text>", s.name)
		}
		s.experiment.Horizon, s.experiment.Runs = 50, 2
		results, err := s.play(context.Background())
		require.NoError(t, err, s.name)
		require.Greater(t, len(results), 1)
	}
	require.Equal(t, 2*len(studies()), strings.Count(string(page), "<!-- laboratory: "))
}
