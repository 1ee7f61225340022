package statetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

type model struct {
	hashes  map[string]string // "hash/field" -> value
	entries map[string]string // "page/id" -> value
}

func (m *model) apply(c *state.Changes) {
	for _, w := range c.Writes {
		set(m.hashes, w.Hash+"/"+string(w.Field), w.Value)
	}
	for _, e := range c.Entries {
		set(m.entries, fmt.Sprintf("%d/%s", e.Page, text(e.ID)), e.Value)
	}
}

func set(m map[string]string, key string, value []byte) {
	if m[key] = string(value); value == nil {
		delete(m, key)
	}
}

// randomChanges draws from few names, so that elements collide.
func randomChanges(r *rand.Rand) state.Changes {
	var c state.Changes
	value := func() []byte {
		if r.IntN(3) == 0 {
			return nil
		}
		return []byte(strconv.Itoa(r.IntN(1000)))
	}
	id := func() []byte { return []byte("id-" + strconv.Itoa(r.IntN(30))) }
	for range r.IntN(20) {
		c.Writes = append(c.Writes, state.Write{Hash: "h" + strconv.Itoa(r.IntN(3)), Field: id(), Value: value(),
			Publish: r.IntN(2) == 0})
	}
	for range r.IntN(20) {
		c.Entries = append(c.Entries, state.Entry{Place: state.Place{Page: uint32(r.IntN(40)), ID: idOf(string(id()))}, Value: value()})
	}
	return c
}

// againstAModel sends random checkpoints, some twice, some through a new owner, some by a fenced one.
func againstAModel(w *world) {
	seed := uint64(time.Now().UnixNano())
	w.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	m := &model{hashes: map[string]string{}, entries: map[string]string{}}
	o := w.begin(0)
	for range 60 {
		switch r.IntN(6) {
		case 0:
			before := o
			o = w.takeOver(0)
			require.ErrorIs(w, before.send(before.make(randomChanges(r))), state.ErrFenced)
		case 1:
			c := o.save(randomChanges(r))
			m.apply(&c.Changes)
			require.NoError(w, o.send(c))
		default:
			m.apply(&o.save(randomChanges(r)).Changes)
		}
		m.compare(w, o)
	}
}

func (m *model) compare(w *world, o *owner) {
	w.Helper()
	require.Equal(w, m.hashes, w.load(0, "h0", "h1", "h2"))
	ids := slices.Sorted(maps.Keys(m.entries))
	f, values := w.lookUp(0, ids...)
	require.Equal(w, o.fence, f)
	for i, id := range ids {
		require.Equal(w, m.entries[id], values[i])
	}
	var due []string
	_, entries, _, err := w.Store.Due(w.ctx, 0, 2, 10_000, 1<<30)
	require.NoError(w, err)
	for _, e := range entries {
		name := fmt.Sprintf("%d/%s", e.Page, text(e.ID))
		due = append(due, name)
		require.Equal(w, m.entries[name], string(e.Value))
	}
	require.ElementsMatch(w, slices.DeleteFunc(ids, func(name string) bool { return bucketOf(placeOf(name).Page) > 2 }), due)
	if o.fence.Seq%10 == 0 {
		require.ElementsMatch(w, slices.Collect(maps.Keys(m.entries)), slices.Collect(maps.Keys(w.known(0, func() {}))))
	}
}
