package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Reasons show for each candidate a leader that stands before or at it, has no lower utility, and has an index that no
// candidate left over beats.
func TestReasons_AreThoseOfTheRanking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		table := NewTable(n)
		for i := range Item(n) {
			if count := rapid.Int64Range(0, 400).Draw(t, "N"); count > 0 {
				table.Set(i, sumsOf(count, rapid.Float64Range(0, 1).Draw(t, "mean")))
			}
		}
		in := Input{Items: seq(n), Table: table, Key: Key(rapid.Uint64().Draw(t, "key")), InFlight: inFlight()}
		for _, p := range []Policy{elimination(t, Confidence{Sigma: 0.5, Delta: 0.5}), NewGreedy(), NewUtility(),
			moss(t, Belief{Sigma: 0.5}), thompson(t, Belief{Sigma: 0.5, Prior: EmpiricalPrior})} {
			order := rank(p, &in)
			why, rule := Reasons(p, &in, &Workspace{}, order)
			require.NotEmpty(t, rule)
			placed := -1
			for _, at := range order {
				r := why[at]
				require.GreaterOrEqual(t, r.Leader, at)
				require.False(t, math.IsNaN(r.Index))
				if r.Leader != at {
					continue
				}
				for i := placed + 1; i < n; i++ {
					if _, eliminates := p.(*Elimination); !eliminates {
						require.LessOrEqual(t, why[i].Index, r.Index, "%T: %d leads", p, at)
						continue
					}
					require.EqualValues(t, -1, r.BeatenBy, "a leader is beaten by nobody")
					beaten := false
					for j := placed + 1; j < n; j++ {
						beaten = beaten || why[j].Lower > why[i].Upper
					}
					require.True(t, beaten || why[i].N >= r.N, "%d leads, not %d", at, i)
				}
				placed = int(at)
			}
		}
	})
}
