package faults

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCrashed_ReadsTheWholeLog(t *testing.T) {
	g := &Group{Name: "feed"}
	w := &Worker{g: g, dir: t.TempDir()}
	g.Slots = []*Worker{w}
	require.NoError(t, g.Close(), "no process was started")

	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, logName), []byte(text), 0o600))
	}
	write("level=INFO msg=ready\nlevel=ERROR msg=\"a policy says panic: no\"\n")
	require.NoError(t, g.Close())
	write("level=INFO msg=ready\npanic: index out of range\n\ngoroutine 1 [running]:\nlevel=INFO msg=\"ready once more\"\n")
	require.ErrorIs(t, g.Close(), ErrViolation)
	require.ErrorContains(t, g.Close(), "worker 0 of feed crashed: panic: index out of range")
}
