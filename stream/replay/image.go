package replay

import (
	"maps"
	"slices"

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
	seal      seal                // the last one in it; zero: nothing is stored
	inputs    [event.Inputs]int64 // at that seal
	orders    int64               // likewise, of the last order record
	unsure    bool                // likewise: learners' estimates may be others than the stored ones
	published *delta              // published up to it
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

func (g *image) apply(c *state.Changes) {
	for i := range c.Writes {
		g.set(&c.Writes[i])
	}
	for _, p := range c.Pages {
		if g.pages[p.Number] == nil {
			g.pages[p.Number] = &page{p.Bucket, map[state.ID][]byte{}}
		}
	}
	for i := range c.Entries {
		g.put(&c.Entries[i])
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
		m.AddKnown(&state.PageOfIDs{Page: state.Page{Number: number, Bucket: p.bucket}, IDs: slices.Collect(maps.Keys(p.entries))})
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
