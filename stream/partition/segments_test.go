package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// sealAll ends the open segment.
func sealAll(g *segments) (c state.Changes, segment uint64) {
	g.begin()
	segment = g.end(&c)
	return c, segment
}

func TestSegments_TheLastValueIsStored(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, []byte("id"))
	g.change(s, []byte("long value"))
	once := g.weight()
	g.change(s, []byte("value"))
	require.Equal(t, once-5, g.weight(), "an entry weighs once")
	s.bucket = 4
	c, segment := sealAll(&g)
	require.Equal(t, uint64(1), segment)
	require.Equal(t, []state.Entry{{ID: []byte("id"), Value: []byte("value")}}, c.Entries)
	require.Equal(t, []state.Due{{Bucket: 4, ID: []byte("id")}}, c.Due)
	require.Zero(t, g.weight())

	g.change(s, []byte("newer"))
	s.bucket = 6
	c, segment = sealAll(&g)
	require.Equal(t, uint64(2), segment)
	require.Equal(t, []state.Due{{Bucket: 4, ID: []byte("id"), Remove: true}, {Bucket: 6, ID: []byte("id")}}, c.Due)
}

func TestSegments_WhatWasNeverStoredIsNotTakenOut(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, []byte("id"))
	g.change(s, []byte("value"))
	g.change(s, nil)
	c, _ := sealAll(&g)
	require.Empty(t, c.Entries)

	g.change(s, []byte("value"))
	sealAll(&g)
	g.change(s, nil)
	c, _ = sealAll(&g)
	require.Equal(t, []state.Entry{{ID: []byte("id")}}, c.Entries)
}

// TestSegments_SealedMemoryStays: what a seal has given is a request's; later steps write elsewhere.
func TestSegments_SealedMemoryStays(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, []byte("id"))
	g.change(s, []byte("first"))
	c, _ := sealAll(&g)
	g.change(s, []byte("other"))
	require.Equal(t, "first", string(c.Entries[0].Value))

	g.begin()
	large := g.keep(make([]byte, 1<<20))
	small := g.keep([]byte("x"))
	require.Len(t, large, 1<<20)
	require.Equal(t, "x", string(small))
	_ = append(large, 'y')
	require.Equal(t, "x", string(small), "nobody's bytes are another's")
}

func TestSegments_AnEntryIsSeenUntilItsLastChangeIsForgotten(t *testing.T) {
	g := newSegments()
	id := []byte("id")
	s := g.over.add(1, id)
	g.change(s, []byte("1"))
	sealAll(&g)
	g.change(s, []byte("2"))
	_, second := sealAll(&g)
	dropped := 0
	count := func(*slot) { dropped++ }
	g.over.forget(second-1, count)
	require.Equal(t, s, g.over.find(1, id))
	g.over.forget(second, count)
	require.Nil(t, g.over.find(1, id))
	require.Equal(t, 1, dropped)
	require.Zero(t, g.over.entries)
	require.Same(t, s, g.over.add(2, []byte("another")), "memory is used again")
}

func TestOverlay_IDsOfOneHash(t *testing.T) {
	o := newOverlay()
	a, b, c := o.add(1, []byte("a")), o.add(1, []byte("b")), o.add(1, []byte("c"))
	o.drop(b)
	require.Nil(t, o.find(1, []byte("b")))
	require.Same(t, a, o.find(1, []byte("a")))
	require.Same(t, c, o.find(1, []byte("c")))
	o.drop(c)
	o.drop(a)
	require.Empty(t, o.slots)
}
