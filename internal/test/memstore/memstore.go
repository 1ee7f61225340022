package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

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

type stored struct {
	meta   state.Meta
	hashes map[string]map[string][]byte
	pages  map[uint32]*page
}

type page struct {
	bucket  int64
	entries map[state.ID][]byte
}

// New returns an empty store. newToken must return a new token at each call.
func New(newToken func() string) *Store {
	return &Store{newToken: newToken, partitions: map[int32]*stored{}, workers: map[string]announced{}, shown: map[string]announced{}, now: time.Now}
}

func (s *Store) Acquire(_ context.Context, p int32, generation int64, force bool, fresh *state.Meta) (state.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		if fresh == nil {
			return state.Meta{}, state.ErrNoState
		}
		at = &stored{meta: clone(*fresh), hashes: map[string]map[string][]byte{}, pages: map[uint32]*page{}}
		s.partitions[p] = at
	}
	if at.meta.Generation > generation && !force {
		return state.Meta{}, state.ErrGeneration
	}
	at.meta.Token, at.meta.Generation = s.newToken(), generation
	return clone(at.meta), nil
}

func (s *Store) Load(_ context.Context, p int32, hashes []string) ([]state.Field, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(p, hashes)
}

// load requires the lock.
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

func (s *Store) View(_ context.Context, p int32, hashes []string) (state.Meta, []state.Field, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, err := s.load(p, hashes)
	if err != nil {
		return state.Meta{}, nil, err
	}
	return clone(s.partitions[p].meta), fields, nil
}

func (s *Store) ViewAll(_ context.Context, p int32, hashes []string) (state.Meta, []state.Field, []state.PageOfEntries, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, err := s.load(p, hashes)
	if err != nil {
		return state.Meta{}, nil, nil, err
	}
	at := s.partitions[p].copy()
	var pages []state.PageOfEntries
	for _, n := range at.numbers() {
		pages = append(pages, state.PageOfEntries{Page: state.Page{Number: n, Bucket: at.pages[n].bucket}, Entries: at.pages[n].entries})
	}
	return at.meta, fields, pages, nil
}

func (s *Store) Drop(_ context.Context, p int32, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.partitions[p]; at != nil && token != "" && at.meta.Token != token {
		return state.ErrFenced
	}
	delete(s.partitions, p)
	return nil
}

func (s *Store) LookUp(_ context.Context, p int32, places []state.Place, room int64) (state.Fence, [][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, nil, state.ErrNoState
	}
	values := make([][]byte, 0, len(places))
	for _, place := range places {
		var v []byte
		if g := at.pages[place.Page]; g != nil {
			v = slices.Clone(g.entries[place.ID])
		}
		values = append(values, v)
		if room -= int64(len(v)); room <= 0 {
			break
		}
	}
	return at.meta.Fence, values, nil
}

func (s *Store) Due(_ context.Context, p int32, upTo int64, limit int, room int64) (state.Fence, []state.Entry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, nil, false, state.ErrNoState
	}
	var due []state.Entry
	for _, number := range at.numbers() {
		g := at.pages[number]
		if g.bucket > upTo {
			break
		}
		for _, id := range g.ids() {
			if len(due) == limit || room <= 0 && len(due) > 0 {
				return at.meta.Fence, due, true, nil
			}
			e := state.Entry{Place: state.Place{Page: number, ID: id}, Value: slices.Clone(g.entries[id])}
			room -= int64(len(e.ID) + len(e.Value))
			due = append(due, e)
		}
	}
	return at.meta.Fence, due, false, nil
}

// numbers returns the pages' numbers, by bucket.
func (a *stored) numbers() []uint32 {
	return slices.SortedFunc(maps.Keys(a.pages), func(m, n uint32) int {
		return cmp.Or(cmp.Compare(a.pages[m].bucket, a.pages[n].bucket), cmp.Compare(m, n))
	})
}

func (g *page) ids() []state.ID {
	return slices.SortedFunc(maps.Keys(g.entries), func(a, b state.ID) int { return slices.Compare(a[:], b[:]) })
}

func (s *Store) KnownIDs(_ context.Context, p int32, _ uint64) ([]state.PageOfIDs, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return nil, 0, state.ErrNoState
	}
	var all []state.PageOfIDs
	for _, number := range at.numbers() {
		g := at.pages[number]
		all = append(all, state.PageOfIDs{Page: state.Page{Number: number, Bucket: g.bucket}, IDs: g.ids()})
	}
	return all, 0, nil
}

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
	if err := at.checkPages(&c.Changes); err != nil {
		return err
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
	at.change(&c.Changes)
	generation := at.meta.Generation
	at.meta = clone(c.Meta)
	at.meta.Fence = state.Fence{Token: c.Fence.Token, Seq: c.Fence.Seq + 1}
	at.meta.Generation, at.meta.CheckpointID = generation, c.ID
	return nil
}

// checkPages fails if an entry's page neither exists nor begins.
func (a *stored) checkPages(c *state.Changes) error {
	for _, e := range c.Entries {
		begins := func(g state.Page) bool { return g.Number == e.Page }
		if e.Value != nil && a.pages[e.Page] == nil && !slices.ContainsFunc(c.Pages, begins) {
			return fmt.Errorf("page %d, into which %s is put, is not there", e.Page, e.ID)
		}
	}
	return nil
}

func (a *stored) change(c *state.Changes) {
	for _, g := range c.Pages {
		if a.pages[g.Number] == nil {
			a.pages[g.Number] = &page{g.Bucket, map[state.ID][]byte{}}
		}
	}
	for _, e := range c.Entries {
		switch g := a.pages[e.Page]; {
		case e.Value != nil:
			g.entries[e.ID] = append([]byte{}, e.Value...)
		case g != nil:
			delete(g.entries, e.ID)
		}
	}
	maps.DeleteFunc(a.pages, func(_ uint32, g *page) bool { return len(g.entries) == 0 })
}

func put(m map[string][]byte, key, value []byte) {
	if value == nil {
		delete(m, string(key))
		return
	}
	m[string(key)] = append([]byte{}, value...)
}

func (s *Store) Probe(_ context.Context, p int32) (state.Fence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.partitions[p]
	if at == nil {
		return state.Fence{}, state.ErrNoState
	}
	return at.meta.Fence, nil
}

func (s *Store) Ready(context.Context) error { return nil }

func (s *Store) Fit(context.Context, int) error { return nil }

func (s *Store) Close() error { return nil }

type Copy struct{ at *stored }

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

func (c Copy) Meta() state.Meta { return c.at.meta }

func (c Copy) Hash(name string) map[string][]byte { return c.at.hashes[name] }

func (c Copy) Entries() map[state.ID][]byte {
	all := map[state.ID][]byte{}
	for _, g := range c.at.pages {
		maps.Copy(all, g.entries)
	}
	return all
}

func (a *stored) copy() *stored {
	if a == nil {
		return nil
	}
	b := &stored{meta: clone(a.meta), hashes: map[string]map[string][]byte{}, pages: map[uint32]*page{}}
	for h, m := range a.hashes {
		b.hashes[h] = maps.Clone(m)
	}
	for number, g := range a.pages {
		b.pages[number] = &page{g.bucket, maps.Clone(g.entries)}
	}
	return b
}

func clone(m state.Meta) state.Meta {
	m.TopicNames, m.Inputs, m.FormerProducers = slices.Clone(m.TopicNames), slices.Clone(m.Inputs), slices.Clone(m.FormerProducers)
	return m
}
