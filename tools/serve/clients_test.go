package serve

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

const openapi = "../../docs/openapi.yaml"

// TestGeneratedClients: clients that others' generators make of the description, for TypeScript and for Python, rank, select and pay.
func TestGeneratedClients(t *testing.T) {
	if testenv.Short() {
		t.Logf("left out, because %s=1: the clients, which make tools fetches", testenv.ShortEnv)
		return
	}
	cache, err := realkafka.CacheDir()
	require.NoError(t, err)
	p := newPlace(t, testenv.Embedded(t), 2, patient, "")
	p.work(t)
	r := p.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	t.Run("TypeScript", func(t *testing.T) {
		modules := filepath.Join(cache, "typescript", "node_modules")
		dir := copied(t, "testdata/typescript/client.ts", "testdata/typescript/package.json")
		require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		program := func(name string) string { return installed(t, filepath.Join(modules, ".bin", name)) }
		run(ctx, t, dir, program("openapi-typescript"), absolute(t, openapi), "-o", "schema.d.ts")
		run(ctx, t, dir, program("tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "client.ts")
		run(ctx, t, dir, "node", "client.js", r.url)
	})
	t.Run("Python", func(t *testing.T) {
		bin := filepath.Join(cache, "python-client", "bin")
		dir := copied(t, "testdata/python/client.py")
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		run(ctx, t, dir, installed(t, filepath.Join(bin, "openapi-python-client")), "generate", "--path", absolute(t, openapi), "--meta", "none",
			"--output-path", "generated")
		run(ctx, t, dir, installed(t, filepath.Join(bin, "python")), "client.py", r.url)
	})
}

// installed is the path of a program, which must be there.
func installed(t *testing.T, program string) string {
	t.Helper()
	path := absolute(t, program)
	_, err := os.Stat(path)
	require.NoError(t, err, "generators of clients are not installed: make tools (it needs node with npm, and python3 with pip and venv)")
	return path
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

// copied is a directory with copies of some files.
func copied(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600))
	}
	return dir
}

func run(ctx context.Context, t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s %v: %s", name, args, &out)
}
