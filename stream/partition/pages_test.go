package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func TestBucketOf(t *testing.T) {
	const hour, dayLong = 360, 8640 // ticks
	for _, c := range []struct{ deadline, w, want int64 }{
		{0, 0, 0}, {-5, 0, 0}, {tick - 1, 0, 0}, {tick, 0, 1}, {5 * tick, 9 * tick, 5}, {5 * tick, -1, 5},
		{hour * tick, 0, hour}, {511 * tick, 0, 511}, // 1/256 of 511 ticks is less than two
		{512 * tick, 0, 513}, {513 * tick, 0, 513}, {514 * tick, 0, 515},
		{512 * tick, tick, 512}, // from nearer by
		{7 * dayLong * tick, 0, 7*dayLong | 127}, {30 * dayLong * tick, 0, 30*dayLong | 511},
	} {
		require.Equal(t, c.want, bucketOf(c.deadline, c.w), "%+v", c)
	}
}

// TestBucketOf_IsNeitherEarlyNorLate: when a bucket is due its deadlines are past,
// by at most a tick or 1/256 of the distance. A nearer deadline has no later bucket.
func TestBucketOf_IsNeitherEarlyNorLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.Int64Range(0, 1<<41).Draw(t, "watermark")
		ahead := rapid.Int64Range(0, 1<<rapid.IntRange(1, 42).Draw(t, "order")).Draw(t, "ahead")
		b := bucketOf(w+ahead, w)
		end := (b + 1) * tick // the watermark at which it is due
		require.Greater(t, end, w+ahead)
		require.LessOrEqual(t, end, w+ahead+max(tick, ahead/widthPart+tick))
		require.LessOrEqual(t, bucketOf(w+ahead-rapid.Int64Range(0, ahead).Draw(t, "nearer"), w), b)
	})
}

// TestPages_AreBounded: whatever enters and leaves, no page is ever given more than it takes, nor anything after its last entry has left,
// and the store's pages are the machine's.
func TestPages_AreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newPages()
		put, live := map[uint32]int{}, map[uint32]int{}
		over := map[uint32]bool{}
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			bucket := rapid.Int64Range(0, 2).Draw(t, "bucket")
			if rapid.IntRange(0, 9).Draw(t, "what") > 0 {
				n := g.enter(bucket)
				require.Equal(t, bucket, g.bucket(n))
				require.False(t, over[n])
				put[n]++
				live[n]++
				require.LessOrEqual(t, put[n], pageEntries)
				continue
			}
			for n := range live {
				g.leave(n)
				if live[n]--; live[n] == 0 {
					delete(live, n)
					over[n] = true
					require.Equal(t, noBucket, g.bucket(n))
				}
				break
			}
		}
		require.Len(t, g.all, len(live))
		var c state.Changes
		g.seal(&c)
		require.Len(t, c.Pages, len(live), "each begins once, and none in which nothing lies")
		g.seal(&c)
		require.Len(t, c.Pages, len(live))

		again := newPages()
		for n, entries := range live {
			again.load(state.Page{Number: n, Bucket: g.bucket(n)}, entries)
		}
		n := again.enter(1)
		require.Less(t, live[n], pageEntries)
		require.True(t, live[n] == 0 || g.bucket(n) == 1)
	})
}

func TestPages_NumbersAreUsedAgain(t *testing.T) {
	g := newPages()
	g.load(state.Page{Number: 1<<32 - 1, Bucket: 3}, pageEntries)
	g.load(state.Page{Number: 1, Bucket: 3}, 1)
	require.Equal(t, uint32(1), g.enter(3))
	require.Equal(t, uint32(2), g.enter(4), "0 stands for none, and 1 is there")
}

// TestNewGroup_BucketsBeforeTheFirstTick: until the watermark has moved, deadlines are as far ahead as their impressions say.
func TestNewGroup_BucketsBeforeTheFirstTick(t *testing.T) {
	w := newWorld(t, testConfig())
	w.now = day
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a"), day))
	w.save()
	require.Contains(t, w.store.due(), (day+testConfig().Learners[0].SelectionTimeout)/tick)
}
