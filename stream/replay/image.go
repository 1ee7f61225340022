package replay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// image is what the store would hold of a partition.
type image struct {
	position
	hashes map[string]map[string][]byte
	pages  map[uint32]*page
}

// position says which state an image holds.
type position struct {
	seq    int64               // of the last checkpoint
	seal   seal                // the last that is in it
	inputs [event.Inputs]int64 // as of that
	orders int64               // likewise, of the last order record
	guess  bool                // likewise
	told   *delta              // what is published as of it
}

// undo takes a checkpoint back.
type undo struct {
	position // before it
	writes   []state.Write
	pages    map[uint32]*page // those that it touched, as they were; nil: there was none
	entries  []state.Entry
}

type page struct {
	bucket  int64
	entries map[state.ID][]byte
}

func newImage() *image {
	return &image{hashes: map[string]map[string][]byte{}, pages: map[uint32]*page{}}
}

// set sets a field; nil deletes it.
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

// put sets an entry of a page that exists; nil deletes it.
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

// takeBack takes back the last checkpoint that was applied.
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

// apply makes changes, and notes in u how to take them back.
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

// load loads it into a machine.
func (g *image) load(m *partition.Machine) error {
	for _, h := range append([]string{state.MetaHash}, m.Hashes()...) {
		for field, value := range g.hashes[h] {
			if err := m.Load(state.Field{Hash: h, Field: []byte(field), Value: value}); err != nil {
				return err
			}
		}
	}
	if err := m.Loaded(0); err != nil {
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

// find is what lies under an id, as a look-up shows it.
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
