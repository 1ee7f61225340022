package stream

import (
	"sync"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// sharedNames are the item names that all partitions of a worker share. Nearly all requested names are known.
type sharedNames struct {
	mu    sync.RWMutex
	table *partition.NameTable
}

var _ partition.Names = (*sharedNames)(nil)

func newSharedNames() *sharedNames { return &sharedNames{table: partition.NewNameTable()} }

func (s *sharedNames) Numbers(dst []int32, names [][]byte) []int32 {
	start := len(dst)
	s.mu.RLock()
	dst = s.table.Known(dst, names)
	s.mu.RUnlock()
	if rest := names[len(dst)-start:]; len(rest) > 0 {
		s.mu.Lock()
		dst = s.table.Numbers(dst, rest)
		s.mu.Unlock()
	}
	return dst
}

func (s *sharedNames) Number(name []byte) (n int32, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Number(name)
}

func (s *sharedNames) Name(n int32) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Name(n)
}

func (s *sharedNames) Texts(dst []string, numbers []int32) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Texts(dst, numbers)
}
