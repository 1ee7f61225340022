package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

func always(*segment) bool { return true }

// sealed are checkpoints with so many sealed segments of 1000 bytes, each made in its own second.
func sealed(n int) *checkpoints {
	c := newCheckpoints(0)
	for i := range n {
		now := time.Duration(i) * time.Second
		c.changed(now)
		c.feedback.open = 400
		c.seal(&segment{number: uint64(i + 1), bytes: 1000}, now+time.Millisecond)
	}
	return &c
}

func TestCheckpoints_SealWhenLargeOrWhenACheckpointCouldTakeIt(t *testing.T) {
	c := newCheckpoints(0)
	c.moved = false
	require.False(t, c.toSeal(5000, 1000, true), "nothing has changed")
	c.changed(time.Second)
	c.changed(time.Minute)
	require.Equal(t, time.Second, c.openSince, "the first change counts")
	require.False(t, c.toSeal(999, 1000, false))
	require.True(t, c.toSeal(1000, 1000, false))
	require.True(t, c.toSeal(1, 1000, true))
	c.seal(&segment{}, time.Minute)
	c.changed(time.Minute)
	require.False(t, c.toSeal(1, 1000, true), "another goes first")

	c = newCheckpoints(0)
	require.True(t, c.toSeal(0, 1000, true), "positions alone are saved, too")
}

func TestCheckpoints_OneInFlightCoversTheOldestThatMay(t *testing.T) {
	c := sealed(4)
	require.Empty(t, c.next(time.Minute, func(*segment) bool { return false }))
	require.Zero(t, c.inFlight)

	got := c.next(time.Minute, func(s *segment) bool { return s.number != 3 })
	require.Len(t, got, 2, "none is saved before one that is older")
	require.Empty(t, c.next(time.Minute, always), "one is in flight")
	require.False(t, c.due(time.Minute+time.Second, 2*time.Second))

	c.done([]state.Position{{Offset: 7}})
	require.Equal(t, uint64(2), c.acked)
	require.Equal(t, int64(2000), c.bytes)
	require.Equal(t, int64(800), c.feedback.sealed)
	require.Equal(t, 2*time.Second, c.since(), "the third's first change")
	require.Equal(t, int64(7), c.saved[0].Offset)

	c.next(time.Minute, always)
	c.done(nil)
	require.False(t, c.unsaved())
	require.Zero(t, c.bytes)
	require.Zero(t, c.feedback)
}

func TestCheckpoints_OneIsBoundedInBytes(t *testing.T) {
	c := sealed(3)
	c.segments[0].bytes, c.segments[1].bytes = maxCheckpointBytes+1, maxCheckpointBytes
	require.Len(t, c.next(0, always), 1, "one that is larger goes alone")
	c.done(nil)
	require.Len(t, c.next(0, always), 1)
}

// TestCheckpoints_PositionsFollowTheRankings: a segment's position is behind the last ranking of its steps, wherever the batch
// ends that took it.
func TestCheckpoints_PositionsFollowTheRankings(t *testing.T) {
	messages := []OutMessage{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}}
	for name, tc := range map[string]struct {
		base  int64
		first int64 // of the segment that ends with the first ranking
		last  int64
	}{
		"acked":                         {base: 50, first: 51, last: 53},
		"a copy, nobody knows of where": {base: -1, first: 40, last: 40},
	} {
		t.Run(name, func(t *testing.T) {
			o := rankingsOut{position: 40, acked: 10}
			c := newCheckpoints(0)
			for _, made := range []int64{10, 11, 13, 14} {
				c.seal(&segment{made: emitted{rankings: made}, position: 40}, 0)
			}
			o.delivered(tc.base, messages)
			c.delivered(&o, tc.base, messages)
			var got []int64
			for _, s := range c.segments {
				got = append(got, s.position)
			}
			require.Equal(t, []int64{40, tc.first, tc.last, 40}, got)
			if tc.base >= 0 {
				require.Equal(t, witnessOf(50, 0, []byte("a"), nil), c.segments[1].witness)
			}
		})
	}
}

func TestCheckpoints_WakeForTheNext(t *testing.T) {
	const interval = 100 * time.Millisecond
	c := sealed(1)
	require.Equal(t, interval, c.wake(0, interval, always))
	require.Equal(t, time.Millisecond, c.wake(time.Hour, interval, always), "it is overdue")
	require.Equal(t, idleWake, c.wake(0, interval, func(*segment) bool { return false }), "a reply will wake")
	c.next(0, always)
	require.Equal(t, idleWake, c.wake(0, interval, always), "a reply will wake")
	c.done(nil)
	require.Equal(t, idleWake, c.wake(0, interval, always), "there is nothing to save")
	c.moved = true
	require.Equal(t, interval, c.wake(0, interval, always))
}

func TestMerge_LaterSegmentsWin(t *testing.T) {
	fence := state.Fence{Token: "t", Seq: 4}
	older := &segment{changes: state.Changes{Writes: []state.Write{{Value: []byte("1")}}}, inputs: []state.Position{{Offset: 1}}, position: 1}
	newer := &segment{changes: state.Changes{Writes: []state.Write{{Value: []byte("2")}}}, inputs: []state.Position{{Offset: 2}}, position: 2}
	c := merge([]*segment{older, newer}, fence, state.Meta{ClusterID: "c"})
	require.Equal(t, "t-5", c.ID)
	require.Equal(t, fence, c.Fence)
	require.Equal(t, "c", c.Meta.ClusterID)
	require.Equal(t, StateLayout, c.Meta.Layout)
	require.Equal(t, int64(2), c.Meta.Inputs[0].Offset)
	require.Equal(t, int64(2), c.Meta.Rankings)
	require.Equal(t, []state.Write{{Value: []byte("1")}, {Value: []byte("2")}}, c.Changes.Writes)
}

// TestCheckLayout: a state of another version, or one that a reshard has not ended, is refused with its mend.
func TestCheckLayout(t *testing.T) {
	require.NoError(t, CheckLayout(&state.Meta{Layout: StateLayout}))
	require.ErrorContains(t, CheckLayout(&state.Meta{Layout: StateLayout + 1}), "state rebuild --replace --yes")
	require.ErrorContains(t, CheckLayout(&state.Meta{Layout: StateUnfinished}), "state reshard")
}
