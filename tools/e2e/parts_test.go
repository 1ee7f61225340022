package e2e

import (
	"os"
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// partEnv names the part of these tests that a run is for; unset, it runs all. `make test` runs both parts, side by side: "raced", which has
// the race detector, and "plain", which has not and so is several times as fast.
const partEnv = "RANKER_TEST_PART"

const raced, plainly = "raced", "plain"

// each is testenv.Each. The race detector watches the worker on the real pair; on the embedded pair it is the same worker.
func each(t *testing.T, f func(t *testing.T, env testenv.Env)) {
	t.Helper()
	switch os.Getenv(partEnv) {
	case raced:
		t.Run("real", func(t *testing.T) { f(t, testenv.Real(t)) })
	case plainly:
		t.Run("embedded", func(t *testing.T) { f(t, testenv.Embedded(t)) })
	default:
		testenv.Each(t, f)
	}
}

// only leaves a test out of runs of the other part. The plain one has long plays, and workers that are processes of their own, whose binary
// has no race detector; the raced one has all other tests.
func only(t *testing.T, part string) {
	t.Helper()
	if of := os.Getenv(partEnv); of != "" && of != part {
		t.Skipf("left out, because %s=%s: it is of the part %q", partEnv, of, part)
	}
}
