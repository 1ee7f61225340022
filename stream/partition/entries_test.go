package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// TestEntries_AnEntryIsInMemoryUntilItIsStored: an id is known while it is certainly new, or its entry is in memory. In between the entry
// has to be looked up, at its one place.
func TestEntries_AnEntryIsInMemoryUntilItIsStored(t *testing.T) {
	clock := newEventTime()
	x := newEntries(&clock, 7)
	key := []byte("impression 1")
	id := state.IDOf(key)
	require.Equal(t, NeedsLookUp, x.Resolve(id), "the index is not complete")
	x.KnownComplete()
	require.Equal(t, Known, x.Resolve(id))

	seal := func() (changes state.Changes) {
		x.segments.begin()
		x.Forget(x.segments.end(&changes))
		return changes
	}
	require.NoError(t, x.openUnchecked(id, key, Found{}))
	x.cur.kind, x.cur.began, x.cur.payoffDeadline, x.cur.changed = pending, 1, 2*tick, true
	x.save(false)
	require.Equal(t, Known, x.Resolve(id))
	n, bytes := x.Dirty()
	require.Equal(t, 1, n)
	require.Positive(t, bytes)
	stored := seal().Entries
	require.Len(t, stored, 1)
	require.Equal(t, NeedsLookUp, x.Resolve(id))
	require.Equal(t, []state.Place{stored[0].Place}, x.Places(nil, id))

	require.NoError(t, x.openUnchecked(id, key, Found{Page: stored[0].Page, Value: stored[0].Value}))
	require.Equal(t, pending, x.cur.kind)
	require.EqualValues(t, 2*tick, x.cur.payoffDeadline)
	x.cur.reset()
	x.cur.changed = true
	x.save(false)
	require.Equal(t, []state.Entry{{Place: stored[0].Place}}, seal().Entries)
	require.Empty(t, x.Places(nil, id))
	require.Equal(t, Known, x.Resolve(id))
}
