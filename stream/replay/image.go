package replay

import (
	"maps"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// image is a partition's state as in the store.
type image struct {
	position
	hashes map[string]map[string][]byte
	pages  map[uint32]*page
}

// position identifies the state in an image.
type position struct {
	seq       int64               // of the last checkpoint
	seal      seal                // the last one in it
	inputs    [event.Inputs]int64 // at that seal
	orders    int64               // likewise, of the last order record
	guess     guess               // likewise
	published *delta              // published up to it
}

// guess holds the stored fields of learners' estimates that are unknown. It never changes in place.
type guess map[string]struct{}

// after returns the guess after a segment's writes: fields become unknown if they are written while estimates are, and known if they are written
// later. An owner that makes its estimates again writes each of them at another time.
func (g guess) after(writes []state.Write, unsure bool) guess {
	next := guess{}
	maps.Copy(next, g)
	for _, w := range writes {
		name := w.Hash + " " + string(w.Field)
		switch {
		case !strings.HasSuffix(w.Hash, ":"+delay.HashLearner):
		case unsure:
			next[name] = struct{}{}
		default:
			delete(next, name)
		}
	}
	return next
}

// undo reverts a checkpoint.
type undo struct {
	position // before it
	writes   []state.Write
	pages    map[uint32]*page // pages before it, of those that it changed; nil: did not exist
	entries  []state.Entry
}

type page struct {
	bucket  int64
	entries map[state.ID][]byte
}

func newImage() *image {
	return &image{hashes: map[string]map[string][]byte{}, pages: map[uint32]*page{}}
}

func (g *image) set(w *state.Write) {
	if g.hashes[w.Hash] == nil {
		g.hashes[w.Hash] = map[string][]byte{}
	}
	if w.Value == nil {
		delete(g.hashes[w.Hash], string(w.Field))
	} else {
		g.hashes[w.Hash][string(w.Field)] = w.Value
	}
}

// put sets an entry of an existing page; nil deletes it.
func (g *image) put(e *state.Entry) {
	p := g.pages[e.Page]
	switch {
	case p == nil:
	case e.Value != nil:
		p.entries[e.ID] = e.Value
	default:
		delete(p.entries, e.ID)
	}
}

// takeBack reverts the last checkpoint.
func (g *image) takeBack(u *undo) {
	for i := range slices.Backward(u.writes) {
		g.set(&u.writes[i])
	}
	for number, p := range u.pages {
		if p == nil {
			delete(g.pages, number)
		} else {
			g.pages[number] = p
		}
	}
	for i := range slices.Backward(u.entries) {
		g.put(&u.entries[i])
	}
	g.position = u.position
}

// apply applies changes, and records in u how to revert them.
func (g *image) apply(c *state.Changes, u *undo) {
	touch := func(number uint32) {
		if _, noted := u.pages[number]; !noted {
			u.pages[number] = g.pages[number]
		}
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		u.writes = append(u.writes, state.Write{Hash: w.Hash, Field: w.Field, Value: g.hashes[w.Hash][string(w.Field)]})
		g.set(w)
	}
	for _, p := range c.Pages {
		touch(p.Number)
		if g.pages[p.Number] == nil {
			g.pages[p.Number] = &page{p.Bucket, map[state.ID][]byte{}}
		}
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		touch(e.Page)
		if p := g.pages[e.Page]; p != nil {
			u.entries = append(u.entries, state.Entry{Place: e.Place, Value: p.entries[e.ID]})
		}
		g.put(e)
	}
	for i := range c.Entries {
		if p := g.pages[c.Entries[i].Page]; p != nil && len(p.entries) == 0 {
			delete(g.pages, c.Entries[i].Page)
		}
	}
}

func (g *image) load(m *partition.Machine) error {
	for _, h := range append([]string{state.MetaHash}, m.Hashes()...) {
		for field, value := range g.hashes[h] {
			if err := m.Load(state.Field{Hash: h, Field: []byte(field), Value: value}); err != nil {
				return err
			}
		}
	}
	if err := m.Loaded(); err != nil {
		return err
	}
	for number, p := range g.pages {
		ids := make([]state.ID, 0, len(p.entries))
		for id := range p.entries {
			ids = append(ids, id)
		}
		m.AddKnown(&state.PageOfIDs{Page: state.Page{Number: number, Bucket: p.bucket}, IDs: ids})
	}
	m.KnownComplete()
	return nil
}

// find looks up an id, like a store.
func (g *image) find(m *partition.Machine, places []state.Place, id state.ID) (partition.Found, []state.Place) {
	if m.Resolve(id) == partition.Known {
		return partition.Found{}, places
	}
	places = m.Places(places[:0], id)
	for _, at := range places {
		if p := g.pages[at.Page]; p != nil {
			if v, ok := p.entries[id]; ok {
				return partition.Found{Page: at.Page, Value: v}, places
			}
		}
	}
	return partition.Found{}, places
}
