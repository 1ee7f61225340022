package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// announced is a worker's announcement, encoded as in a real store.
type announced struct {
	at   time.Time
	says []byte
}

// SetClock replaces the real clock for announcements.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Note stores announcements by id with the present time, as if other workers had encoded them.
func (s *Store) Note(says map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range says {
		s.workers[id] = announced{s.now(), []byte(one)}
	}
}

func (s *Store) Announce(_ context.Context, self state.WorkerInfo) ([]state.WorkerInfo, error) {
	self.At = 0
	says, err := self.Encode()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(s.workers, self.ID, says, state.WorkerKept, state.MaxWorkers, state.MaxWorkerBytes, state.MaxWorkersBytes)
	return s.counted(state.WorkerKept), nil
}

// counted returns the readable announcements of the given age, by ID. The caller holds the lock.
func (s *Store) counted(within time.Duration) []state.WorkerInfo {
	all := make([]state.WorkerInfo, 0, len(s.workers))
	for _, w := range s.workers {
		if info, err := state.DecodeWorker(w.says); err == nil && s.now().Sub(w.at).Abs() <= within {
			info.At = w.at.UnixMilli()
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b state.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (s *Store) Workers(context.Context) ([]state.WorkerInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted(state.WorkerCounts), nil
}

// note stores one announcement and returns all that still count, latest first. The others are deleted.
func (s *Store) note(all map[string]announced, self string, says []byte, counts time.Duration, most, longest, room int) [][]byte {
	now := s.now()
	delete(all, self)
	latest := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return all[b].at.Compare(all[a].at) })
	out := [][]byte{says}
	room -= len(self) + len(says)
	for _, id := range latest {
		w := all[id]
		size := len(id) + len(w.says)
		if now.Sub(w.at).Abs() <= counts && len(out) < most && len(w.says) <= longest && size <= room {
			out = append(out, w.says)
			room -= size
		} else {
			delete(all, id)
		}
	}
	all[self] = announced{now, says}
	return out
}

func (s *Store) Show(_ context.Context, id string, shows []byte) ([][]byte, error) {
	if err := state.CheckShown(id, shows); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(s.shown, id, slices.Clone(shows), state.WorkerCounts, state.MaxShown, state.MaxShownBytes, state.MaxAllShown), nil
}

// MemoryUsed implements state.Registry.
func (s *Store) MemoryUsed(context.Context) (float64, error) { return 0, nil }

// Withdraw implements state.Registry.
func (s *Store) Withdraw(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, id)
	delete(s.shown, id)
	return nil
}
