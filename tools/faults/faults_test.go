package faults

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/failpoint"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

var seed = flag.Uint64("seed", 0, "of the faults; 0: another one each time")

// TestSoak_NothingLostNothingTwice: a short mix of faults of all kinds on real processes. The long one is `make soak`.
func TestSoak_NothingLostNothingTwice(t *testing.T) {
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka and a real redis-server", testenv.ShortEnv)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	c, err := StartCluster(ctx, t.TempDir(), t.Logf)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	r, err := c.Soak(ctx, Options{Duration: 25 * time.Second, Seed: *seed, Rate: 300, Quick: true, Say: t.Logf})
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	t.Log(table.String())
	require.NoError(t, err)
	require.Empty(t, r.Violations)
	require.Greater(t, r.Faults(), 15)
	require.Positive(t, r.Read[0])
	require.Positive(t, r.Ruled)
}

// TestFaults_AreWhole: each kind has a name of its own, and a resource that has room.
func TestFaults_AreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		require.False(t, seen[f.Kind], f.Kind)
		require.Positive(t, capacity[f.Uses], f.Kind)
		require.NotNil(t, f.Inject, f.Kind)
		seen[f.Kind] = true
	}
	require.GreaterOrEqual(t, len(seen), 95)
}

// TestFailpoints_AreNotInTheShippedBinary: without the tag, nothing of them is left.
func TestFailpoints_AreNotInTheShippedBinary(t *testing.T) {
	for tag, there := range map[string]bool{"": false, "failpoints": true} {
		binary := filepath.Join(t.TempDir(), "ranker-worker")
		cmd := exec.Command("go", "build", "-tags", tag, "-ldflags", "-s -w", "-o", binary, "github.com/ranker-worker/ranker-worker/cmd/ranker-worker")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		code, err := os.ReadFile(binary)
		require.NoError(t, err)
		require.Equal(t, there, bytes.Contains(code, []byte(failpoint.PointsEnv)), "tag %q", tag)
	}
	require.False(t, failpoint.Enabled)
}
