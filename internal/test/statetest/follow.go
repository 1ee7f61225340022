package statetest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

func (w *world) sums(f state.Follower, hashes ...string) (state.Fence, map[string]string) {
	w.Helper()
	at, fields, err := f.Sums(w.ctx, 0, hashes)
	require.NoError(w, err)
	w.hook()
	return at, w.asMap(fields)
}

// follow applies deltas until there are none.
func (w *world) follow(f state.Follower, at state.Fence, into map[string]string) state.Fence {
	w.Helper()
	for {
		deltas, err := f.Deltas(w.ctx, 0, at)
		require.NoError(w, err)
		w.hook()
		if len(deltas) == 0 {
			return at
		}
		for _, d := range deltas {
			require.Equal(w, at.Seq+1, d.Fence.Seq)
			at = d.Fence
			for _, x := range d.Fields {
				set(into, x.Hash+"/"+string(x.Field), x.Value)
			}
		}
	}
}

func deltasChain(w *world, f state.Follower) {
	_, err := f.Deltas(w.ctx, 0, state.Fence{})
	require.ErrorIs(w, err, state.ErrNoState)
	_, _, err = f.Sums(w.ctx, 0, []string{"h"})
	require.ErrorIs(w, err, state.ErrNoState)
	o := w.begin(0)
	at, have := w.sums(f, "h")
	require.Empty(w, have)
	require.Equal(w, at, w.follow(f, at, have), "nothing new")
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "1"), write("h", "private", "1"), publish("h", "", "")}})
	o.save(state.Changes{Writes: []state.Write{write("g", "private", "2")}})
	o.save(state.Changes{Writes: []state.Write{{Hash: "h", Field: []byte("a"), Publish: true}, publish("h", "b\x00\r\n", "\xff\x00")}})
	at = w.follow(f, at, have)
	require.Equal(w, map[string]string{"h/": "", "h/b\x00\r\n": "\xff\x00"}, have)
	require.Equal(w, o.fence, at)
	now, _ := w.sums(f, "h")
	require.Equal(w, now, at)
}

// deltasChainOverAcquires: owners that wrote nothing leave no trace.
func deltasChainOverAcquires(w *world, f state.Follower) {
	o := w.begin(0)
	at, have := w.sums(f, "h")
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "1")}})
	w.takeOver(0)
	between, _ := w.sums(f, "h")
	o = w.takeOver(0)
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "2")}})
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "3")}})
	require.Equal(w, o.fence, w.follow(f, at, have))
	require.Equal(w, map[string]string{"h/a": "3"}, have)
	require.Equal(w, o.fence, w.follow(f, between, have), "from a position read between two acquires")
}

func deltasAreSentOnce(w *world, f state.Follower) {
	o := w.begin(0)
	at, _ := w.sums(f, "h")
	c := o.save(state.Changes{Writes: []state.Write{publish("h", "a", "1")}})
	require.NoError(w, o.send(c))
	deltas, err := f.Deltas(w.ctx, 0, at)
	require.NoError(w, err)
	require.Len(w, deltas, 1)
	if w.Tear == nil {
		return
	}
	c = o.make(state.Changes{Writes: []state.Write{publish("h", "a", "2")}})
	w.Tear(w.T, 0, c.ID)
	_, err = f.Deltas(w.ctx, 0, at)
	require.ErrorIs(w, err, state.ErrIncomplete)
	_, _, err = f.Sums(w.ctx, 0, []string{"h"})
	require.ErrorIs(w, err, state.ErrIncomplete)
	require.NoError(w, o.send(c))
	deltas, err = f.Deltas(w.ctx, 0, at)
	require.NoError(w, err)
	require.Len(w, deltas, 2)
}

func deltasShowAGap(w *world, f state.Follower) {
	o := w.begin(0)
	start, _ := w.sums(f, "h")
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "1")}})
	now, _ := w.sums(f, "h")
	for _, at := range []state.Fence{
		{Token: "another", Seq: 0}, {Token: "another", Seq: 1}, {Token: now.Token, Seq: 2}, {Token: now.Token, Seq: 1000},
	} {
		_, err := f.Deltas(w.ctx, 0, at)
		require.ErrorIs(w, err, state.ErrGap, "%+v", at)
	}
	// The stream is bounded: a follower that stays away for long has a gap.
	for range 5000 {
		o.save(state.Changes{})
		if o.fence.Seq%500 == 0 {
			if _, err := f.Deltas(w.ctx, 0, start); err != nil {
				require.ErrorIs(w, err, state.ErrGap)
				return
			}
		}
	}
	require.Fail(w, "the stream of deltas is not bounded")
}

func deltasOfARollback(w *world, f state.Follower) {
	o := w.begin(0)
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "1")}})
	restore := w.Snapshot(w.T, 0)
	o.save(state.Changes{Writes: []state.Write{publish("h", "a", "2")}})
	at, _ := w.sums(f, "h")
	restore()
	_, err := f.Deltas(w.ctx, 0, at)
	require.ErrorIs(w, err, state.ErrGap)
	o = w.takeOver(0)
	for range 3 {
		o.save(state.Changes{Writes: []state.Write{publish("h", "b", "3")}})
		_, err = f.Deltas(w.ctx, 0, at)
		require.ErrorIs(w, err, state.ErrGap, "the other branch never chains")
	}
}

// largeDeltas: the deltas carry everything, or say that they do not.
func largeDeltas(w *world, f state.Follower) {
	for _, n := range []int{3000, 20000} {
		p := int32(n)
		o := w.begin(p)
		at, _, err := f.Sums(w.ctx, p, []string{"h"})
		require.NoError(w, err)
		var c state.Changes
		for i := range n {
			c.Writes = append(c.Writes, publish("h", "item-"+strconv.Itoa(i), `{"n":1,"sum":0.5}`))
		}
		o.save(c)
		deltas, err := f.Deltas(w.ctx, p, at)
		if err != nil {
			require.ErrorIs(w, err, state.ErrGap)
			w.Logf("%d published fields: reload", n)
		} else {
			require.Len(w, deltas, 1)
			require.Len(w, deltas[0].Fields, n)
		}
		at, fields, err := f.Sums(w.ctx, p, []string{"h"})
		require.NoError(w, err)
		require.Len(w, fields, n)
		o.save(state.Changes{Writes: []state.Write{publish("h", "x", "y")}})
		deltas, err = f.Deltas(w.ctx, p, at)
		require.NoError(w, err)
		require.Len(w, deltas, 1)
	}
}

// sumsMatchDeltas: deltas and sums give a follower the same state.
func sumsMatchDeltas(w *world, f state.Follower) {
	seed := uint64(time.Now().UnixNano())
	w.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	hashes := []string{"h0", "h1", "h2"}
	o := w.begin(0)
	at, have := w.sums(f, hashes...)
	for range 40 {
		if r.IntN(5) == 0 {
			o = w.takeOver(0)
		}
		c := randomChanges(r)
		for i := range c.Writes {
			c.Writes[i].Publish = true
		}
		o.save(c)
		if r.IntN(3) > 0 {
			continue
		}
		at = w.follow(f, at, have)
		now, want := w.sums(f, hashes...)
		require.Equal(w, now, at)
		require.Equal(w, want, have)
	}
}
