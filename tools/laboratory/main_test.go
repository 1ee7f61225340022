package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every study has its place in the page and its picture, and can be played; the page has no others.
func TestStudiesAreThoseOfThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, s := range studies() {
		require.Contains(t, string(page), begin(s.name))
		require.Contains(t, string(page), end(s.name))
		require.Contains(t, string(page), "](laboratory/"+s.name+".svg)")
		require.FileExists(t, filepath.Join(root, pictures, s.name+".svg"))
		s.experiment.Horizon, s.experiment.Runs = 50, 2
		results, err := s.play(context.Background())
		require.NoError(t, err, s.name)
		require.Greater(t, len(results), 1)
	}
	require.Equal(t, 2*len(studies()), strings.Count(string(page), "<!-- laboratory: "))
}
