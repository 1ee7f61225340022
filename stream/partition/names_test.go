package partition

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestNames_SharedOrNot: decisions and stored state do not depend on the other users of the names.
func TestNames_SharedOrNot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		alone := newWorld(t, cfg)
		cfg.Names = NewNameTable()
		shared, other := newWorld(t, cfg), newWorld(t, cfg)
		items := rapid.SliceOfNDistinct(rapid.StringMatching("[a-f]"), 1, 4, rapid.ID[string])
		for n := range rapid.IntRange(1, 12).Draw(rt, "impressions") {
			id, now := "i-"+strconv.Itoa(n), day+int64(n)
			if rapid.Bool().Draw(rt, "another is asked first") {
				require.NoError(t, other.read(event.Impressions, id, impression(id, items.Draw(rt, "its items")...), now))
			}
			record := impression(id, items.Draw(rt, "items")...)
			for _, w := range []*world{alone, shared} {
				require.NoError(t, w.read(event.Impressions, id, record, now))
			}
		}
		var stored [2]state.Changes
		for k, w := range []*world{alone, shared} {
			w.m.Seal(&stored[k])
			stored[k].Writes = slices.DeleteFunc(stored[k].Writes, func(x state.Write) bool { return string(x.Field) == saltField })
		}
		require.Equal(t, stored[0], stored[1])
		require.Equal(t, alone.out.Rankings, shared.out.Rankings)
	})
}

// TestNameTable compares it with a map, with names that share the stored bits of their hash.
func TestNameTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, numbers := NewNameTable(), map[string]int32{}
		name := rapid.Custom(func(t *rapid.T) []byte { return []byte(strconv.Itoa(rapid.IntRange(0, 3000).Draw(t, "name"))) })
		for range rapid.IntRange(1, 40).Draw(t, "times") {
			names := rapid.SliceOfN(name, 0, 3*namesAhead).Draw(t, "names")
			known := table.Known(nil, names)
			var want []int32
			for k, n := range names {
				at, there := numbers[string(n)]
				got, ok := table.Number(n)
				require.Equal(t, there, ok)
				require.Equal(t, at, got)
				if k < len(known) {
					require.True(t, there)
					require.Equal(t, at, known[k])
				} else if k == len(known) {
					require.False(t, there)
				}
			}
			for _, n := range names {
				if _, there := numbers[string(n)]; !there {
					numbers[string(n)] = int32(len(numbers))
				}
				want = append(want, numbers[string(n)])
			}
			require.Equal(t, want, table.Numbers(nil, names))
		}
		for n, at := range numbers {
			require.Equal(t, n, table.Name(at))
			require.Equal(t, []string{"before", n}, table.Texts([]string{"before"}, []int32{at}))
		}
	})
}

// TestNameTable_SameHash: names with the same stored bits of their hash stay distinct.
func TestNameTable_SameHash(t *testing.T) {
	table := NewNameTable()
	one, other := []byte("one"), []byte("other")
	hash := maphash.Bytes(table.seed, other)
	// As if "one" had been added with the hash of the other.
	table.names = []string{"one"}
	s := table.shard(hash)
	s.grow()
	s.used++
	s.put(nameSlot{uint32(hash), 1})
	require.Empty(t, table.Known(nil, [][]byte{other}))
	require.Equal(t, []int32{1}, table.Numbers(nil, [][]byte{other}))
	require.Equal(t, []int32{1}, table.Known(nil, [][]byte{other}))
	require.Equal(t, int32(0), table.find(one, hash))
}

// BenchmarkNameTable looks the names of 20 candidates up among many, in the table and in a map.
func BenchmarkNameTable(b *testing.B) {
	for _, items := range []int{2_000, 200_000, 1_000_000} {
		table, numbers := NewNameTable(), map[string]int32{}
		for k := range items {
			name := fmt.Appendf(nil, "item-%07d", k)
			table.Numbers(nil, [][]byte{name})
			numbers[string(name)] = int32(k)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		lists := make([][][]byte, 1<<12)
		for k := range lists {
			for range 20 {
				lists[k] = append(lists[k], fmt.Appendf(nil, "item-%07d", rng.IntN(items)))
			}
		}
		var dst []int32
		b.Run(fmt.Sprintf("items=%d/table", items), func(b *testing.B) {
			for k := 0; b.Loop(); k++ {
				dst = table.Known(dst[:0], lists[k%len(lists)])
			}
		})
		b.Run(fmt.Sprintf("items=%d/map", items), func(b *testing.B) {
			for k := 0; b.Loop(); k++ {
				dst = dst[:0]
				for _, name := range lists[k%len(lists)] {
					dst = append(dst, numbers[string(name)])
				}
			}
		})
	}
}
