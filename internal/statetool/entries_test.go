package statetool

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/memstore"
)

// weighed notes how much the largest reply of a look-up had.
type weighed struct {
	state.AdminStore
	largest int
}

func (w *weighed) LookUp(ctx context.Context, p int32, ids [][]byte, room int64) (state.Fence, [][]byte, error) {
	f, values, err := w.AdminStore.LookUp(ctx, p, ids, room)
	sum := 0
	for _, v := range values {
		sum += len(v)
	}
	w.largest = max(w.largest, sum)
	return f, values, err
}

// TestEntries_OfAnySize: all that is stored is come by, a bounded piece at a time.
func TestEntries_OfAnySize(t *testing.T) {
	const small, large, size = 5000, 20, 1 << 20
	ctx := t.Context()
	store := &weighed{AdminStore: memstore.New(rand.Text)}
	m, err := store.Acquire(ctx, 0, 1, false, &state.Meta{})
	require.NoError(t, err)
	var c state.Changes
	for i := range small {
		c.Entries = append(c.Entries, state.Entry{ID: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	for i := range large {
		c.Entries = append(c.Entries, state.Entry{ID: fmt.Append(nil, "large-", i), Value: bytes.Repeat([]byte("v"), size)})
	}
	require.NoError(t, store.Checkpoint(ctx, 0, &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m, Changes: c}))
	seen := map[string]bool{}
	tool := &Tool{store: store}
	require.NoError(t, tool.entries(ctx, 0, func(id, value []byte) error {
		require.True(t, bytes.Equal(id, value) || len(value) == size, "%s", id)
		seen[string(id)] = true
		return nil
	}))
	require.Len(t, seen, small+large)
	require.Less(t, store.largest, lookBytes+size)
}
