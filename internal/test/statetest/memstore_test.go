package statetest_test

import (
	"crypto/rand"
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/internal/test/statetest"
)

// TestMemstore runs the suite on the simulations' store, so that their results hold for Redis. It writes atomically:
// nothing can be torn.
func TestMemstore(t *testing.T) {
	statetest.Run(t, func(*testing.T) statetest.Subject {
		s := memstore.New(rand.Text)
		return statetest.Subject{Store: s, Other: s, Snapshot: func(_ *testing.T, p int32) func() {
			c := s.Copy(p)
			return func() { s.Restore(p, c) }
		}}
	})
}
