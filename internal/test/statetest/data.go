package statetest

import (
	"fmt"
	"maps"
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
	unset := func(hash, field string) state.Write { return state.Write{Hash: hash, Field: []byte(field)} }
	o.save(state.Changes{
		Writes: []state.Write{write("h", "set", "1"), write("h", "set", "2"), write("h", "deleted", "1"), unset("h", "deleted"),
			unset("h", "back"), write("h", "back", "3"), write("i", "set", "other hash")},
		Entries: []state.Entry{entry("11/a", "1"), gone("11/a"), gone("21/b"), entry("21/b", "1"), entry("21/b", "2"), entry("31/c", "1"),
			entry("31/d", "1"), gone("31/c"), entry("41/d", "2")},
	})
	require.Equal(w, map[string]string{"h/set": "2", "h/back": "3", "i/set": "other hash"}, w.load(0, "h", "i"))
	_, values := w.lookUp(0, "11/a", "21/b")
	require.Equal(w, []string{"-", "2"}, values)
	_, due := w.due(0, 9, 9)
	require.Equal(w, []string{"21/b=2", "31/d=1", "41/d=2"}, due)
	require.Len(w, w.known(0, func() {}), 3)
}

// largeCheckpoint exceeds the limit of Lua's unpack in everything, in one hash, in one page, and over many.
func largeCheckpoint(w *world) {
	const n = 20000
	o := w.begin(0)
	var c state.Changes
	ids := make([]string, n)
	for i := range n {
		ids[i] = "51/i-" + strconv.Itoa(i)
		c.Entries = append(c.Entries, entry(ids[i], "value of "+ids[i]), entry(strconv.Itoa(100+i)+"/i", "v"))
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
	_, due = w.due(0, 9+n/20, 2*n)
	require.Len(w, due, n+n/2)
	require.Len(w, w.known(0, func() {}), 2*n)

	c = state.Changes{}
	for i := range n {
		c.Entries = append(c.Entries, gone(ids[i]), gone(strconv.Itoa(100+i)+"/i"))
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
	values := map[state.ID]string{}
	var places []state.Place
	for i, s := range odd {
		v := odd[len(odd)-1-i]
		id := state.IDOf([]byte(s))
		values[id] = v
		places = append(places, state.Place{Page: 1<<32 - 1, ID: id})
		c.Entries = append(c.Entries, state.Entry{Place: places[i], Value: []byte(v)})
		c.Writes = append(c.Writes, write("odd:hash", s, v))
		want["odd:hash/"+s] = v
	}
	o.save(c)
	require.Equal(w, want, w.load(0, "odd:hash"))
	_, found, err := w.Store.LookUp(w.ctx, 0, places, 1<<30)
	require.NoError(w, err)
	_, due, _, err := w.Store.Due(w.ctx, 0, 1<<32, 100, 1<<30)
	require.NoError(w, err)
	require.Len(w, due, len(odd))
	for i, d := range due {
		require.NotNil(w, d.Value, "an empty value is not nothing")
		require.Equal(w, values[d.ID], string(d.Value))
		require.Equal(w, values[places[i].ID], string(found[i]))
	}
	require.Len(w, w.known(0, func() {}), len(odd))
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
		ids = append(ids, strconv.Itoa(n)) // some repeated
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
	left := map[string]bool{}
	for b := 1; b <= 4; b++ {
		for i := range 250 {
			name := fmt.Sprintf("%d/%d", b*100+i/100, i)
			c.Entries = append(c.Entries, entry(name, "v"))
			left[name] = true
		}
	}
	o.save(c)
	_, due := w.due(0, 9, 10)
	require.Empty(w, due)
	_, due = w.due(0, 10, 0)
	require.Empty(w, due, "limit 0")
	lowest := int64(0)
	for len(left) > 250 {
		f, entries, _, err := w.Store.Due(w.ctx, 0, 39, 60, 1<<30)
		require.NoError(w, err)
		require.Equal(w, o.fence, f)
		require.NotEmpty(w, entries)
		require.LessOrEqual(w, len(entries), 60)
		c = state.Changes{}
		for _, e := range entries {
			require.GreaterOrEqual(w, bucketOf(e.Page), lowest, "lowest buckets first")
			lowest = bucketOf(e.Page)
			name := fmt.Sprintf("%d/%s", e.Page, text(e.ID))
			require.True(w, left[name])
			require.Equal(w, "v", string(e.Value))
			delete(left, name)
			c.Entries = append(c.Entries, state.Entry{Place: e.Place})
		}
		o.save(c)
	}
	_, due = w.due(0, 39, 60)
	require.Empty(w, due, "all buckets up to 39 are closed")
	_, due = w.due(0, 40, 1000)
	require.Len(w, due, 250)
}

// pagesClose: a page is gone with its last entry, and may begin again in any bucket.
func pagesClose(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("11/a", "1"), entry("11/b", "1"), entry("21/c", "1")}})
	o.save(state.Changes{Entries: []state.Entry{gone("11/a")}})
	_, due := w.due(0, 9, 9)
	require.Equal(w, []string{"11/b=1", "21/c=1"}, due)
	o.save(state.Changes{Entries: []state.Entry{gone("11/b")}})
	_, due = w.due(0, 9, 1)
	require.Equal(w, []string{"21/c=1"}, due, "an empty page does not hide the next")
	require.Len(w, w.known(0, func() {}), 1)
	o.save(state.Changes{Entries: []state.Entry{entry("11/a", "2"), entry("21/d", "2"), gone("21/c")}})
	_, due = w.due(0, 9, 9)
	require.Equal(w, []string{"11/a=2", "21/d=2"}, due)
	o.save(state.Changes{Entries: []state.Entry{gone("11/a"), entry("11/z", "3")}})
	_, due = w.due(0, 1, 9)
	require.Equal(w, []string{"11/z=3"}, due, "emptied and filled in one checkpoint")

	c := o.make(state.Changes{Entries: []state.Entry{entry("11/y", "4")}})
	c.Changes.Pages[0].Bucket = 8
	require.NoError(w, o.send(c))
	_, due = w.due(0, 1, 9)
	require.ElementsMatch(w, []string{"11/y=4", "11/z=3"}, due, "a page that is there keeps its bucket")
}

func knownIDsAreComplete(w *world) {
	o := w.begin(0)
	require.Empty(w, w.known(0, w.hook))
	var c state.Changes
	name := func(i int) string { return fmt.Sprintf("%d/%d", 1+i/100, i) }
	for i := range 60_000 {
		c.Entries = append(c.Entries, entry(name(i), "v"))
	}
	o.save(c)
	c = state.Changes{}
	for i := 0; i < 60_000; i += 2 {
		c.Entries = append(c.Entries, gone(name(i)))
	}
	for i := range 100 { // a page that is gone
		c.Entries = append(c.Entries, gone(name(300+i)))
	}
	o.save(c)
	known := w.known(0, w.hook)
	require.Len(w, known, 30_000-50)
	for name, times := range known { // testify takes longer than the store
		if times != 1 {
			w.Fatalf("%s came %d times", name, times)
		}
	}
}

// knownIDsWhileTheyChange: an unchanged entry is returned once, whatever happens to others in its page.
func knownIDsWhileTheyChange(w *world) {
	o := w.begin(0)
	var c state.Changes
	stays := func(i int) string { return fmt.Sprintf("%d/stays-%d", 1000+i/10, i) }
	for i := range 20_000 {
		c.Entries = append(c.Entries, entry(stays(i), "v"))
	}
	o.save(c)
	round := 0
	known := w.known(0, func() {
		round++
		c := state.Changes{}
		for i := range 100 {
			page := 1000 + 20*i
			c.Entries = append(c.Entries, entry(fmt.Sprintf("%d/comes-%d", page, round), "v"), gone(fmt.Sprintf("%d/comes-%d", page, round-1)))
		}
		o.save(c)
	})
	for i := range 20_000 {
		if times := known[stays(i)]; times != 1 {
			w.Fatalf("%s came %d times", stays(i), times)
		}
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
	require.True(w, maps.Equal(want, got), "fields have other values")
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
		o.save(state.Changes{Entries: []state.Entry{entry("a", v), entry("only"+v, v)}, Writes: []state.Write{write("h", "f", v)}})
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

// readsAreAtomicWithTheFence: results of LookUp and Due belong to the checkpoint of the fence, while checkpoints keep coming.
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
		return begun(c)
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
		f, values, err := w.Store.LookUp(w.ctx, 0, placesOf(ids), 1<<30)
		require.NoError(w, err)
		want := strconv.FormatInt(f.Seq, 10)
		for _, v := range values {
			if string(v) != want {
				w.Fatalf("a value of checkpoint %s at %s", v, want)
			}
		}
		g, due, _, err := w.Store.Due(w.ctx, 0, 1<<40, 10, 1<<30)
		require.NoError(w, err)
		require.Len(w, due, 10)
		for _, e := range due {
			require.Equal(w, strconv.FormatInt(g.Seq, 10), string(e.Value))
		}
		require.GreaterOrEqual(w, g.Seq, f.Seq)
		if g.Seq == last {
			break
		}
	}
	writer.Wait()
	require.NoError(w, failed)
}
