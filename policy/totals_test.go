package policy

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rough is a summand that rounds, and that nothing can be taken out of again.
type rough float64

func (r rough) Add(o rough) rough { return r + o }

// roughs differ so much in size that their sum shows in which order they were added.
func roughs() *rapid.Generator[rough] {
	return rapid.Custom(func(t *rapid.T) rough {
		size := rapid.SampledFrom([]rough{0, 1e-3, 1, 1e16}).Draw(t, "size")
		return size * rough(rapid.IntRange(-9, 9).Draw(t, "sum"))
	})
}

// slowTotals are Totals by the definition.
type slowTotals struct {
	own           []rough
	taken, newest map[[2]int32]rough // by source and thing
	changed       []int32
	what          map[int32]uint8
}

// pooled are the sources' parts in ascending order, and then one's own to their sum.
func (s *slowTotals) pooled(i int32) rough {
	var sum rough
	for _, at := range slices.SortedFunc(maps.Keys(s.taken), func(a, b [2]int32) int { return cmp.Compare(a[0], b[0]) }) {
		if at[1] == i {
			sum += s.taken[at]
		}
	}
	return sum + s.own[i]
}

func (s *slowTotals) note(i int32, what uint8) {
	if s.what[i] == 0 {
		s.changed = append(s.changed, i)
	}
	s.what[i] |= what
}

// Any sequence of additions, replacements and drops gives the same totals as adding all parts up at the end, to the last bit. Each
// change of a total and of each own change is reported. So it is where totals are not kept, except that both totals reported are 0.
func TestTotals_AreWhatThePartsAddUpTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var followed []rough // the calls of moved
		apart := rapid.Bool().Draw(t, "apart")
		totals := NewTotals(func(i int32, before, after rough) {
			if apart {
				require.Zero(t, [2]rough{before, after})
				return
			}
			require.Equal(t, followed[i], before)
			followed[i] = after
		})
		if apart {
			totals.KeepApart()
		}
		if rapid.Bool().Draw(t, "packed") {
			totals.PackBy(packedRough)
		}
		slow := slowTotals{taken: map[[2]int32]rough{}, newest: map[[2]int32]rough{}, what: map[int32]uint8{}}
		grow := func(n int) {
			totals.Grow(n)
			for len(slow.own) < n {
				slow.own, followed = append(slow.own, 0), append(followed, 0)
			}
		}
		grow(1)
		thing := func(t *rapid.T) int32 { return rapid.Int32Range(0, int32(len(slow.own))-1).Draw(t, "thing") }
		sources := rapid.SampledFrom([]int32{-1 << 31, -1, 0, 1, 5, 1<<31 - 1})
		reading := func(t *rapid.T) [2]int32 { return [2]int32{sources.Draw(t, "source"), thing(t)} }
		what := rapid.Uint8Range(1, 7)
		take := func() { slow.taken = maps.Clone(slow.newest) }
		t.Repeat(map[string]func(*rapid.T){
			"grow": func(t *rapid.T) { grow(rapid.IntRange(0, 5).Draw(t, "things")) },
			"add": func(t *rapid.T) {
				i, s, bits := thing(t), roughs().Draw(t, "sum"), what.Draw(t, "what")
				totals.AddOwn(i, s, bits)
				slow.own[i] += s
				slow.note(i, bits)
			},
			"set": func(t *rapid.T) {
				i, s := thing(t), roughs().Draw(t, "sum")
				totals.Set(i, s)
				slow.own[i] = s
			},
			"change": func(t *rapid.T) {
				i, s, bits := thing(t), roughs().Draw(t, "sum"), what.Draw(t, "what")
				*totals.At(i) = s
				totals.Changed(i, bits)
				slow.own[i] = s
				slow.note(i, bits)
			},
			"note": func(t *rapid.T) {
				i, bits := thing(t), what.Draw(t, "what")
				totals.Changes().Note(i, bits)
				slow.note(i, bits)
			},
			"import": func(t *rapid.T) {
				at, s := reading(t), roughs().Draw(t, "sum")
				totals.SetSource(at[0], at[1], s)
				slow.newest[at] = s
				take()
			},
			"drop": func(t *rapid.T) {
				at := reading(t)
				totals.Drop(at[0], at[1])
				delete(slow.newest, at)
				take()
			},
			"read changes": func(t *rapid.T) {
				var changed []int32
				for i, bits := range totals.Changes().All() {
					changed = append(changed, i)
					require.Equal(t, slow.what[i], bits)
				}
				totals.Changes().Clear()
				require.Equal(t, slow.changed, changed)
				slow.changed = nil
				clear(slow.what)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(slow.own), totals.Len())
				for i := range int32(len(slow.own)) {
					require.Equal(t, slow.pooled(i), totals.Pooled(i))
					if !apart {
						require.Equal(t, totals.Pooled(i), followed[i])
					}
					require.Equal(t, slow.own[i], totals.Own(i))
				}
				at := reading(t)
				s, found := totals.From(at[0], at[1])
				want, wantFound := slow.newest[at]
				require.Equal(t, wantFound, found)
				require.Equal(t, want, s)
			},
		})
	})
}

// Totals of the same parts are the same, to the last bit, in whatever order the parts came, and whatever was there before.
func TestTotals_ForgetTheOrderInWhichPartsCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.MapOf(rapid.Int32Range(0, 20), roughs()).Draw(t, "by source")
		own := roughs().Draw(t, "own")
		total := func(label string) rough {
			var totals Totals[rough]
			totals.Grow(1)
			for _, source := range rapid.Permutation(slices.Sorted(maps.Keys(parts))).Draw(t, label) {
				if rapid.Bool().Draw(t, "had another") {
					totals.SetSource(source, 0, roughs().Draw(t, "sum"))
				}
				totals.SetSource(source, 0, parts[source])
			}
			gone := rapid.Int32Range(21, 30).Draw(t, "source that goes")
			totals.SetSource(gone, 0, 1e16)
			totals.Drop(gone, 0)
			totals.Set(0, own)
			return totals.Pooled(0)
		}
		require.Equal(t, total("order"), total("another order"))
	})
}

// A source whose store was rolled back publishes less than before. Its lower sums count from then on, and its later additions count
// once.
func TestTotals_AReadingMayGoBackwards(t *testing.T) {
	var totals Totals[Count]
	totals.Grow(2)
	totals.AddOwn(1, 3, 1)
	for _, reading := range []Count{10, 4, 4, 5} {
		totals.SetSource(7, 1, reading)
		require.Equal(t, 3+reading, totals.Pooled(1))
	}
	totals.SetSource(7, 1, 0)
	_, found := totals.From(7, 1)
	require.True(t, found, "it has published nothing")
	totals.Drop(7, 1)
	_, found = totals.From(7, 1)
	require.False(t, found)
	totals.Drop(7, 1)
	require.EqualValues(t, 3, totals.Pooled(1))
	require.Zero(t, totals.Pooled(0))
}

func TestTotals_NothingIsAllocatedInSteadyState(t *testing.T) {
	var moves int
	totals := NewTotals(func(int32, Sums, Sums) { moves++ })
	totals.PackBy(packedSums())
	totals.Grow(3)
	step := func() {
		totals.AddOwn(2, Sums{N: 1, R: 0.5, Q: 0.25}, 1)
		totals.SetSource(4, 1, Sums{N: 2})
		totals.SetSource(3, 1, totals.Pooled(2))
		totals.Changes().Clear()
	}
	step()
	require.Zero(t, testing.AllocsPerRun(100, step))
	require.NotZero(t, moves)
}

// A source's reading costs the additions of all sources of the thing, one's own a single one.
func BenchmarkTotals(b *testing.B) {
	const things, sources = 1000, 64
	totals := NewTotals(func(int32, Sums, Sums) {})
	totals.Grow(things)
	totals.PackBy(packedSums())
	for source := range int32(sources) {
		for i := range int32(things) {
			totals.SetSource(source, i, Sums{N: 1, R: 1, Q: 1})
		}
	}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for k := int32(0); b.Loop(); k++ {
			totals.AddOwn(k%things, Sums{N: 1, R: 1, Q: 1}, 1)
		}
	})
	b.Run("import", func(b *testing.B) {
		b.ReportAllocs()
		for k := int32(0); b.Loop(); k++ {
			totals.SetSource(k%sources, k%things, Sums{N: 1, R: 1, Q: 1})
		}
	})
}

// TestTotals_UnreadEntriesOfASource are those of the source alone, and read ones are not searched.
func TestTotals_UnreadEntriesOfASource(t *testing.T) {
	var totals Totals[Count]
	for i := range int32(100) {
		totals.SetSource(i%3, i, 1)
	}
	var asked, unread []int32
	for i := range totals.Unread(1, func(i int32) bool { asked = append(asked, i); return i%2 == 0 }) {
		totals.Drop(1, i)
		unread = append(unread, i)
	}
	require.Len(t, asked, 100, "and no unset ones")
	for _, i := range unread {
		require.True(t, i%3 == 1 && i%2 == 1, i)
	}
	require.Len(t, unread, 17)
	require.Len(t, slices.Collect(totals.Of(1)), 16)
}
