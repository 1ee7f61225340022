package memstore_test

import (
	"strconv"
	"testing"

	"github.com/ranker-worker/ranker-worker/state/memstore"
	"github.com/ranker-worker/ranker-worker/state/statetest"
)

func TestSuite(t *testing.T) {
	open := func(*testing.T) statetest.Subject {
		next := 0
		s := memstore.New(func() string { next++; return strconv.Itoa(next) })
		return statetest.Subject{Store: s, Other: s, Snapshot: func(_ *testing.T, p int32) func() {
			c := s.Copy(p)
			return func() { s.Restore(p, c) }
		}}
	}
	statetest.Run(t, open)
	statetest.RunKeeper(t, open)
}
