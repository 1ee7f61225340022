package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// Store keeps partitions in memory. The zero value is not usable; see New.
type Store struct {
	mu         sync.Mutex
	newToken   func() string
	partitions map[int32]*stored
	workers    map[string]announced
	shown      map[string]announced
	now        func() time.Time
}

var (
	_ state.AdminStore = (*Store)(nil)
	_ state.Registry   = (*Store)(nil)
)

// stored is one partition.
type stored struct {
	meta    state.Meta
	hashes  map[string]map[string][]byte
	entries map[string][]byte
	due     map[int64]map[string]bool
}

// New makes an empty store. newToken makes a token that was never used before at each call.
func New(newToken func() string) *Store {
	return &Store{newToken: newToken, partitions: map[int32]*stored{}, workers: map[string]announced{}, shown: map[string]announced{}, now: time.Now}
}

// Acquire implements state.Store.
func (s *Store) Acquire(_ context.Context, p int32, generation int64, force bool, fresh *state.Meta) (state.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		if fresh == nil {
			return state.Meta{}, state.ErrNoState
		}
		at = &stored{meta: clone(*fresh), hashes: map[string]map[string][]byte{}, entries: map[string][]byte{},
			due: map[int64]map[string]bool{}}
		s.partitions[p] = at
	}
	if at.meta.Generation > generation && !force {
		return state.Meta{}, state.ErrGeneration
	}
	at.meta.Token, at.meta.Generation = s.newToken(), generation
	return clone(at.meta), nil
}

// Load implements state.Store.
func (s *Store) Load(_ context.Context, p int32, hashes []string) ([]state.Field, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(p, hashes)
}

// load is for holders of the lock.
func (s *Store) load(p int32, hashes []string) ([]state.Field, error) {
	at := s.partitions[p]
	if at == nil {
		return nil, state.ErrNoState
	}
	var all []state.Field
	for i, h := range append([]string{state.MetaHash}, hashes...) {
		if i > 0 && h == state.MetaHash { // comes anyway
			continue
		}
		for _, f := range slices.Sorted(maps.Keys(at.hashes[h])) {
			all = append(all, state.Field{Hash: h, Field: []byte(f), Value: slices.Clone(at.hashes[h][f])})
		}
	}
	return all, nil
}

// View implements state.AdminStore.
func (s *Store) View(_ context.Context, p int32, hashes []string) (state.Meta, []state.Field, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, err := s.load(p, hashes)
	if err != nil {
		return state.Meta{}, nil, err
	}
	return clone(s.partitions[p].meta), fields, nil
}

// Drop implements state.AdminStore.
func (s *Store) Drop(_ context.Context, p int32, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.partitions[p]; at != nil && token != "" && at.meta.Token != token {
		return state.ErrFenced
	}
	delete(s.partitions, p)
	return nil
}

// LookUp implements state.Store.
func (s *Store) LookUp(_ context.Context, p int32, ids [][]byte, room int64) (state.Fence, [][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, nil, state.ErrNoState
	}
	values := make([][]byte, 0, len(ids))
	for _, id := range ids {
		v := slices.Clone(at.entries[string(id)])
		values = append(values, v)
		if room -= int64(len(v)); room <= 0 {
			break
		}
	}
	return at.meta.Fence, values, nil
}

// Due implements state.Store.
func (s *Store) Due(_ context.Context, p int32, upTo int64, limit int, room int64) (state.Fence, []state.DueEntry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, nil, false, state.ErrNoState
	}
	var due []state.DueEntry
	for _, b := range slices.Sorted(maps.Keys(at.due)) {
		if b > upTo {
			break
		}
		for _, id := range slices.Sorted(maps.Keys(at.due[b])) {
			if len(due) == limit || room <= 0 && len(due) > 0 {
				return at.meta.Fence, due, true, nil
			}
			e := state.DueEntry{Bucket: b, ID: []byte(id), Value: slices.Clone(at.entries[id])}
			room -= int64(len(e.ID) + len(e.Value))
			due = append(due, e)
		}
	}
	return at.meta.Fence, due, false, nil
}

// KnownIDs implements state.Store, in one go.
func (s *Store) KnownIDs(_ context.Context, p int32, _ uint64) ([][]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return nil, 0, state.ErrNoState
	}
	var ids [][]byte
	for _, id := range slices.Sorted(maps.Keys(at.entries)) {
		ids = append(ids, []byte(id))
	}
	return ids, 0, nil
}

// Checkpoint implements state.Store.
func (s *Store) Checkpoint(_ context.Context, p int32, c *state.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.ErrNoState
	}
	if at.meta.CheckpointID == c.ID && at.meta.Token == c.Fence.Token {
		return nil
	}
	if at.meta.Fence != c.Fence {
		return fmt.Errorf("stored %v, ours %v: %w", at.meta.Fence, c.Fence, state.ErrFenced)
	}
	for _, h := range c.Drop {
		delete(at.hashes, h)
	}
	for _, w := range c.Changes.Writes {
		if at.hashes[w.Hash] == nil {
			at.hashes[w.Hash] = map[string][]byte{}
		}
		put(at.hashes[w.Hash], w.Field, w.Value)
	}
	for _, e := range c.Changes.Entries {
		put(at.entries, e.ID, e.Value)
	}
	for _, d := range c.Changes.Due {
		bucket := at.due[d.Bucket]
		switch {
		case !d.Remove && bucket == nil:
			at.due[d.Bucket] = map[string]bool{string(d.ID): true}
		case !d.Remove:
			bucket[string(d.ID)] = true
		default:
			delete(bucket, string(d.ID))
			if len(bucket) == 0 {
				delete(at.due, d.Bucket)
			}
		}
	}
	generation := at.meta.Generation
	at.meta = clone(c.Meta)
	at.meta.Fence = state.Fence{Token: c.Fence.Token, Seq: c.Fence.Seq + 1}
	at.meta.Generation, at.meta.CheckpointID = generation, c.ID
	return nil
}

func put(m map[string][]byte, key, value []byte) {
	if value == nil {
		delete(m, string(key))
		return
	}
	m[string(key)] = append([]byte{}, value...)
}

// Probe implements state.Store.
func (s *Store) Probe(_ context.Context, p int32) (state.Fence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, state.ErrNoState
	}
	return at.meta.Fence, nil
}

// Ready implements state.Store.
func (s *Store) Ready(context.Context) error { return nil }

// Close implements state.Store.
func (s *Store) Close() error { return nil }

// Copy is a partition's state at one time.
type Copy struct{ at *stored }

// Copy copies what is stored of p.
func (s *Store) Copy(p int32) Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Copy{s.partitions[p].copy()}
}

// Restore puts a copy back; the copy can be used again.
func (s *Store) Restore(p int32, c Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.at == nil {
		delete(s.partitions, p)
		return
	}
	s.partitions[p] = c.at.copy()
}

// Meta is the stored cut.
func (c Copy) Meta() state.Meta { return c.at.meta }

// Hash is one stored hash.
func (c Copy) Hash(name string) map[string][]byte { return c.at.hashes[name] }

// Entries are the stored records by id.
func (c Copy) Entries() map[string][]byte { return c.at.entries }

func (a *stored) copy() *stored {
	if a == nil {
		return nil
	}
	b := &stored{meta: clone(a.meta), hashes: map[string]map[string][]byte{}, entries: maps.Clone(a.entries),
		due: map[int64]map[string]bool{}}
	for h, m := range a.hashes {
		b.hashes[h] = maps.Clone(m)
	}
	for d, m := range a.due {
		b.due[d] = maps.Clone(m)
	}
	return b
}

func clone(m state.Meta) state.Meta {
	m.TopicNames, m.Inputs, m.FormerProducers = slices.Clone(m.TopicNames), slices.Clone(m.Inputs), slices.Clone(m.FormerProducers)
	return m
}
