package statetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// lookUpEndsWithItsRoom: a reply is as many values as first come to room, and one at least, however often an id is asked for.
func lookUpEndsWithItsRoom(w *world) {
	o := w.begin(0)
	var c state.Changes
	for i, size := range []int{10, 0, 30, 100} {
		c.Entries = append(c.Entries, entry(fmt.Sprint(i), strings.Repeat("x", size)))
	}
	o.save(c)
	ids := []string{"0", "1", "none", "2", "3", "3", "0"}
	for _, x := range []struct {
		room int64
		n    int
	}{{-5, 1}, {0, 1}, {1, 1}, {10, 1}, {11, 4}, {40, 4}, {41, 5}, {140, 5}, {141, 6}, {240, 6}, {241, 7}, {250, 7}, {1 << 40, 7}} {
		f, values, err := w.Store.LookUp(w.ctx, 0, bytesOf(ids), x.room)
		require.NoError(w, err)
		require.Equal(w, o.fence, f)
		require.Len(w, values, x.n, "room %d", x.room)
		for i, id := range ids[:x.n] {
			_, want := w.lookUp(0, id)
			require.Equal(w, want[0] == "-", values[i] == nil)
			if values[i] != nil {
				require.Equal(w, want[0], string(values[i]))
			}
		}
	}
}

// lookUpOfLargeValues has more bytes than one request may bring, of few ids that are asked for often.
func lookUpOfLargeValues(w *world) {
	const n, size = 5, 1 << 20
	o := w.begin(0)
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
		o.save(state.Changes{Entries: []state.Entry{entry(ids[i], strings.Repeat(ids[i], size+i))}})
	}
	ids = append(ids, ids...)
	_, values := w.lookUp(0, ids...)
	for i, v := range values {
		require.Len(w, v, size+i%n)
		require.Equal(w, len(v), strings.Count(v, ids[i]))
	}
	_, some, err := w.Store.LookUp(w.ctx, 0, bytesOf(ids), 6<<20)
	require.NoError(w, err)
	require.Len(w, some, 6)
}

// dueEndsWithItsRoom: a walk whose steps have little room comes by everything, and knows when it is through.
func dueEndsWithItsRoom(w *world) {
	const each, size = 90, 400
	o := w.begin(0)
	var c state.Changes
	left := map[string]int64{}
	for b := range int64(3) {
		for i := range each {
			id := fmt.Sprintf("%d-%d", b, i)
			if i%2 == 0 { // as long as ids may be
				id += strings.Repeat("x", 1024-len(id))
			}
			if i%3 > 0 {
				c.Entries = append(c.Entries, entry(id, strings.Repeat("v", size)))
			}
			c.Due, left[id] = append(c.Due, dueAt(b, id)), b
		}
	}
	o.save(c)
	all := 3 * each * (512 + size)
	steps := 0
	for more := true; more; steps++ {
		const room = 20_000
		f, due, rest, err := w.Store.Due(w.ctx, 0, 9, 1000, room)
		require.NoError(w, err)
		require.Equal(w, o.fence, f)
		require.NotEmpty(w, due)
		c, sum := state.Changes{}, 0
		for _, e := range due {
			require.Less(w, sum, room, "it goes on beyond its room")
			sum += len(e.ID) + len(e.Value)
			require.Equal(w, left[string(e.ID)], e.Bucket)
			delete(left, string(e.ID))
			c.Due = append(c.Due, state.Due{Bucket: e.Bucket, ID: e.ID, Remove: true})
		}
		o.save(c)
		require.Equal(w, len(left) > 0, rest, "%d are left", len(left))
		more = rest
	}
	require.Empty(w, left)
	require.Less(w, steps, 4*all/20_000, "it makes little of its room")
}

// dueSaysWhetherThereAreMore, exactly, whichever bound a step comes to.
func dueSaysWhetherThereAreMore(w *world) {
	o := w.begin(0)
	o.save(state.Changes{
		Due:     []state.Due{dueAt(1, "a"), dueAt(1, "b"), dueAt(2, "c"), dueAt(5, "later")},
		Entries: []state.Entry{entry("a", "12345"), entry("b", "12345"), entry("c", "12345")},
	})
	for _, x := range []struct {
		upTo, room int64
		limit, n   int
		more       bool
	}{
		{0, 1000, 10, 0, false}, {1, 1000, 10, 2, false}, {2, 1000, 10, 3, false}, {5, 1000, 10, 4, false},
		{2, 1000, 3, 3, false}, {2, 1000, 2, 2, true}, {1, 1000, 2, 2, false}, {1, 1000, 1, 1, true}, {2, 1000, 0, 0, true},
		{0, 1000, 0, 0, false}, {2, 0, 10, 1, true}, {2, 1, 10, 1, true}, {2, -9, 10, 1, true},
	} {
		_, due, more, err := w.Store.Due(w.ctx, 0, x.upTo, x.limit, x.room)
		require.NoError(w, err)
		require.Len(w, due, x.n, "%+v", x)
		require.Equal(w, x.more, more, "%+v", x)
	}
	_, due, more, err := w.Store.Due(w.ctx, 0, 2, 10, 12)
	require.NoError(w, err)
	require.True(w, more)
	require.Less(w, len(due), 3)
}

// knownIDsOfAnyLength: ids that are as long as may be, many of them, and records that are.
func knownIDsOfAnyLength(w *world) {
	const n = 6000
	o := w.begin(0)
	var c state.Changes
	for i := range n {
		id := fmt.Sprintf("%d-", i)
		c.Entries = append(c.Entries, entry(id+strings.Repeat("x", 1024-len(id)), "v"))
	}
	c.Entries = append(c.Entries, state.Entry{ID: []byte("large"), Value: bytes.Repeat([]byte("v"), 13<<17)})
	o.save(c)
	known := w.known(0, func() {})
	require.Len(w, known, n+1)
	for _, e := range c.Entries {
		require.NotZero(w, known[string(e.ID)])
	}
}
