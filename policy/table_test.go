package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Pooled sums, evidence and all that depends on it are a function of the parts, to the last bit, however they came about.
func TestTable_PoolingForgetsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const items = 4
		sums := rapid.Custom(func(t *rapid.T) Sums {
			n := rapid.Int64Range(0, 50).Draw(t, "N")
			if n == 0 {
				return Sums{}
			}
			r := rapid.Float64Range(0, 50).Draw(t, "R")
			return Sums{N: n, R: r, Q: r / 2}
		})
		table := NewTable(1)
		table.Grow(items)
		var own [items]Sums
		awaited := make([]Evidence, items)
		await(table, awaited)
		taken := map[[2]int32]Sums{}
		item := rapid.Int32Range(0, items-1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i, r := item.Draw(t, "item"), rapid.Float64Range(0, 1).Draw(t, "payoff")
				table.Add(i, r)
				own[i] = Sums{own[i].N + 1, own[i].R + r, own[i].Q + r*r}
			},
			"set": func(t *rapid.T) {
				i, s := item.Draw(t, "item"), sums.Draw(t, "sums")
				table.Set(i, s)
				own[i] = s
			},
			"import": func(t *rapid.T) {
				at, s := [2]int32{rapid.Int32Range(-2, 2).Draw(t, "source"), item.Draw(t, "item")}, sums.Draw(t, "sums")
				table.SetSource(at[0], at[1], s)
				taken[at] = s
				found, _ := table.From(at[0], at[1])
				require.Equal(t, s, found)
			},
			"await": func(t *rapid.T) {
				i := item.Draw(t, "item")
				awaited[i] = randomEvidence(t)
				table.Weigh(i)
			},
			"estimate": func(t *rapid.T) { table.keepMoments() },
			"": func(t *rapid.T) {
				fresh := NewTable(items)
				fresh.EvidenceBy(with(fresh, func(i Item) Evidence { return awaited[i] }))
				for at, s := range taken { // in any order
					fresh.SetSource(at[0], at[1], s)
				}
				var fed int64
				var weight float64
				for i := range Item(items) {
					fresh.Set(i, own[i])
					s, e := fresh.Pooled(i), table.Evidence(i)
					require.Equal(t, Evidence{float64(s.N) + awaited[i].W, s.R + awaited[i].R, s.Q + awaited[i].Q, awaited[i].Open}, e)
					require.Equal(t, fresh.Evidence(i), e)
					weight += e.W
					require.Equal(t, fresh.Pooled(i), table.Pooled(i))
					require.Equal(t, fresh.Pooled(i), table.Pooled(i))
					require.Equal(t, own[i], table.Own(i))
					require.NoError(t, table.Pooled(i).Check())
					fed += table.Pooled(i).N
				}
				require.Equal(t, fed, table.Fed())
				require.Equal(t, weight, table.Weight())
				require.Equal(t, fresh.Mean(), table.Mean())
				require.InDelta(t, literalMean(table), table.Mean(), 1e-12)
				require.Equal(t, fresh.keepMoments(), table.keepMoments())
			},
		})
	})
}

func TestSums_Check(t *testing.T) {
	require.NoError(t, Sums{}.Check())
	require.NoError(t, Sums{N: 2, R: -1, Q: 0.5}.Check())
	for _, s := range []Sums{
		{N: -1}, {N: 1, R: math.NaN()}, {N: 1, R: math.Inf(-1)}, {N: 1, Q: math.NaN()}, {N: 1, Q: math.Inf(1)},
		{N: 1, Q: -1}, {R: 1}, {Q: 1},
	} {
		require.Error(t, s.Check(), "%+v", s)
	}
}

// with adds evidence to that of a table's sums.
func with(t *Table, awaited func(Item) Evidence) func(Item) Evidence {
	return func(i Item) Evidence {
		fed, more := t.Pooled(i).Evidence(), awaited(i)
		return Evidence{fed.W + more.W, fed.R + more.R, fed.Q + more.Q, more.Open}
	}
}
