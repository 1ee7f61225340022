package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// in is an entry whose next deadline lies in a bucket.
func in(bucket int64) *entry {
	return &entry{kind: closed, forgetAt: bucket * bucketWidth}
}

func unplaced() *slot { return &slot{bucket: noBucket, storedBucket: noBucket} }

func TestExpiry_AnIDMovesForwardByTheWalkAlone(t *testing.T) {
	x := newExpiry()
	s := unplaced()
	x.place(s, in(7), false, 1)
	require.Equal(t, int64(7), s.bucket)
	e := in(9)
	x.place(s, e, false, 2)
	require.Equal(t, int64(7), s.bucket, "the walk will come by")
	require.Equal(t, int64(7), e.bucket, "the entry says where it stands")
	x.place(s, in(5), false, 3)
	require.Equal(t, int64(5), s.bucket)
	require.Equal(t, map[int64]uint64{5: 3, 7: 3}, x.touched)

	upTo, ok := x.due(6 * bucketWidth)
	require.True(t, ok)
	require.Equal(t, int64(5), upTo)
	x.place(s, in(9), false, 4)
	require.Equal(t, int64(5), s.bucket, "steps leave what is walked over alone")
	x.place(s, in(9), true, 4)
	require.Equal(t, int64(9), s.bucket)
	require.Equal(t, uint64(4), x.dueSegment)
}

func TestExpiry_NothingIsPutBehindTheWalk(t *testing.T) {
	x := newExpiry()
	x.due(6 * bucketWidth)
	s := unplaced()
	x.place(s, in(2), false, 1)
	require.Equal(t, int64(6), s.bucket)

	gone := &entry{kind: nothing}
	s.bucket = 3
	x.place(s, gone, false, 2)
	require.Equal(t, []int64{noBucket, noBucket}, []int64{s.bucket, s.storedBucket}, "the walk takes it out")
	require.Zero(t, x.dueSegment)
	s = &slot{bucket: 3, storedBucket: 3}
	x.place(s, gone, true, 2)
	require.Equal(t, []int64{noBucket, 3}, []int64{s.bucket, s.storedBucket}, "the next seal does")
	require.Equal(t, uint64(2), x.dueSegment)
}

// TestExpiry_TheWalkWaitsForWhatIsNotStored: until the last segment that changed a due bucket is stored, the store's index is
// not as it should be.
func TestExpiry_TheWalkWaitsForWhatIsNotStored(t *testing.T) {
	x := newExpiry()
	x.place(unplaced(), in(2), false, 4)
	x.place(unplaced(), in(3), false, 6)
	x.place(unplaced(), in(8), false, 9)
	x.forget(4)
	require.NotContains(t, x.touched, int64(2))
	x.due(5 * bucketWidth)
	require.Equal(t, uint64(6), x.dueSegment)
	require.Equal(t, map[int64]uint64{8: 9}, x.touched)
	x.forget(9)
	require.Empty(t, x.touched)
}

func TestExpiry_BucketsAreClosedOnce(t *testing.T) {
	x := newExpiry()
	_, ok := x.due(bucketWidth - 1)
	require.False(t, ok, "the first bucket is not over")
	require.Zero(t, x.lag(5*bucketWidth), "no walk has come to an end")
	bucket, ok := x.due(4 * bucketWidth)
	require.True(t, ok)
	x.walked(bucket + 10)
	require.Equal(t, int64(4), x.floor, "no further than what was due")
	_, ok = x.due(4 * bucketWidth)
	require.False(t, ok)
	require.Equal(t, 2*bucketWidth, x.lag(6*bucketWidth))
	x.walked(1)
	require.Equal(t, int64(4), x.floor)

	y := newExpiry()
	y.from(4)
	require.Equal(t, x.fixed, y.fixed, "a loaded state goes on there")
}

func TestExpiry_StraysAreTakenOut(t *testing.T) {
	x := newExpiry()
	id := []byte("a")
	x.due(6 * bucketWidth)
	x.stray(2, id, 5)
	id[0] = 'b'
	require.Equal(t, uint64(5), x.dueSegment)
	var c state.Changes
	x.seal(&c)
	x.seal(&c)
	require.Equal(t, []state.Due{{Bucket: 2, ID: []byte("a"), Remove: true}}, c.Due)
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
