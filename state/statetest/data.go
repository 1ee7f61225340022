package statetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

func laterElementsWin(w *world) {
	o := w.begin(0)
	gone := func(hash, field string) state.Write { return state.Write{Hash: hash, Field: []byte(field)} }
	o.save(state.Changes{
		Writes: []state.Write{write("h", "set", "1"), write("h", "set", "2"), write("h", "deleted", "1"), gone("h", "deleted"),
			gone("h", "back"), write("h", "back", "3"), write("i", "set", "other hash")},
		Entries: []state.Entry{entry("a", "1"), {ID: []byte("a")}, {ID: []byte("b")}, entry("b", "1"), entry("b", "2")},
		Due: []state.Due{dueAt(1, "a"), notDueAt(1, "a"), notDueAt(2, "b"), dueAt(2, "b"), dueAt(3, "c"), dueAt(3, "d"),
			notDueAt(3, "c")},
	})
	require.Equal(w, map[string]string{"h/set": "2", "h/back": "3", "i/set": "other hash"}, w.load(0, "h", "i"))
	_, values := w.lookUp(0, "a", "b")
	require.Equal(w, []string{"-", "2"}, values)
	_, due := w.due(0, 9, 9)
	require.Equal(w, []string{"2/b=2", "3/d=-"}, due)
}

// largeCheckpoint has more of everything than Lua's unpack takes, in one hash, in one bucket, and over many.
func largeCheckpoint(w *world) {
	const n = 20000
	o := w.begin(0)
	var c state.Changes
	ids := make([]string, n)
	for i := range n {
		ids[i] = "impression-" + strconv.Itoa(i)
		c.Entries = append(c.Entries, entry(ids[i], "value of "+ids[i]))
		c.Due = append(c.Due, dueAt(5, ids[i]), dueAt(int64(10+i), ids[i]))
		c.Writes = append(c.Writes, write("feed:items", ids[i], "sum of "+ids[i]))
	}
	o.save(c)
	_, values := w.lookUp(0, ids...)
	for i := range values {
		require.Equal(w, "value of "+ids[i], values[i])
	}
	require.Len(w, w.load(0, "feed:items"), n)
	_, due := w.due(0, 5, 2*n)
	require.Len(w, due, n)
	_, due = w.due(0, 10+n/2-1, 2*n)
	require.Len(w, due, n+n/2)
	require.Len(w, w.known(0, func() {}), n)

	c = state.Changes{}
	for i := range n {
		c.Entries = append(c.Entries, state.Entry{ID: []byte(ids[i])})
		c.Due = append(c.Due, notDueAt(5, ids[i]), notDueAt(int64(10+i), ids[i]))
		c.Writes = append(c.Writes, state.Write{Hash: "feed:items", Field: []byte(ids[i])})
	}
	o.save(c)
	require.Empty(w, w.load(0, "feed:items"))
	require.Empty(w, w.known(0, func() {}))
	_, due = w.due(0, 1<<50, 10)
	require.Empty(w, due)
}

func bytesAreKeptAsTheyAre(w *world) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	odd := []string{"", "\x00", "\r\n", "$5\r\nhello\r\n", "\xff\xfe", string(all), "ünï", "{x}", "1", "-1", "0x10", "1e5",
		"%s%d", string(slices.Repeat([]byte("long"), 1<<16))}
	o := w.begin(0)
	var c state.Changes
	want := map[string]string{}
	for i, s := range odd {
		v := odd[len(odd)-1-i]
		c.Entries = append(c.Entries, entry(s, v))
		c.Due = append(c.Due, dueAt(-4, s))
		c.Writes = append(c.Writes, write("odd:hash", s, v))
		want["odd:hash/"+s] = v
	}
	o.save(c)
	require.Equal(w, want, w.load(0, "odd:hash"))
	_, values := w.lookUp(0, odd...)
	slices.Reverse(values)
	require.Equal(w, odd, values)
	known := w.known(0, func() {})
	_, due, _, err := w.Store.Due(w.ctx, 0, 0, 100, 1<<30)
	require.NoError(w, err)
	require.Len(w, due, len(odd))
	for _, d := range due {
		require.EqualValues(w, -4, d.Bucket)
		require.Contains(w, odd, string(d.ID))
		require.NotNil(w, d.Value, "an empty value is not nothing")
		require.Equal(w, want["odd:hash/"+string(d.ID)], string(d.Value))
		require.NotZero(w, known[string(d.ID)])
	}
}

func lookUpKeepsTheOrderAsked(w *world) {
	o := w.begin(0)
	var c state.Changes
	for i := range 300 {
		c.Entries = append(c.Entries, entry(strconv.Itoa(i), "v"+strconv.Itoa(i)))
	}
	o.save(c)
	f, values := w.lookUp(0)
	require.Empty(w, values)
	require.Equal(w, o.fence, f, "no ids: the fence alone")
	seed := uint64(time.Now().UnixNano())
	w.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var ids, want []string
	for range 9000 {
		n := r.IntN(400)
		ids = append(ids, strconv.Itoa(n)) // some more than once
		if n < 300 {
			want = append(want, "v"+strconv.Itoa(n))
		} else {
			want = append(want, "-")
		}
	}
	f, values = w.lookUp(0, ids...)
	require.Equal(w, want, values)
	require.Equal(w, o.fence, f)
}

func dueIsWalkedInBounds(w *world) {
	o := w.begin(0)
	var c state.Changes
	want := map[string]int64{}
	for b := int64(1); b <= 4; b++ {
		for i := range 250 {
			id := fmt.Sprintf("%d-%d", b, i)
			c.Entries = append(c.Entries, entry(id, "v"))
			c.Due = append(c.Due, dueAt(b*100, id))
			want[id] = b * 100
		}
	}
	o.save(c)
	_, due := w.due(0, 99, 10)
	require.Empty(w, due)
	_, due = w.due(0, 100, 0)
	require.Empty(w, due, "limit 0")
	lowest := int64(0)
	for len(want) > 250 {
		f, entries, _, err := w.Store.Due(w.ctx, 0, 399, 60, 1<<30)
		require.NoError(w, err)
		require.Equal(w, o.fence, f)
		require.NotEmpty(w, entries)
		require.LessOrEqual(w, len(entries), 60)
		c = state.Changes{}
		for _, e := range entries {
			require.GreaterOrEqual(w, e.Bucket, lowest, "lowest buckets first")
			lowest = e.Bucket
			require.Equal(w, want[string(e.ID)], e.Bucket)
			require.Equal(w, "v", string(e.Value))
			delete(want, string(e.ID))
			c.Due = append(c.Due, state.Due{Bucket: e.Bucket, ID: e.ID, Remove: true})
			c.Entries = append(c.Entries, state.Entry{ID: e.ID})
		}
		o.save(c)
	}
	_, due = w.due(0, 399, 60)
	require.Empty(w, due, "all buckets up to 399 are closed")
	_, due = w.due(0, 400, 1000)
	require.Len(w, due, 250)
}

// bucketsClose: a bucket is gone when its last id is taken out, and comes back with the next.
func bucketsClose(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Due: []state.Due{dueAt(1, "a"), dueAt(1, "b"), dueAt(2, "c")}})
	o.save(state.Changes{Due: []state.Due{notDueAt(1, "a")}})
	_, due := w.due(0, 9, 9)
	require.Equal(w, []string{"1/b=-", "2/c=-"}, due)
	o.save(state.Changes{Due: []state.Due{notDueAt(1, "b")}})
	_, due = w.due(0, 9, 1)
	require.Equal(w, []string{"2/c=-"}, due, "an empty bucket does not hide the next")
	o.save(state.Changes{Due: []state.Due{dueAt(1, "a"), dueAt(2, "d"), notDueAt(2, "c")}})
	_, due = w.due(0, 9, 9)
	require.Equal(w, []string{"1/a=-", "2/d=-"}, due)
	o.save(state.Changes{Due: []state.Due{notDueAt(1, "a"), dueAt(1, "z")}})
	_, due = w.due(0, 1, 9)
	require.Equal(w, []string{"1/z=-"}, due, "emptied and filled in one checkpoint")
}

func knownIDsAreComplete(w *world) {
	o := w.begin(0)
	require.Empty(w, w.known(0, w.hook))
	var c state.Changes
	for i := range 5000 {
		c.Entries = append(c.Entries, entry("id-"+strconv.Itoa(i), "v"))
	}
	o.save(c)
	c = state.Changes{}
	for i := 0; i < 5000; i += 2 {
		c.Entries = append(c.Entries, state.Entry{ID: []byte("id-" + strconv.Itoa(i))})
	}
	o.save(c)
	known := w.known(0, func() {})
	require.Len(w, known, 2500)
	for i := 1; i < 5000; i += 2 {
		require.NotZero(w, known["id-"+strconv.Itoa(i)])
	}
}

// knownIDsWhileTheyChange: an id that is there all the time comes, whatever else comes and goes.
func knownIDsWhileTheyChange(w *world) {
	o := w.begin(0)
	var c state.Changes
	for i := range 2000 {
		c.Entries = append(c.Entries, entry("stays-"+strconv.Itoa(i), "v"))
	}
	o.save(c)
	round := 0
	known := w.known(0, func() {
		if round++; round > 40 {
			return
		}
		c := state.Changes{}
		for i := range 100 {
			c.Entries = append(c.Entries, entry(fmt.Sprintf("comes-%d-%d", round, i), "v"))
			c.Entries = append(c.Entries, state.Entry{ID: fmt.Appendf(nil, "comes-%d-%d", round-1, i)})
			c.Entries = append(c.Entries, entry("stays-"+strconv.Itoa(i*7), "w"+strconv.Itoa(round)))
		}
		o.save(c)
	})
	for i := range 2000 {
		require.NotZero(w, known["stays-"+strconv.Itoa(i)])
	}
}

func loadReadsHashesWhole(w *world) {
	const n = 15000 // more than one step reads
	o := w.begin(0)
	want := map[string]string{"meta/account": "x", "small/f": "v"}
	c := state.Changes{Writes: []state.Write{write("meta", "account", "x"), write("small", "f", "v"), write("unasked", "f", "v")}}
	for i := range n {
		for _, h := range []string{"large", "feed:items"} {
			f, v := "field-"+strconv.Itoa(i), h+strconv.Itoa(i)
			c.Writes = append(c.Writes, write(h, f, v))
			want[h+"/"+f] = v
		}
	}
	o.save(c)
	got := w.load(0, "feed:items", "small", "none", "large")
	require.Len(w, got, len(want))
	for k, v := range want {
		require.Equal(w, v, got[k])
	}
	require.Equal(w, map[string]string{"meta/account": "x"}, w.load(0), "meta's own fields always come, the cut's never")
	require.Equal(w, map[string]string{"meta/account": "x"}, w.load(0, "meta"))
}

func partitionsDoNotMix(w *world) {
	ps := []int32{0, 1, 10, 2147483647}
	var owners []*owner
	for _, p := range ps {
		o := w.begin(p)
		owners = append(owners, o)
		v := strconv.Itoa(int(p))
		o.meta.Rankings = int64(p)
		o.save(state.Changes{Entries: []state.Entry{entry("a", v), entry("only"+v, v)}, Writes: []state.Write{write("h", "f", v)},
			Due: []state.Due{dueAt(1, "a"), dueAt(int64(p), "only"+v)}})
	}
	c := owners[0].make(state.Changes{})
	require.ErrorIs(w, w.Store.Checkpoint(w.ctx, ps[1], c), state.ErrFenced, "a checkpoint of another partition")
	for i, p := range ps {
		v := strconv.Itoa(int(p))
		f, values := w.lookUp(p, "a", "only0", "only"+v)
		require.Equal(w, owners[i].fence, f)
		require.Equal(w, v, values[0])
		require.Equal(w, v, values[2])
		require.Len(w, w.known(p, func() {}), 2)
		require.Equal(w, map[string]string{"h/f": v}, w.load(p, "h"))
		_, due := w.due(p, 1<<40, 100)
		require.Len(w, due, 2)
		require.Equal(w, int64(p), w.takeOver(p).meta.Rankings)
	}
}

// readsAreAtomicWithTheFence: all records that a look-up shows, and all ids that are shown to be due, are of the checkpoint
// that the fence names, while checkpoints keep coming. Records of what is due are not older.
func readsAreAtomicWithTheFence(w *world) {
	const n = 500
	o := w.begin(0)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "id-" + strconv.Itoa(i)
	}
	change := func(seq int64) state.Changes {
		var c state.Changes
		for _, id := range ids {
			c.Entries = append(c.Entries, entry(id, strconv.FormatInt(seq, 10)))
		}
		c.Due = []state.Due{notDueAt(seq-1, "id-0"), dueAt(seq, "id-0")}
		return c
	}
	o.save(change(1))
	const last = 60
	var writer sync.WaitGroup
	var failed error
	writer.Go(func() {
		fence := o.fence
		for seq := int64(2); seq <= last && failed == nil; seq++ {
			failed = w.Other.Checkpoint(w.ctx, 0, &state.Checkpoint{Fence: fence, ID: "c" + strconv.FormatInt(seq, 10),
				Meta: o.meta, Changes: change(seq)})
			fence.Seq++
		}
	})
	defer writer.Wait()
	for {
		f, values, err := w.Store.LookUp(w.ctx, 0, bytesOf(ids), 1<<30)
		require.NoError(w, err)
		want := strconv.FormatInt(f.Seq, 10)
		for _, v := range values {
			require.Equal(w, want, string(v))
		}
		g, due, _, err := w.Store.Due(w.ctx, 0, 1<<40, 10, 1<<30)
		require.NoError(w, err)
		require.Len(w, due, 1)
		require.Equal(w, g.Seq, due[0].Bucket)
		value, err := strconv.ParseInt(string(due[0].Value), 10, 64)
		require.NoError(w, err)
		require.GreaterOrEqual(w, value, g.Seq)
		require.GreaterOrEqual(w, g.Seq, f.Seq)
		if g.Seq == last {
			break
		}
	}
	writer.Wait()
	require.NoError(w, failed)
}
