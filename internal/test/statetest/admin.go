package statetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// RunAdminStore runs the suite of a state.AdminStore, which must be the Subject's store.
func RunAdminStore(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*world, state.AdminStore)
	}{
		{"ViewIsTheLastCheckpoint", viewIsTheLastCheckpoint},
		{"WholeIsTheLastCheckpoint", wholeIsTheLastCheckpoint},
		{"EmptiedHashesHoldTheChangesAlone", emptiedHashesHoldTheChangesAlone},
		{"EmptyingIsRefusedForTheStoresOwn", emptyingIsRefusedForTheStoresOwn},
		{"DropLeavesNothing", dropLeavesNothing},
		{"RecreatedByAnother", recreatedByAnother},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			k, ok := s.Store.(state.AdminStore)
			require.True(t, ok, "the store is not a state.AdminStore")
			c.test(newWorld(t, s), k)
		})
	}
}

func (w *world) acquire(p int32) state.Meta {
	w.hook()
	m, err := w.Store.Acquire(w.ctx, p, 1, true, freshMeta())
	require.NoError(w, err)
	return m
}

// checkpoint returns one without changes yet, with an id of its own.
func (w *world) checkpoint(f state.Fence) *state.Checkpoint {
	w.next++
	return &state.Checkpoint{Fence: f, ID: fmt.Sprintf("keep-%d", w.next), Meta: *freshMeta()}
}

// viewIsTheLastCheckpoint, and does not affect the owner.
func viewIsTheLastCheckpoint(w *world, k state.AdminStore) {
	_, _, err := k.View(w.ctx, 3, nil)
	require.ErrorIs(w, err, state.ErrNoState)
	m := w.acquire(3)
	c := w.checkpoint(m.Fence)
	c.Changes.Writes = []state.Write{
		{Hash: "meta", Field: []byte("watermark"), Value: []byte("5")},
		{Hash: "feed:items", Field: []byte("a"), Value: []byte("1")},
		{Hash: "feed:queue", Field: []byte("b"), Value: []byte("2")},
	}
	require.NoError(w, w.Store.Checkpoint(w.ctx, 3, c))
	w.hook()
	seen, fields, err := k.View(w.ctx, 3, []string{"feed:items", "meta", "feed:nothing"})
	require.NoError(w, err)
	require.Equal(w, state.Fence{Token: m.Token, Seq: m.Seq + 1}, seen.Fence)
	require.Equal(w, c.Meta.Inputs, seen.Inputs)
	require.ElementsMatch(w, []state.Field{
		{Hash: "meta", Field: []byte("watermark"), Value: []byte("5")},
		{Hash: "feed:items", Field: []byte("a"), Value: []byte("1")},
	}, fields)
	c = w.checkpoint(seen.Fence)
	require.NoError(w, w.Store.Checkpoint(w.ctx, 3, c), "the owner goes on")
	if w.Tear != nil {
		w.Tear(w.T, 3, "half")
		_, _, err = k.View(w.ctx, 3, nil)
		require.ErrorIs(w, err, state.ErrIncomplete)
	}
}

// wholeIsTheLastCheckpoint, with its entries, page by page.
func wholeIsTheLastCheckpoint(w *world, k state.AdminStore) {
	_, _, _, err := k.ViewAll(w.ctx, 3, nil)
	require.ErrorIs(w, err, state.ErrNoState)
	m := w.acquire(3)
	c := w.checkpoint(m.Fence)
	c.Changes.Writes = []state.Write{{Hash: "meta", Field: []byte("watermark"), Value: []byte("5")}, {Hash: "feed:items", Field: []byte("a"), Value: []byte("1")}}
	c.Changes.Pages = []state.Page{{Number: 7, Bucket: 20}, {Number: 9, Bucket: 10}}
	for n, page := range []uint32{7, 7, 9} {
		c.Changes.Entries = append(c.Changes.Entries, state.Entry{Place: state.Place{Page: page, ID: state.ID{byte(n)}}, Value: []byte{byte(n), 1}})
	}
	require.NoError(w, w.Store.Checkpoint(w.ctx, 3, c))
	w.hook()
	seen, fields, pages, err := k.ViewAll(w.ctx, 3, []string{"feed:items"})
	require.NoError(w, err)
	require.Equal(w, state.Fence{Token: m.Token, Seq: m.Seq + 1}, seen.Fence)
	require.Len(w, fields, 2)
	require.ElementsMatch(w, []state.PageOfEntries{
		{Page: state.Page{Number: 7, Bucket: 20}, Entries: map[state.ID][]byte{{0}: {0, 1}, {1}: {1, 1}}},
		{Page: state.Page{Number: 9, Bucket: 10}, Entries: map[state.ID][]byte{{2}: {2, 1}}},
	}, pages)
	if w.Tear != nil {
		w.Tear(w.T, 3, "half")
		_, _, _, err = k.ViewAll(w.ctx, 3, nil)
		require.ErrorIs(w, err, state.ErrIncomplete)
	}
}

// emptiedHashesHoldTheChangesAlone, whether the checkpoint is sent once or twice; the others stay.
func emptiedHashesHoldTheChangesAlone(w *world, k state.AdminStore) {
	m := w.acquire(0)
	c := w.checkpoint(m.Fence)
	for _, h := range []string{"feed:items", "feed:queue", "front:items"} {
		c.Changes.Writes = append(c.Changes.Writes, state.Write{Hash: h, Field: []byte("old"), Value: []byte("1")})
	}
	require.NoError(w, w.Store.Checkpoint(w.ctx, 0, c))
	w.hook()
	c = w.checkpoint(state.Fence{Token: m.Token, Seq: m.Seq + 1})
	c.Drop = []string{"feed:items", "feed:queue", "feed:none"}
	c.Changes.Writes = []state.Write{{Hash: "feed:items", Field: []byte("new"), Value: []byte("2")}}
	for range 2 {
		require.NoError(w, w.Store.Checkpoint(w.ctx, 0, c))
		_, fields, err := k.View(w.ctx, 0, []string{"feed:items", "feed:queue", "front:items"})
		require.NoError(w, err)
		require.ElementsMatch(w, []state.Field{
			{Hash: "feed:items", Field: []byte("new"), Value: []byte("2")},
			{Hash: "front:items", Field: []byte("old"), Value: []byte("1")},
		}, fields)
	}
	if f, ok := w.Store.(state.Follower); ok {
		_, err := f.Deltas(w.ctx, 0, state.Fence{Token: m.Token, Seq: m.Seq + 1})
		require.ErrorIs(w, err, state.ErrGap, "followers read everything again")
	}
}

func emptyingIsRefusedForTheStoresOwn(w *world, _ state.AdminStore) {
	if w.Tear == nil {
		return // a store without names of records
	}
	m := w.acquire(0)
	for _, h := range []string{"meta", "pages", "deltas", "p:7"} {
		c := w.checkpoint(m.Fence)
		c.Drop = []string{h}
		require.Error(w, w.Store.Checkpoint(w.ctx, 0, c), h)
	}
	require.NoError(w, w.Store.Checkpoint(w.ctx, 0, w.checkpoint(m.Fence)))
}

// dropLeavesNothing of this partition, and all of the others.
func dropLeavesNothing(w *world, k state.AdminStore) {
	for p := range int32(12) {
		m := w.acquire(p)
		c := w.checkpoint(m.Fence)
		c.Changes = state.Changes{
			Writes:  []state.Write{{Hash: "feed:items", Field: []byte("a"), Value: []byte("1"), Publish: true}},
			Entries: []state.Entry{entry("71/i", "v"), entry("81/j", "v")},
		}
		c.Changes = begun(c.Changes)
		require.NoError(w, w.Store.Checkpoint(w.ctx, p, c))
	}
	require.ErrorIs(w, k.Drop(w.ctx, 1, "somebody"), state.ErrFenced)
	m := w.acquire(1)
	require.NoError(w, k.Drop(w.ctx, 1, m.Token))
	require.NoError(w, k.Drop(w.ctx, 1, m.Token), "again")
	_, err := w.Store.Probe(w.ctx, 1)
	require.ErrorIs(w, err, state.ErrNoState)
	_, err = w.Store.Acquire(w.ctx, 1, 1, false, freshMeta())
	require.NoError(w, err, "nothing is in the way of a beginning")
	_, values, err := w.Store.LookUp(w.ctx, 1, placesOf([]string{"71/i", "81/j"}), 1<<30)
	require.NoError(w, err)
	require.Equal(w, [][]byte{nil, nil}, values)
	for _, p := range []int32{0, 2, 10, 11} {
		_, values, err := w.Store.LookUp(w.ctx, p, placesOf([]string{"71/i"}), 1<<30)
		require.NoError(w, err)
		require.Equal(w, [][]byte{[]byte("v")}, values, "partition %d", p)
	}
	require.NoError(w, k.Drop(w.ctx, 2, ""))
	_, err = w.Store.Probe(w.ctx, 2)
	require.ErrorIs(w, err, state.ErrNoState)
}

// recreatedByAnother: a client's caches do not prevent another one from dropping a partition and creating it again.
func recreatedByAnother(w *world, k state.AdminStore) {
	o := w.begin(0)
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprint("id-", i))
	}
	fill := func(o *owner, ids []string, value string) {
		var c state.Changes
		for _, id := range ids {
			c.Entries = append(c.Entries, entry(id, value))
		}
		o.save(c)
	}
	fill(o, ids[:30], "old")
	w.lookUp(0, ids...)
	require.NoError(w, w.Other.(state.AdminStore).Drop(w.ctx, 0, ""))
	m, err := w.Other.Acquire(w.ctx, 0, 1, false, freshMeta())
	require.NoError(w, err)
	w.hook()
	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrFenced)
	fill(&owner{w: w, store: w.Other, fence: m.Fence, meta: m}, ids[20:], "new")
	_, values := w.lookUp(0, ids...)
	for i, v := range values {
		require.Equal(w, map[bool]string{true: "new", false: "-"}[i >= 20], v)
	}
	_, due := w.due(0, 1, 100)
	require.Len(w, due, 20)
	for _, d := range due {
		require.Contains(w, d, "=new")
	}
	require.Len(w, w.known(0, func() {}), 20)
	_, _, err = k.View(w.ctx, 0, nil)
	require.NoError(w, err)
}
