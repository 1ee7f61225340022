package policy

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sortedByUtility is the oracle of SortByUtility.
func sortedByUtility(utilities []float64, items [][]byte) []int32 {
	order := make([]int32, len(utilities))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case utilities[a] < utilities[b]:
			return -1
		case utilities[a] > utilities[b]:
			return 1
		}
		return bytes.Compare(items[a], items[b])
	})
	return order
}

func TestSortByUtility_TiesByItem(t *testing.T) {
	var ws Workspace
	rapid.Check(t, func(t *rapid.T) {
		utility := rapid.OneOf(
			rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, math.MaxFloat64, -math.MaxFloat64,
				math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 3, 4}),
			rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64))
		// Long common prefixes, zeros that look like padding, and items that are prefixes of others.
		item := rapid.Custom(func(t *rapid.T) string {
			prefix := rapid.SampledFrom([]string{"", "a", "item-00000000000", "item-0000000000\x00", "\x00", "\x00\x00\x00\x00\x00\x00\x00"}).Draw(t, "prefix")
			return prefix + string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 255}), 0, 12).Draw(t, "rest"))
		})
		names := rapid.SliceOfNDistinct(item, 1, 150, rapid.ID[string]).Draw(t, "items")
		items := make([][]byte, len(names))
		utilities := make([]float64, len(names))
		tied := rapid.Bool().Draw(t, "tied")
		for i := range items {
			items[i] = []byte(names[i])
			if !tied {
				utilities[i] = utility.Draw(t, "utility")
			}
		}
		order := make([]int32, len(items))
		SortByUtility(order, utilities, items, &ws)
		require.Equal(t, sortedByUtility(utilities, items), order)
	})
}

func TestSortByUtility_ListsOfAllLengths(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 7))
	var ws Workspace
	for n := 1; n <= 3000; n += 1 + n/100*100 {
		for _, list := range lists(n, rng) {
			order := make([]int32, n)
			SortByUtility(order, list.utilities, list.items, &ws)
			require.Equal(t, sortedByUtility(list.utilities, list.items), order, "seed %d, n %d, %s", seed, n, list.name)
			require.Zero(t, testing.AllocsPerRun(3, func() { SortByUtility(order, list.utilities, list.items, &ws) }), list.name)
		}
	}
}

type list struct {
	name      string
	utilities []float64
	items     [][]byte
}

// lists are candidates as impressions bring them, and as an adversary would.
func lists(n int, rng *rand.Rand) []list {
	build := func(name string, utility func(i int) float64, item func(i int) string) list {
		l := list{name: name}
		for _, i := range rng.Perm(n) {
			l.utilities = append(l.utilities, utility(i))
			l.items = append(l.items, []byte(item(i)))
		}
		return l
	}
	plain := func(i int) string { return fmt.Sprintf("item-%d", i) }
	return []list{
		build("random", func(int) float64 { return rng.Float64() }, plain),
		build("all bits", func(int) float64 {
			for {
				if u := math.Float64frombits(rng.Uint64()); !math.IsNaN(u) && !math.IsInf(u, 0) {
					return u
				}
			}
		}, plain),
		build("pairs tie", func(i int) float64 { return float64(i / 2) }, plain),
		build("stars", func(int) float64 { return float64(1 + rng.IntN(5)) }, plain),
		build("all tie", func(int) float64 { return 1 }, plain),
		build("all tie, long items", func(int) float64 { return 1 }, func(i int) string {
			return fmt.Sprintf("https://example.org/catalogue/%032d/%08d", i%7, i)
		}),
		build("all tie, each a prefix of the next", func(int) float64 { return 1 }, func(i int) string {
			return string(bytes.Repeat([]byte{'a'}, i))
		}),
	}
}

// BenchmarkOrder compares with the measure of the bound: sorting as many random float64s by slices.Sort. "again" sorts
// the same numbers each time, which a branch predictor learns by heart, "fresh" sorts others each time.
func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{20, 47, 48, 100, 1000} {
		rng := rand.New(rand.NewPCG(8, 8))
		floats := make([][]float64, 1024)
		for k := range floats {
			floats[k] = make([]float64, n)
			for i := range floats[k] {
				floats[k][i] = rng.Float64()
			}
		}
		scratch := make([]float64, n)
		for name, mask := range map[string]int{"again": 0, "fresh": 1023} {
			b.Run(fmt.Sprintf("n=%d/slices.Sort/%s", n, name), func(b *testing.B) {
				for k := 0; b.Loop(); k++ {
					copy(scratch, floats[k&mask])
					slices.Sort(scratch)
				}
			})
		}
		order := make([]int32, n)
		for _, list := range lists(n, rng) {
			var ws Workspace
			b.Run(fmt.Sprintf("n=%d/%s", n, list.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					SortByUtility(order, list.utilities, list.items, &ws)
				}
			})
		}
		var ws Workspace
		items := lists(n, rng)[0].items
		b.Run(fmt.Sprintf("n=%d/random/fresh", n), func(b *testing.B) {
			for k := 0; b.Loop(); k++ {
				SortByUtility(order, floats[k&1023], items, &ws)
			}
		})
	}
}
