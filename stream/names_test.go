package stream

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever asks first, a name has one number, and each number one name.
func TestSharedNames_AreOneForAll(t *testing.T) {
	const names, askers, asked = 300, 4, 200
	s := newSharedNames()
	var all [askers]map[string]int32
	var wg sync.WaitGroup
	for a := range askers {
		wg.Go(func() {
			got, rng := map[string]int32{}, rand.New(rand.NewPCG(1, uint64(a)))
			for range asked {
				var batch [][]byte
				for range 1 + rng.IntN(20) {
					batch = append(batch, fmt.Appendf(nil, "item-%d", rng.IntN(names)))
				}
				for k, n := range s.Numbers([]int32{-7}, batch)[1:] {
					got[string(batch[k])] = n
					if s.Name(n) != string(batch[k]) || s.Texts(nil, []int32{n})[0] != string(batch[k]) {
						t.Errorf("%q has the number of %q", batch[k], s.Name(n))
					}
				}
			}
			all[a] = got
		})
	}
	wg.Wait()
	used := map[int32]string{}
	for _, got := range all {
		for name, n := range got {
			if other, taken := used[n]; taken {
				require.Equal(t, other, name)
			}
			used[n] = name
			at, known := s.Number([]byte(name))
			require.True(t, known)
			require.Equal(t, n, at)
		}
	}
	for n := range int32(len(used)) {
		require.Contains(t, used, n, "numbers are dense")
	}
	_, known := s.Number([]byte("another"))
	require.False(t, known)
}
