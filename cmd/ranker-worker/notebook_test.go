package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asProgram is the variable that makes the tests' binary the program itself.
const asProgram = "RANKER_WORKER_TESTS_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestNotebook: the notebook's cells run one after another, with this program, and give the outputs that it shows. With -update it writes
// these.
func TestNotebook(t *testing.T) {
	path, err := filepath.Abs("../../docs/learn/from-a-log-to-a-picture.ipynb")
	require.NoError(t, err)
	script, err := filepath.Abs("testdata/notebook.py")
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "ranker-worker")))
	cmd := exec.CommandContext(t.Context(), "python3", script, path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
	var faults strings.Builder
	cmd.Stderr = &faults
	got, err := cmd.Output()
	require.NoError(t, err, faults.String())
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	shown, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(shown), string(got), "outputs differ: go test ./cmd/ranker-worker -run TestNotebook -update")
	assert.Equal(t, 5, strings.Count(string(got), `"cell_type": "code"`))
	assert.Contains(t, string(got), "<svg")
}
