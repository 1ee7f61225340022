package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
)

// weighed notes how much the largest reply of a look-up had.
type weighed struct {
	state.AdminStore
	largest int
}

func (w *weighed) LookUp(ctx context.Context, p int32, places []state.Place, room int64) (state.Fence, [][]byte, error) {
	f, values, err := w.AdminStore.LookUp(ctx, p, places, room)
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
	put := func(i int, text, value []byte) {
		page := uint32(1 + i/100)
		if i%100 == 0 {
			c.Pages = append(c.Pages, state.Page{Number: page, Bucket: 7})
		}
		c.Entries = append(c.Entries, state.Entry{Place: state.Place{Page: page, ID: state.IDOf(text)}, Value: value})
	}
	for i := range small {
		put(i, fmt.Append(nil, i), fmt.Append(nil, i))
	}
	for i := range large {
		put(small+i, fmt.Append(nil, "large-", i), bytes.Repeat([]byte("v"), size))
	}
	require.NoError(t, store.Checkpoint(ctx, 0, &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m, Changes: c}))
	seen := map[state.ID]bool{}
	tool := &Tool{store: store}
	require.NoError(t, tool.entries(ctx, 0, func(page state.Page, e state.Entry) error {
		require.EqualValues(t, 7, page.Bucket)
		require.Equal(t, page.Number, e.Page)
		require.True(t, state.IDOf(e.Value) == e.ID || len(e.Value) == size, "%s", e.ID)
		seen[e.ID] = true
		return nil
	}))
	require.Len(t, seen, small+large)
	require.Less(t, store.largest, lookBytes+size)
}
