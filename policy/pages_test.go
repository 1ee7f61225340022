package policy

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Pages equal a map whose missing values are zero, and a snapshot equals the map of its moment.
func TestPages_AreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p, old Pages[int]
		slow, slowOld := map[int32]int{}, map[int32]int{}
		number := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(0, 5000))
		entries := func(p *Pages[int]) map[int32]int {
			all, last := map[int32]int{}, int32(-1)
			for n, v := range p.All() {
				require.Greater(t, n, last)
				last, all[n] = n, *v
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				n, v := number.Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "v")
				*p.At(n), slow[n] = v, v
			},
			"remove": func(t *rapid.T) {
				n := number.Draw(t, "n")
				p.Remove(n)
				delete(slow, n)
			},
			"snapshot": func(*rapid.T) { old, slowOld = p.Snapshot(), maps.Clone(slow) },
			"remove in a loop": func(t *rapid.T) {
				odd := rapid.Int32Range(0, 1).Draw(t, "odd")
				for n := range p.All() {
					if n&1 == odd {
						p.Remove(n)
						delete(slow, n)
					}
				}
			},
			"": func(t *rapid.T) {
				n := number.Draw(t, "n")
				_, has := slow[n]
				require.Equal(t, has, p.has(n))
				require.Equal(t, []int{slow[n], slowOld[n]}, []int{p.Get(n), old.Get(n)})
				require.Equal(t, slow, entries(&p))
				require.Equal(t, slowOld, entries(&old))
				for range p.All() {
					break
				}
			},
		})
		require.Zero(t, p.Get(-1))
		for n := range slow {
			*p.At(n)++ // leaves the snapshot
		}
		require.Zero(t, testing.AllocsPerRun(10, func() {
			for n := range slow {
				*p.At(n)++
			}
		}))
	})
}
