package policy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Blocked items of any number stand in falling mean, ties by higher position.
func TestWorkspace_BlockedInFallingMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{-0.5, 0, 0.5}))
		ws := Workspace{means: rapid.SliceOfN(mean, 1, 2*radixFrom).Draw(t, "means")}
		first := rapid.IntRange(0, len(ws.means)-1).Draw(t, "first")
		last := rapid.IntRange(first, len(ws.means)).Draw(t, "last")
		got, want := make([]int32, last-first), []int32{}
		for i := last - 1; i >= first; i-- {
			want = append(want, int32(i))
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(ws.means[b], ws.means[a]) })
		ws.block(got, int32(first))
		require.Equal(t, want, got)
	})
}

// Blocked items of different means, or of equal ones.
func BenchmarkWorkspace_Block(b *testing.B) {
	for _, equal := range []bool{false, true} {
		for _, n := range []int{6, 19, radixFrom - 1, radixFrom} {
			b.Run(fmt.Sprintf("n=%d, equal=%t", n, equal), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(4, uint64(n)))
				lists := make([][]float64, 1024)
				for k := range lists {
					for range n {
						lists[k] = append(lists[k], rng.Float64())
						if equal {
							lists[k][len(lists[k])-1] = 0.5
						}
					}
				}
				var ws Workspace
				dst := make([]int32, n)
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					ws.means = lists[k&1023]
					ws.block(dst, 0)
				}
			})
		}
	}
}
