package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

func TestLimitedFilesDoNotGrow(t *testing.T) {
	p := shell(t, `trap '' XFSZ
while :; do if echo x >>grows 2>/dev/null; then touch could; rm -f could_not; else rm -f could; touch could_not; fi; sleep 0.01; done`)
	exists := func(file string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(filepath.Dir(p.LogPath()), file)); return err == nil }
	}
	await(t, "it writes", exists("could"))
	require.NoError(t, p.LimitFiles(1))
	await(t, "it cannot write", exists("could_not"))
	require.NoError(t, p.LimitFiles(-1))
	await(t, "it writes again", exists("could"))
	require.NoError(t, p.Kill())
	require.ErrorIs(t, p.LimitFiles(1), proc.ErrExited)
}
