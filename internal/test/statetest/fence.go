package statetest

import (
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

func acquireNeedsAState(w *world) {
	_, err := w.Store.Acquire(w.ctx, 0, 1, false, nil)
	require.ErrorIs(w, err, state.ErrNoState)
	_, err = w.Store.Acquire(w.ctx, 0, 1, true, nil)
	require.ErrorIs(w, err, state.ErrNoState)
	_, err = w.Store.Probe(w.ctx, 0)
	require.ErrorIs(w, err, state.ErrNoState)
	_, err = w.Store.Load(w.ctx, 0, []string{"feed:items"})
	require.ErrorIs(w, err, state.ErrNoState)
	_, _, err = w.Store.LookUp(w.ctx, 0, placesOf([]string{"a"}), 1<<30)
	require.ErrorIs(w, err, state.ErrNoState)
	_, _, _, err = w.Store.Due(w.ctx, 0, 1, 1, 1<<30)
	require.ErrorIs(w, err, state.ErrNoState)
	_, _, err = w.Store.KnownIDs(w.ctx, 0, 0)
	require.ErrorIs(w, err, state.ErrNoState)
	err = w.Store.Checkpoint(w.ctx, 0, &state.Checkpoint{Fence: state.Fence{Token: "t"}, ID: "c", Meta: *freshMeta()})
	require.ErrorIs(w, err, state.ErrNoState)
}

func acquireReturnsTheCut(w *world) {
	o := w.begin(0)
	want := *freshMeta()
	want.Fence, want.Generation = o.fence, 1
	require.Equal(w, want, o.meta)
	require.Zero(w, o.fence.Seq)
	require.NotEmpty(w, o.fence.Token)

	want.Inputs[1] = state.Position{Offset: 5, Witness: state.Witness{Offset: 4, Timestamp: 3, Hash: 2}}
	want.Rankings, want.ProducerID, want.ProducerEpoch = 1<<61, 1<<50, 32000
	want.RankingsWitness = state.Witness{Offset: 1}
	o.meta = want
	c := o.save(state.Changes{})
	n := w.takeOver(0)
	want.Fence, want.Generation, want.CheckpointID = state.Fence{Token: n.fence.Token, Seq: 1}, 2, c.ID
	require.Equal(w, want, n.meta)
	require.NotEqual(w, o.fence.Token, n.fence.Token, "the token is fresh at each acquire")
}

func acquireRefusesAHigherGeneration(w *world) {
	_, err := w.Store.Acquire(w.ctx, 0, 10, false, freshMeta())
	require.NoError(w, err)
	before := w.probe(0)
	_, err = w.Store.Acquire(w.ctx, 0, 9, false, nil)
	require.ErrorIs(w, err, state.ErrGeneration)
	require.Equal(w, before, w.probe(0), "a refused acquire changes nothing")
	_, err = w.Store.Acquire(w.ctx, 0, 10, false, nil)
	require.NoError(w, err)
	m, err := w.Store.Acquire(w.ctx, 0, 9, true, nil)
	require.NoError(w, err)
	require.EqualValues(w, 9, m.Generation)
	_, err = w.Store.Acquire(w.ctx, 0, 11, false, nil)
	require.NoError(w, err)
}

func freshDoesNotOverwrite(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("a", "1")}, Writes: []state.Write{write("h", "f", "v")}})
	other := *freshMeta()
	other.Rankings = 12345
	m, err := w.Other.Acquire(w.ctx, 0, 2, false, &other)
	require.NoError(w, err)
	require.EqualValues(w, 99, m.Rankings)
	require.EqualValues(w, 1, m.Seq)
	_, values := w.lookUp(0, "a")
	require.Equal(w, []string{"1"}, values)
}

// checkpointIsAConsistentCut is invariant 1: offsets, state and index change together.
func checkpointIsAConsistentCut(w *world) {
	o := w.begin(0)
	o.meta.Inputs[0].Offset = 8
	o.save(state.Changes{
		Writes:  []state.Write{write("meta", "watermark", "17"), write("feed:items", "x", "{}"), write("feed:items", "y", "")},
		Entries: []state.Entry{entry("31/a", "1"), entry("31/b", "2")},
	})
	require.Equal(w, map[string]string{"meta/watermark": "17", "feed:items/x": "{}", "feed:items/y": ""},
		w.load(0, "feed:items"))
	_, values := w.lookUp(0, "31/a", "31/b", "31/c", "32/a")
	require.Equal(w, []string{"1", "2", "-", "-"}, values)
	f, due := w.due(0, 3, 10)
	require.ElementsMatch(w, []string{"31/a=1", "31/b=2"}, due)
	require.Equal(w, o.fence, f)

	o.meta.Inputs[0].Offset = 9
	o.save(state.Changes{
		Writes: []state.Write{{Hash: "meta", Field: []byte("watermark")}, {Hash: "feed:items", Field: []byte("y")},
			write("feed:items", "z", "1")},
		Entries: []state.Entry{gone("31/a"), gone("31/b"), entry("45/b", "3"), gone("31/nobody"), gone("77/nobody")},
	})
	require.Equal(w, map[string]string{"feed:items/x": "{}", "feed:items/z": "1"}, w.load(0, "feed:items"))
	_, values = w.lookUp(0, "31/a", "31/b", "45/b")
	require.Equal(w, []string{"-", "-", "3"}, values)
	_, due = w.due(0, 100, 10)
	require.Equal(w, []string{"45/b=3"}, due)
	require.EqualValues(w, 9, w.takeOver(0).meta.Inputs[0].Offset)
}

// checkpointRaisesSeqByOne is invariant 2.
func checkpointRaisesSeqByOne(w *world) {
	o := w.begin(0)
	for seq := int64(1); seq <= 20; seq++ {
		o.save(state.Changes{Entries: []state.Entry{entry("a", "x")}})
		require.Equal(w, state.Fence{Token: o.fence.Token, Seq: seq}, w.probe(0))
	}
}

func fencedByToken(w *world) {
	o := w.begin(0)
	o.save(state.Changes{})
	n := w.takeOver(0)
	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrFenced)
	n.save(state.Changes{})
	require.Equal(w, n.fence, w.probe(0))
}

func fencedBySeq(w *world) {
	o := w.begin(0)
	o.save(state.Changes{})
	for _, seq := range []int64{0, 2, 1000} {
		c := o.make(state.Changes{})
		c.Fence.Seq = seq
		require.ErrorIs(w, o.send(c), state.ErrFenced, "seq %d where 1 is stored", seq)
	}
	o.save(state.Changes{})
}

func fencedByTokenAndSeq(w *world) {
	o := w.begin(0)
	n := w.takeOver(0)
	n.save(state.Changes{})
	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrFenced)
}

func fencedWritesNothing(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("a", "1")}})
	n := w.takeOver(0)
	bad := o.make(state.Changes{
		Writes: []state.Write{write("h", "f", "v"), write("meta", "m", "v")}, Entries: []state.Entry{entry("a", "2"), entry("b", "2"), entry("2/b", "2")},
	})
	bad.Meta.Rankings = 1 << 40
	require.ErrorIs(w, o.send(bad), state.ErrFenced)
	require.Empty(w, w.load(0, "h"))
	_, values := w.lookUp(0, "a", "b")
	require.Equal(w, []string{"1", "-"}, values)
	f, due := w.due(0, 9, 9)
	require.Equal(w, []string{"1/a=1"}, due)
	require.Equal(w, n.fence, f)
	require.EqualValues(w, 99, w.takeOver(0).meta.Rankings)
}

func sentTwiceIsDoneOnce(w *world) {
	o := w.begin(0)
	c := o.save(state.Changes{Entries: []state.Entry{entry("a", "1")}})
	for range 3 {
		require.NoError(w, o.send(c), "a lost reply")
		require.Equal(w, o.fence, w.probe(0), "seq rises once")
	}
	o.save(state.Changes{Entries: []state.Entry{entry("a", "2")}})
	require.ErrorIs(w, o.send(c), state.ErrFenced, "the one before the last is not the last")
	_, values := w.lookUp(0, "a")
	require.Equal(w, []string{"2"}, values)
}

func tornIsRepairedByTheSameCheckpointOnly(w *world) {
	if w.Tear == nil {
		w.Log("this store writes atomically: nothing can be torn")
		return
	}
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("a", "1")}})
	c := o.make(state.Changes{Entries: []state.Entry{entry("a", "2")}})
	w.Tear(w.T, 0, c.ID)

	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrTorn, "another checkpoint of the same writer")
	stranger := o.make(state.Changes{})
	stranger.Fence.Token = "another"
	require.Error(w, o.send(stranger), "another writer")
	stranger.ID = c.ID
	require.Error(w, o.send(stranger), "another writer with the same id")
	_, err := w.Other.Acquire(w.ctx, 0, 2, false, nil)
	require.ErrorIs(w, err, state.ErrTorn)
	_, err = w.Other.Acquire(w.ctx, 0, 2, true, freshMeta())
	require.ErrorIs(w, err, state.ErrTorn)

	_, _, err = w.Store.LookUp(w.ctx, 0, placesOf([]string{"a"}), 1<<30)
	require.ErrorIs(w, err, state.ErrIncomplete)
	_, _, _, err = w.Store.Due(w.ctx, 0, 9, 9, 1<<30)
	require.ErrorIs(w, err, state.ErrIncomplete)
	_, err = w.Store.Probe(w.ctx, 0)
	require.ErrorIs(w, err, state.ErrIncomplete)
	_, err = w.Store.Load(w.ctx, 0, nil)
	require.ErrorIs(w, err, state.ErrIncomplete)
	_, _, err = w.Store.KnownIDs(w.ctx, 0, 0)
	require.ErrorIs(w, err, state.ErrIncomplete)

	require.NoError(w, o.send(c))
	o.fence.Seq++
	f, values := w.lookUp(0, "a")
	require.Equal(w, []string{"2"}, values)
	require.Equal(w, o.fence, f)
	require.NoError(w, o.send(c))
	o.save(state.Changes{})
	w.takeOver(0)
}

// rollbackIsNoticed is for a restored dump, and for a failover to a stalled replica.
func rollbackIsNoticed(w *world) {
	o := w.begin(0)
	o.save(state.Changes{Entries: []state.Entry{entry("a", "1")}})
	restore := w.Snapshot(w.T, 0)
	old := o.fence
	last := o.save(state.Changes{Entries: []state.Entry{entry("a", "2"), entry("b", "2"), entry("22/b", "2")}})
	restore()
	require.Equal(w, old, w.probe(0))
	f, values := w.lookUp(0, "a", "b")
	require.Equal(w, old, f)
	require.Equal(w, []string{"1", "-"}, values)
	f, _ = w.due(0, 9, 9)
	require.Equal(w, old, f)
	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrFenced)
	_ = last

	// As before an acquire, with as many checkpoints since: only the token differs.
	o = w.takeOver(0)
	restore = w.Snapshot(w.T, 0)
	n := w.takeOver(0)
	require.Equal(w, o.fence.Seq, n.fence.Seq)
	restore()
	require.NotEqual(w, n.fence, w.probe(0))
	require.ErrorIs(w, n.send(n.make(state.Changes{})), state.ErrFenced)
}

func ready(w *world) {
	require.NoError(w, w.Store.Ready(w.ctx))
	w.begin(0)
	require.NoError(w, w.Store.Ready(w.ctx))
}
