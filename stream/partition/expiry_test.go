package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// in is an entry whose next deadline lies in a bucket.
func in(bucket int64) *entry {
	return &entry{kind: pending, selected: -1, payoffDeadline: bucketStart(bucket)}
}

// bucketOfSlot is that of the page in which a slot's entry lies.
func (x *expiry) bucketOfSlot(s *slot) int64 { return x.pages.bucket(s.page) }

func TestExpiry_AnIDMovesForwardByTheWalkAlone(t *testing.T) {
	x := newExpiry()
	s := new(slot)
	x.place(s, in(7), 0, false, 1)
	require.Equal(t, int64(7), x.bucketOfSlot(s))
	x.place(s, in(9), 0, false, 2)
	require.Equal(t, int64(7), x.bucketOfSlot(s), "the walk will come by")
	x.place(s, in(5), 0, false, 3)
	require.Equal(t, int64(5), x.bucketOfSlot(s))
	require.Equal(t, map[int64]uint64{5: 3, 7: 3}, x.touched)

	upTo, ok := x.due(6 * tick)
	require.True(t, ok)
	require.Equal(t, int64(5), upTo)
	x.place(s, in(9), 0, false, 4)
	require.Equal(t, int64(5), x.bucketOfSlot(s), "steps leave what is walked over alone")
	x.place(s, in(9), 0, true, 4)
	require.Equal(t, int64(9), x.bucketOfSlot(s))
	require.Equal(t, uint64(4), x.dueSegment)
}

func TestExpiry_NothingIsPutBehindTheWalk(t *testing.T) {
	x := newExpiry()
	early := new(slot)
	x.place(early, in(3), 0, false, 1)
	x.due(6 * tick)
	s := new(slot)
	x.place(s, in(2), 0, false, 2)
	require.Equal(t, int64(6), x.bucketOfSlot(s))
	require.Equal(t, uint64(1), x.dueSegment)

	x.place(early, &entry{kind: nothing}, 0, false, 3)
	require.Equal(t, noPage, early.page, "what is not stored any more goes at once")
	require.Equal(t, uint64(1), x.dueSegment, "and the walk does not wait for it")
	x.met(3)
	require.Equal(t, uint64(3), x.dueSegment, "unless it has seen it")
	require.Len(t, x.pages.all, 1)
}

// TestExpiry_TheWalkWaitsForWhatIsNotStored: until the last segment that changed a due bucket is stored, the store's index is
// not as it should be.
func TestExpiry_TheWalkWaitsForWhatIsNotStored(t *testing.T) {
	x := newExpiry()
	x.place(new(slot), in(2), 0, false, 4)
	x.place(new(slot), in(3), 0, false, 6)
	x.place(new(slot), in(8), 0, false, 9)
	x.forget(4)
	require.NotContains(t, x.touched, int64(2))
	x.due(5 * tick)
	require.Equal(t, uint64(6), x.dueSegment)
	require.Equal(t, map[int64]uint64{8: 9}, x.touched)
	x.forget(9)
	require.Empty(t, x.touched)
}

func TestExpiry_BucketsAreClosedOnce(t *testing.T) {
	x := newExpiry()
	_, ok := x.due(tick - 1)
	require.False(t, ok, "the first bucket is not over")
	require.Zero(t, x.lag(5*tick), "no walk has come to an end")
	bucket, ok := x.due(4 * tick)
	require.True(t, ok)
	x.walked(bucket + 10)
	require.Equal(t, int64(4), x.floor, "no further than what was due")
	_, ok = x.due(4 * tick)
	require.False(t, ok)
	require.Equal(t, 2*tick, x.lag(6*tick))
	x.walked(1)
	require.Equal(t, int64(4), x.floor)

	y := newExpiry()
	y.from(4)
	require.Equal(t, x.fixed, y.fixed, "a loaded state goes on there")
}

func TestEventTime(t *testing.T) {
	et := newEventTime()
	all := [event.Inputs]bool{true, true, true}
	require.Equal(t, event.Millis(50), et.least(50, all))
	et.read(event.Impressions, 40)
	et.read(event.Impressions, 30)
	require.Equal(t, event.Millis(40), et.least(50, [event.Inputs]bool{false, true, true}))
	require.Less(t, et.least(50, [event.Inputs]bool{}), event.Millis(0), "nothing was read of the others")
	et.read(event.Selections, 60)
	et.read(event.Payoffs, 70)
	require.Equal(t, event.Millis(40), et.least(50, [event.Inputs]bool{}))
	require.Equal(t, event.Millis(50), et.least(50, [event.Inputs]bool{true, false, false}), "never ahead of now")
	require.True(t, et.raise(40))
	require.False(t, et.raise(40))
	require.False(t, et.raise(39))
	require.Equal(t, event.Millis(40), et.watermark)
}
