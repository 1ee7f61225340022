package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		want := map[int32]bool{}
		number := rapid.OneOf(rapid.Int32Range(0, 200), rapid.SampledFrom([]int32{0, 63, 64, 127, 128, 1 << 20}))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := number.Draw(t, "n")
				s.Add(n)
				want[n] = true
			},
			"remove": func(t *rapid.T) {
				n := number.Draw(t, "n")
				s.Remove(n)
				delete(want, n)
			},
			"empty": func(t *rapid.T) {
				for n := range s.All() {
					s.Remove(n)
				}
				clear(want)
			},
			"": func(t *rapid.T) {
				require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Collect(s.All()))
				n := number.Draw(t, "n")
				require.Equal(t, want[n], s.Has(n))
				require.False(t, s.Has(-1-n))
			},
		})
	})
}
