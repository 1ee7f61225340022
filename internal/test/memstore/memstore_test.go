package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/internal/test/statetest"
)

func TestSuite(t *testing.T) {
	open := func(*testing.T) statetest.Subject {
		next := 0
		s := memstore.New(func() string { next++; return strconv.Itoa(next) })
		now := time.Unix(1_700_000_000, 0)
		s.SetClock(func() time.Time { return now })
		return statetest.Subject{Store: s, Other: s, Snapshot: func(_ *testing.T, p int32) func() {
			c := s.Copy(p)
			return func() { s.Restore(p, c) }
		}, Note: func(_ *testing.T, says map[string]string) { s.Note(says) },
			Later: func(_ *testing.T, d time.Duration) { now = now.Add(d) }}
	}
	statetest.Run(t, open)
	statetest.RunAdminStore(t, open)
	statetest.RunRegistry(t, open)
}
