package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// announced is what a worker says of itself, as it would be stored elsewhere.
type announced struct {
	at   time.Time
	says []byte
}

// SetClock makes the store go by a clock, in place of the real one, where it notes workers.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Note notes what workers say, by id, now, as if others had encoded it.
func (s *Store) Note(says map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range says {
		s.workers[id] = announced{s.now(), []byte(one)}
	}
}

// Announce implements state.Registry.
func (s *Store) Announce(_ context.Context, self state.WorkerInfo) ([]state.WorkerInfo, error) {
	says, err := self.Encode()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	delete(s.workers, self.ID)
	latest := slices.SortedFunc(maps.Keys(s.workers), func(a, b string) int { return s.workers[b].at.Compare(s.workers[a].at) })
	kept := map[string]announced{self.ID: {now, says}}
	room := state.MaxWorkersBytes - len(self.ID) - len(says)
	for _, id := range latest {
		w := s.workers[id]
		size := len(id) + len(w.says)
		if now.Sub(w.at).Abs() <= state.WorkerCounts && len(kept) < state.MaxWorkers && len(w.says) <= state.MaxWorkerBytes &&
			size <= room {
			kept[id] = w
			room -= size
		}
	}
	s.workers = kept
	all := make([]state.WorkerInfo, 0, len(kept))
	for _, w := range kept {
		if info, err := state.DecodeWorker(w.says); err == nil {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b state.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// Withdraw implements state.Registry.
func (s *Store) Withdraw(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, id)
	return nil
}
