package partition

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// The catalogue numbers items as a map would, whatever is looked for together, while it grows and after a load.
func TestCatalogue_IsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, oracle := newCatalogue(), map[string]policy.Item{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("item-%d", rapid.IntRange(0, 300).Draw(t, "item")) })
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			var wanted [][]byte
			for _, n := range rapid.SliceOfN(name, 1, 20).Draw(t, "wanted") {
				wanted = append(wanted, []byte(n))
			}
			for k, number := range c.findAll(nil, wanted) {
				want, known := oracle[string(wanted[k])]
				if !known {
					want = unknownItem
				}
				require.Equal(t, want, number)
				got, ok := c.lookUp(wanted[k])
				require.Equal(t, known, ok)
				require.Equal(t, want, got)
			}
			for _, n := range wanted {
				want, known := oracle[string(n)]
				if !known {
					want = policy.Item(len(oracle))
					oracle[string(n)] = want
				}
				got, fresh := c.intern(n)
				require.Equal(t, !known, fresh)
				require.Equal(t, want, got)
			}
		}
		var stored []storedItem
		for n, number := range oracle {
			stored = append(stored, storedItem{name: n, number: number})
		}
		loaded := newCatalogue()
		require.NoError(t, loaded.load(stored))
		require.Equal(t, c.names, loaded.names)
		require.Empty(t, loaded.changed, "what is loaded is no change")
		for n, number := range oracle {
			got, ok := loaded.lookUp([]byte(n))
			require.True(t, ok)
			require.Equal(t, number, got)
		}
	})
}

// Items whose hashes agree in every bit, or in the slot or the tag alone, are told apart by their names.
func TestItemIndex_TellsEqualHashesApart(t *testing.T) {
	x := newItemIndex()
	names := []string{"a", "b", "c", "d", "e"}
	sums := []uint64{7, 7, 7 | 1<<32, 8 | 1<<40, 7}
	for i, sum := range sums {
		x.put(sum, policy.Item(i))
	}
	var wanted [][]byte
	for i, name := range names {
		wanted = append(wanted, []byte(name))
		require.Equal(t, policy.Item(i), x.search([]byte(name), sums[i], names))
	}
	require.Equal(t, []policy.Item{0, 1, 2, 3, 4}, x.searchAll(nil, wanted, sums, names))
	for _, sum := range []uint64{7, 7 | 1<<32, 9, 63} {
		require.Equal(t, unknownItem, x.search([]byte("f"), sum, names))
		require.Equal(t, []policy.Item{unknownItem}, x.searchAll(nil, [][]byte{[]byte("f")}, []uint64{sum}, names))
	}
}

func TestCatalogue_RefusesWhatItCannotHaveStored(t *testing.T) {
	for name, stored := range map[string][]storedItem{
		"a number that is too large": {{name: "a", number: 1}},
		"a number twice":             {{name: "a", number: 0}, {name: "b", number: 0}},
		"a name twice":               {{name: "a", number: 0}, {name: "a", number: 1}},
		"no name":                    {{name: "", number: 0}},
	} {
		c := newCatalogue()
		require.Error(t, c.load(stored), name)
	}
}

// BenchmarkCatalogue finds 20 items of 20,000 in six catalogues in turn, as six partitions do.
func BenchmarkCatalogue(b *testing.B) {
	const items, partitions, distinct = 20_000, 6, 4096
	var all [partitions]catalogue
	for p := range all {
		all[p] = newCatalogue()
		for i := range items {
			all[p].intern(fmt.Appendf(nil, "item-%06d", i))
		}
	}
	impressions := make([][][]byte, distinct)
	for i := range impressions {
		for k := range 20 {
			impressions[i] = append(impressions[i], fmt.Appendf(nil, "item-%06d", (i*7919+k*1049)%items))
		}
	}
	var numbers []policy.Item
	b.Run("together", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			numbers = all[i/512%partitions].findAll(numbers[:0], impressions[i%distinct])
		}
	})
	b.Run("one by one", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			for _, name := range impressions[i%distinct] {
				all[i/512%partitions].lookUp(name)
			}
		}
	})
}
