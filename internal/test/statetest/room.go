package statetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// lookUpEndsWithItsRoom: a reply holds the values up to room, and at least one, however often an id is requested.
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
		f, values, err := w.Store.LookUp(w.ctx, 0, placesOf(ids), x.room)
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

// lookUpOfLargeValues exceeds the bytes of one request, with few ids requested often.
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
	_, some, err := w.Store.LookUp(w.ctx, 0, placesOf(ids), 6<<20)
	require.NoError(w, err)
	require.Len(w, some, 6)
}

// dueEndsWithItsRoom: an iteration with little room per step reads every entry, and ends.
func dueEndsWithItsRoom(w *world) {
	const each, size = 90, 400
	o := w.begin(0)
	var c state.Changes
	left := map[string]bool{}
	for b := range 3 {
		for i := range each {
			name := fmt.Sprintf("%d/%d", 10*b+i%7, i)
			value := strings.Repeat("v", size)
			if i%3 == 0 {
				value = ""
			}
			c.Entries, left[name] = append(c.Entries, entry(name, value)), true
		}
	}
	o.save(c)
	const all, room = 3 * each * size * 2 / 3, 20_000
	steps := 0
	for more := true; more; steps++ {
		f, due, rest, err := w.Store.Due(w.ctx, 0, 9, 1000, room)
		require.NoError(w, err)
		require.Equal(w, o.fence, f)
		require.NotEmpty(w, due)
		c, sum := state.Changes{}, 0
		for _, e := range due {
			require.Less(w, sum, room, "it goes on beyond its room")
			sum += len(e.ID) + len(e.Value)
			name := fmt.Sprintf("%d/%s", e.Page, text(e.ID))
			require.True(w, left[name], name)
			delete(left, name)
			c.Entries = append(c.Entries, state.Entry{Place: e.Place})
		}
		o.save(c)
		require.Equal(w, len(left) > 0, rest, "%d are left", len(left))
		more = rest
	}
	require.Empty(w, left)
	require.Less(w, steps, 4*all/room, "it makes little of its room")
}

// dueSaysWhetherThereAreMore, exactly, at each bound.
func dueSaysWhetherThereAreMore(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("11/a", "12345"), entry("12/b", "12345"), entry("21/c", "12345"), entry("51/later", "")}})
	for _, x := range []struct {
		upTo, room int64
		limit, n   int
		more       bool
	}{
		{0, 1000, 10, 0, false}, {1, 1000, 10, 2, false}, {2, 1000, 10, 3, false}, {5, 1000, 10, 4, false},
		{2, 1000, 3, 3, false}, {2, 1000, 2, 2, true}, {1, 1000, 2, 2, false}, {1, 1000, 1, 1, true}, {2, 1000, 0, 0, true},
		{0, 1000, 0, 0, false}, {2, 0, 10, 1, true}, {2, 1, 10, 1, true}, {2, -9, 10, 1, true}, {2, 30, 10, 2, true},
	} {
		_, due, more, err := w.Store.Due(w.ctx, 0, x.upTo, x.limit, x.room)
		require.NoError(w, err)
		require.Len(w, due, x.n, "%+v", x)
		require.Equal(w, x.more, more, "%+v", x)
	}
}

func knownIDsInLargePages(w *world) {
	const n = 60_000
	o := w.begin(0)
	c := state.Changes{Entries: []state.Entry{{Place: placeOf("3/large"), Value: bytes.Repeat([]byte("v"), 13<<17)}}}
	for i := range n {
		c.Entries = append(c.Entries, entry(fmt.Sprintf("%d/%d", 1+i%2, i), "v"))
	}
	o.save(c)
	known := w.known(0, func() {})
	require.Len(w, known, n+1)
}
