package policy

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Pages equal a map whose missing values are zero; and pointers from At stay valid.
func TestPages_AreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pages[int]
		slow, kept := map[int32]int{}, map[int32]*int{}
		number := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(0, 5000))
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				n, v := number.Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "v")
				*p.At(n), slow[n] = v, v
				kept[n] = p.At(n)
			},
			"": func(t *rapid.T) {
				n := number.Draw(t, "n")
				require.Equal(t, slow[n], p.Get(n))
				for n, at := range kept {
					require.Equal(t, slow[n], *at)
				}
				all, last := map[int32]int{}, int32(-1)
				for n, v := range p.All() {
					require.Greater(t, n, last)
					if last = n; *v != 0 {
						all[n] = *v
					}
				}
				maps.DeleteFunc(slow, func(_ int32, v int) bool { return v == 0 })
				require.Equal(t, slow, all)
				for range p.All() {
					break
				}
			},
		})
		require.Zero(t, testing.AllocsPerRun(10, func() {
			for n := range kept {
				*p.At(n)++
			}
		}))
	})
}
