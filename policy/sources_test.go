package policy

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// packedRough has forms of one and of nine bytes.
var packedRough = Packing[rough]{
	Append: func(dst []byte, r rough) []byte {
		if r == 0 {
			return append(dst, 0)
		}
		return binary.LittleEndian.AppendUint64(append(dst, 1), math.Float64bits(float64(r)))
	},
	Read: func(packed []byte) rough {
		if packed[0] == 0 {
			return 0
		}
		return rough(math.Float64frombits(binary.LittleEndian.Uint64(packed[1:])))
	},
}

// Packed sums are equal to the last bit.
func TestPackedSums(t *testing.T) {
	packing := packedSums()
	sum := rapid.OneOf(rapid.Just(0.0), rapid.Just(math.Copysign(0, -1)), rapid.Float64(), rapid.Map(rapid.Float32(), func(x float32) float64 { return float64(x) }),
		rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) }), rapid.Map(rapid.Uint32(), func(n uint32) float64 { return float64(n) }))
	count := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		s := Sums{N: count.Draw(t, "N"), R: sum.Draw(t, "R"), Q: sum.Draw(t, "Q")}
		if rapid.Bool().Draw(t, "squares equal payoffs") {
			s.Q = s.R
		}
		packed := packing.Append(nil, s)
		got := packing.Read(packed)
		require.Equal(t, s.N, got.N)
		require.Equal(t, [2]uint64{math.Float64bits(s.R), math.Float64bits(s.Q)}, [2]uint64{math.Float64bits(got.R), math.Float64bits(got.Q)})
	})
	for _, c := range []struct {
		Sums
		bytes int
	}{{Sums{N: 3, R: 2, Q: 2}, 2}, {Sums{N: 200, R: 40}, 4}, {Sums{N: 1, R: 0.5, Q: 0.25}, 9}, {Sums{N: 1, R: 0.1, Q: 0.01}, 17}} {
		require.Len(t, packing.Append(nil, c.Sums), c.bytes)
	}
}

// A partition's values may rest in the global Totals whenever all that it has published is read: nobody sees a difference.
func TestTotals_Rest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const things, us, them = 3, 5, 7
		global, part, twin := NewTotals(func(int32, Count, Count) {}), Totals[Count]{}, Totals[Count]{}
		part.Share(&global, us, func(i int32) int32 { return things - 1 - i })
		twin.Share(&global, us, func(i int32) int32 { return things - 1 - i })
		var unread [][things]Count // publications
		thing := rapid.Int32Range(0, things-1)
		own := func(of *Totals[Count]) (all [things]Count) {
			for i, n := range of.AllOwn() {
				all[i] = n
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i, n := thing.Draw(t, "thing"), Count(rapid.IntRange(-2, 2).Draw(t, "more"))
				part.AddOwn(i, n, 1)
				twin.AddOwn(i, n, 1)
			},
			"change": func(t *rapid.T) {
				i := thing.Draw(t, "thing")
				*part.At(i) *= 2
				part.Changed(i, 1)
				*twin.At(i) *= 2
				twin.Changed(i, 1)
			},
			"set": func(t *rapid.T) {
				i, n := thing.Draw(t, "thing"), Count(rapid.IntRange(0, 2).Draw(t, "value"))
				part.Set(i, n)
				twin.Set(i, n)
			},
			"forget": func(t *rapid.T) {
				i := thing.Draw(t, "thing")
				part.Forget(i)
				twin.Forget(i)
			},
			"publish": func(*rapid.T) { unread = append(unread, own(&twin)) },
			"read": func(t *rapid.T) {
				if len(unread) == 0 {
					t.Skip("nothing is unread")
				}
				for i, n := range unread[0] {
					if before, found := global.From(us, things-1-int32(i)); !found || before != n {
						global.SetSource(us, things-1-int32(i), n)
					}
				}
				unread = unread[1:]
			},
			"wake": func(t *rapid.T) {
				var woken Changes
				part.Wake(&woken)
				for i := range int32(things) {
					require.False(t, part.Rests(i))
				}
			},
			"others": func(t *rapid.T) {
				global.SetSource(them, thing.Draw(t, "thing"), Count(rapid.IntRange(0, 9).Draw(t, "theirs")))
			},
			"rest": func(t *rapid.T) {
				if len(unread) > 0 {
					t.Skip("a publication is unread")
				}
				i := thing.Draw(t, "thing")
				part.Rest(i, func(a, b Count) bool { return a == b })
			},
			"": func(t *rapid.T) {
				part.Grow(things)
				twin.Grow(things)
				require.Equal(t, own(&twin), own(&part))
				for i := range int32(things) {
					require.Equal(t, twin.Pooled(i), part.Pooled(i))
					if part.Rests(i) {
						require.False(t, part.own.has(i), "a value at rest takes no memory")
						require.Equal(t, part.Published(i), part.Own(i))
					}
				}
			},
		})
	})
}
