package preference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// closure is a relation as a table of truths, closed again at every change (S. Warshall, 1962).
type closure [][]bool

func newClosure(n int) closure {
	c := make(closure, n)
	for i := range c {
		c[i] = make([]bool, n)
	}
	return c
}

func (c closure) close() {
	for k := range c {
		for i := range c {
			for j := range c {
				c[i][j] = c[i][j] || c[i][k] && c[k][j]
			}
		}
	}
}

func (c closure) same(t require.TestingT, r *relation) {
	pairs := int64(0)
	for i := range c {
		below, above := 0, 0
		for j := range c {
			require.Equal(t, c[i][j], r.Above(policy.Item(i), policy.Item(j)), "%d above %d", i, j)
			if c[i][j] {
				below++
				pairs++
			}
			if c[j][i] {
				above++
			}
		}
		require.Equal(t, float64(below+1)/float64(below+above+2), r.Position(policy.Item(i)))
	}
	require.Equal(t, pairs, r.decided)
}

func TestRelation_IsTheTransitiveClosure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 66).Draw(t, "items")
		r := &relation{}
		r.Grow(n)
		said := map[int][]int{}
		var leads func(from, to int) bool // by the pairs so far, without a cycle
		leads = func(from, to int) bool {
			for _, next := range said[from] {
				if next == to || leads(next, to) {
					return true
				}
			}
			return false
		}
		for range rapid.IntRange(0, 40).Draw(t, "facts") {
			a, b := rapid.IntRange(0, n-1).Draw(t, "better"), rapid.IntRange(0, n-1).Draw(t, "worse")
			ok := a != b && !leads(b, a)
			require.Equal(t, ok, r.Add(policy.Item(a), policy.Item(b)))
			if ok {
				said[a] = append(said[a], b)
			}
			if n < 140 && rapid.IntRange(0, 9).Draw(t, "grows") == 0 {
				n += rapid.IntRange(1, 40).Draw(t, "more")
				r.Grow(n)
			}
		}
		c := newClosure(n)
		for a, all := range said {
			for _, b := range all {
				c[a][b] = true
			}
		}
		c.close()
		for i := range c {
			below, above := 0, 0
			for j := range c {
				if c[i][j] != r.Above(policy.Item(i), policy.Item(j)) {
					t.Fatalf("%d above %d: %t", i, j, c[i][j])
				}
				if c[i][j] {
					below++
				}
				if c[j][i] {
					above++
				}
			}
			if want := float64(below+1) / float64(below+above+2); r.Position(policy.Item(i)) != want {
				t.Fatalf("%d is at %v, not %v", i, r.Position(policy.Item(i)), want)
			}
		}
	})
}

// TestRelation_PositionContinuesTheRelation: sorting by position never contradicts the relation, and the 32 bits that Sort keeps of
// a position suffice for that.
func TestRelation_PositionContinuesTheRelation(t *testing.T) {
	const seed, n = 1, 300
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &relation{}
	r.Grow(n)
	for range 2000 {
		a, b := rng.IntN(n), rng.IntN(n)
		r.Add(policy.Item(max(a, b)), policy.Item(min(a, b)))
	}
	for i := range policy.Item(n) {
		for j := range policy.Item(n) {
			if r.Above(i, j) {
				require.Greater(t, uint64(r.Position(i)*(1<<32)), uint64(r.Position(j)*(1<<32)))
			}
		}
	}
	// Two different positions are fractions with denominators of at most MaxItems+1.
	const most = MaxItems + 1
	require.Greater(t, math.Exp2(32)/(most*(most-1)), 1.0)
}

// bytesOf is the memory that a relation takes, the counts by item included.
func bytesOf(r *relation) int { return 8*cap(r.rows) + 4*cap(r.below) + 4*cap(r.above) }

func TestRelation_TakesAtMostAQuarterByteAPair(t *testing.T) {
	const n = 1000
	atOnce, oneByOne := &relation{}, &relation{}
	atOnce.Grow(n)
	for i := range n {
		oneByOne.Grow(i + 1)
	}
	require.LessOrEqual(t, bytesOf(atOnce), n*n/4)
	require.LessOrEqual(t, bytesOf(oneByOne), n*n/4)
}
