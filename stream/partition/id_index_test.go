package partition

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestKnownIDs_AgainstAMap: whatever comes, goes and moves, with ids of one hash among them, each hash has exactly the pages of its ids.
func TestKnownIDs_AgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k idIndex
		k.complete = true
		pages := map[uint64][]uint32{}
		count := 0
		// Few hashes, of two tables, many with one home.
		hashes := rapid.SampledFrom([]uint64{0, 1, 2, 3, 1 << 40, 1 << 55, 255 << 48, 7 << 56, 7<<56 | 1, 7<<56 | 255<<48})
		page := rapid.Uint32Range(1, 5)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			h, p := hashes.Draw(t, "hash"), page.Draw(t, "page")
			have := pages[h]
			at := slices.Index(have, p)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1, 2:
				k.add(h, p)
				pages[h] = append(have, p)
				count++
			case 3:
				k.remove(h, p)
				if at >= 0 {
					pages[h] = slices.Delete(have, at, at+1)
					count--
				}
			case 4:
				to := page.Draw(t, "to")
				k.move(h, p, to)
				if at >= 0 {
					have[at] = to
				}
			}
			got := k.pagesOf(nil, h)
			require.ElementsMatch(t, pages[h], got)
			require.Equal(t, len(got) == 0, k.certainlyNew(h))
		}
		used := 0
		for i := range k.tables {
			used += k.tables[i].used
		}
		require.Equal(t, count, used)
		for h, want := range pages {
			require.ElementsMatch(t, want, k.pagesOf(nil, h))
		}
		k.complete = false
		require.False(t, k.certainlyNew(99), "not all has been added")
	})
}

// scattered is the i-th of a sequence of numbers that are spread as hashes are (splitmix64).
func scattered(i uint64) uint64 {
	x := (i + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// TestKnownIDs_Memory: an id takes at most 20 bytes, at whatever number of them, and gives them back when it goes.
func TestKnownIDs_Memory(t *testing.T) {
	bytes := func(k *idIndex) (sum int) {
		for i := range k.tables {
			sum += 8*cap(k.tables[i].hashes) + 4*cap(k.tables[i].pages)
		}
		return sum
	}
	var k idIndex
	const most = 1_000_000
	for n := range uint64(most) {
		k.add(scattered(n), uint32(n/128+1))
		if n+1 >= 100_000 && (n+1)%20_000 == 0 {
			require.LessOrEqual(t, float64(bytes(&k))/float64(n+1), 20.0, "%d ids", n+1)
		}
	}
	t.Logf("%.1f bytes an id of %d", float64(bytes(&k))/most, most)
	for n := range uint64(most - 100_000) {
		k.remove(scattered(n), uint32(n/128+1))
	}
	require.LessOrEqual(t, bytes(&k), 100_000*40)
	for n := uint64(most - 100_000); n < most; n++ {
		require.Equal(t, []uint32{uint32(n/128 + 1)}, k.pagesOf(nil, scattered(n)))
	}
}

// BenchmarkKnownIDs measures an id's memory, its insertion, the longest insertion, and the search for a new id.
func BenchmarkKnownIDs(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		k := new(idIndex)
		var longest time.Duration
		begun := time.Now()
		last := begun
		for i := range uint64(n) {
			k.add(scattered(i), uint32(i/128+1))
			if i%64 == 63 {
				now := time.Now()
				longest, last = max(longest, now.Sub(last)), now
			}
		}
		added := time.Since(begun)
		runtime.GC()
		runtime.ReadMemStats(&after)
		k.complete = true
		begun = time.Now()
		for i := range uint64(n) {
			if !k.certainlyNew(scattered(i + n)) {
				b.Fatal("a false positive")
			}
		}
		b.ReportMetric(float64(time.Since(begun))/n, "ns/search")
		b.ReportMetric(float64(added)/n, "ns/insertion")
		b.ReportMetric(float64(longest)/1000, "µs/longest-64")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/id")
		runtime.KeepAlive(k)
	}
}
