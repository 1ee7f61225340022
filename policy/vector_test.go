package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A vector is a map that remembers its changes; its stored blocks make the same one.
func TestVector_IsAMapAndIsStoredInBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Vector
		want := map[int32]float64{}
		stored := map[int32][]byte{}
		any := func(float64) bool { return true }
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				at := rapid.Int32Range(0, 200).Draw(t, "coordinate")
				x := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, -1, math.MaxFloat64, 0x1p-1074}), rapid.Float64Range(-9, 9)).Draw(t, "x")
				v.Set(at, x)
				want[at] = x
			},
			"forget": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really") == 0 {
					v.Forget()
					clear(want)
				}
			},
			"store": func(t *rapid.T) {
				v.Changed(func(number int32, empty bool) {
					delete(stored, number)
					if !empty {
						stored[number] = v.AppendBlock(nil, number)
					}
				})
				v.Changed(func(int32, bool) { t.Fatal("nothing has changed") })
				var loaded Vector
				for number, b := range stored {
					require.NoError(t, loaded.LoadBlock(number, b, 201, any))
				}
				for at := range int32(240) {
					x, known := loaded.Get(at)
					wantX, wantKnown := want[at]
					require.Equal(t, wantKnown, known)
					require.Equal(t, wantX, x)
				}
				loaded.Changed(func(int32, bool) { t.Fatal("loading is no change") })
			},
			"": func(t *rapid.T) {
				for at := range int32(240) {
					x, known := v.Get(at)
					wantX, wantKnown := want[at]
					require.Equal(t, wantKnown, known)
					require.Equal(t, wantX, x)
				}
			},
		})
	})
}

func TestVector_LoadRefusesWhatWasNotWritten(t *testing.T) {
	any := func(float64) bool { return true }
	var v Vector
	v.Set(33, 1)
	v.Set(35, 2)
	good := v.AppendBlock(nil, 1)
	for name, c := range map[string]struct {
		number int32
		stored []byte
		limit  int
		valid  func(float64) bool
	}{
		"empty":         {1, nil, 100, any},
		"cut off":       {1, good[:len(good)-1], 100, any},
		"too long":      {1, append(good[:len(good):len(good)], 0), 100, any},
		"nothing known": {1, make([]byte, 4), 100, any},
		"beyond":        {1, good, 35, any},
		"negative":      {-1, good, 100, any},
		"not valid":     {1, good, 100, func(x float64) bool { return x < 2 }},
		"not finite":    {1, append([]byte{1, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f), 100, any},
	} {
		var loaded Vector
		require.ErrorIs(t, loaded.LoadBlock(c.number, c.stored, c.limit, c.valid), ErrVector, name)
	}
	var loaded Vector
	require.NoError(t, loaded.LoadBlock(1, good, 36, any))
	require.ErrorIs(t, loaded.LoadBlock(1, good, 36, any), ErrVector, "twice")
}
