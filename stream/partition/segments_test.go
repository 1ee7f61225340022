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

var someID = state.IDOf([]byte("id"))

func lying(page uint32, value string) state.Entry {
	e := state.Entry{Place: state.Place{Page: page, ID: someID}}
	if value != "" {
		e.Value = []byte(value)
	}
	return e
}

func TestSegments_TheLastValueIsStored(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, someID)
	g.change(s, []byte("long value"))
	once := g.weight()
	g.change(s, []byte("value"))
	require.Equal(t, once-5, g.weight(), "an entry weighs once")
	s.page = 4
	c, segment := sealAll(&g)
	require.Equal(t, uint64(1), segment)
	require.Equal(t, []state.Entry{lying(4, "value")}, c.Entries)
	require.Zero(t, g.weight())

	g.change(s, []byte("newer"))
	c, _ = sealAll(&g)
	require.Equal(t, []state.Entry{lying(4, "newer")}, c.Entries)
	g.change(s, []byte("moved"))
	s.page = 6
	c, segment = sealAll(&g)
	require.Equal(t, uint64(3), segment)
	require.Equal(t, []state.Entry{lying(4, ""), lying(6, "moved")}, c.Entries)
}

func TestSegments_WhatWasNeverStoredIsNotTakenOut(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, someID)
	g.change(s, []byte("value"))
	g.change(s, nil)
	c, _ := sealAll(&g)
	require.Empty(t, c.Entries)

	g.change(s, []byte("value"))
	s.page = 4
	sealAll(&g)
	g.change(s, nil)
	s.page = noPage
	c, _ = sealAll(&g)
	require.Equal(t, []state.Entry{lying(4, "")}, c.Entries)
}

// TestSegments_SealedMemoryStays: the result of a seal stays unchanged by later steps.
func TestSegments_SealedMemoryStays(t *testing.T) {
	g := newSegments()
	s := g.over.add(1, someID)
	s.page = 1
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
	s := g.over.add(1, someID)
	g.change(s, []byte("1"))
	sealAll(&g)
	g.change(s, []byte("2"))
	_, second := sealAll(&g)
	g.over.forget(second - 1)
	require.Equal(t, s, g.over.find(1, someID))
	g.over.forget(second)
	require.Nil(t, g.over.find(1, someID))
	require.Zero(t, g.over.entries)
	require.Same(t, s, g.over.add(2, state.IDOf([]byte("another"))), "memory is used again")
}

func TestOverlay_IDsOfOneHash(t *testing.T) {
	o := newOverlay()
	a, b, c := o.add(1, state.IDOf([]byte("a"))), o.add(1, state.IDOf([]byte("b"))), o.add(1, state.IDOf([]byte("c")))
	o.drop(b)
	require.Nil(t, o.find(1, state.IDOf([]byte("b"))))
	require.Same(t, a, o.find(1, state.IDOf([]byte("a"))))
	require.Same(t, c, o.find(1, state.IDOf([]byte("c"))))
	o.drop(c)
	o.drop(a)
	require.Empty(t, o.slots)
}
