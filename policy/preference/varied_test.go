package preference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// TestVaried_TheBurnInEndsNearTheMeanOrder: users whose own utilities deviate from the mean by a half to two gaps between
// neighbours contradict each other for ever. The burn-in ends all the same, within 1,000 impressions, and the order found is near
// that of the means. Of pairs that are three apart or more, no more than one in twelve is the wrong way round; a finder that learns
// nothing has one in two. 20 runs of 10 items; the seeds are fixed.
func TestVaried_TheBurnInEndsNearTheMeanOrder(t *testing.T) {
	const n = 10
	for _, deviation := range []float64{0.5, 1, 2} {
		wrong, pairs := 0, 0
		for run := range uint64(20) {
			rng := rand.New(rand.NewPCG(run, 7))
			mean := rng.Perm(n) // by item
			upTo := geometric(0.7, n)
			f := NewSorted()
			f.Grow(n)
			s := &session{finder: f, key: policy.Key(run)}
			impressions := 0
			for ; impressions < 1000 && !s.decide(shuffledItems(n, rng)); impressions++ {
				s.feed(selectsByTaste(s.list, mean, deviation, upTo, rng))
			}
			require.Less(t, impressions, 1000, "deviation %v, run %d", deviation, run)
			var r Report
			f.Report(&r)
			for k, a := range r.Items {
				for _, b := range r.Items[:k] {
					if d := mean[a] - mean[b]; d >= 3 || d <= -3 {
						pairs++
						if d < 0 {
							wrong++
						}
					}
				}
			}
		}
		require.Less(t, 12*wrong, pairs, "deviation %v", deviation)
	}
}

func shuffledItems(n int, rng *rand.Rand) []policy.Item {
	items := make([]policy.Item, n)
	for k, i := range rng.Perm(n) {
		items[k] = policy.Item(i)
	}
	return items
}

// selectsByTaste is the position of the selection of a user whose own utilities deviate from the mean ones.
func selectsByTaste(shown []policy.Item, mean []int, deviation float64, upTo []float64, rng *rand.Rand) int {
	u, window := rng.Float64(), 1
	for upTo[window-1] < u {
		window++
	}
	at, best := 0, 0.0
	for k, i := range shown[:window] {
		if own := float64(mean[i]) + deviation*rng.NormFloat64(); k == 0 || own > best {
			at, best = k, own
		}
	}
	return at
}

// TestVaried_AgainstTheOrderCountsForOneSideOnly: where tastes vary, selections against the order found change no score, however many,
// for those with the order are not counted. They only raise the budget for exploring again.
func TestVaried_AgainstTheOrderCountsForOneSideOnly(t *testing.T) {
	f := NewSorted()
	f.Grow(3)
	for range 50 {
		f.evidence(1, 0, explored)
		f.evidence(2, 1, explored)
	}
	f.evidence(0, 1, explored)
	f.evidence(1, 2, explored)
	candidates, order := []policy.Item{0, 1, 2}, make([]int32, 3)
	require.Empty(t, f.Sort(candidates, 1, order, nil))
	require.True(t, f.varied())
	before := append([]float64(nil), f.scores.score...)
	for range 5000 {
		f.evidence(0, 2, against)
	}
	f.Sort(candidates, 1, order, nil)
	require.Equal(t, []int32{0, 1, 2}, order)
	require.Equal(t, before, f.scores.score)
	require.Greater(t, f.wanted(0), 2*f.wanted(1))
}

// TestVaried_ScoresAreTheLikeliest: a pair alone, with the half win and the half defeat that each begins with, has a
// difference of scores that solves the likelihood's equations.
func TestVaried_ScoresAreTheLikeliest(t *testing.T) {
	f := NewSorted()
	f.Grow(2)
	f.evidence(0, 1, reported{explored: 10})
	f.evidence(1, 0, reported{explored: 30})
	f.rebuild()
	require.True(t, f.varied())
	// By symmetry the scores are −x and x, with 30 − 40·p(2x) + 1/2 − p(x) = 0 for item 1, p(y) = 1/(1+e^−y).
	p := func(y float64) float64 { return 1 / (1 + math.Exp(-y)) }
	x := f.scores.score[1]
	require.InDelta(t, -f.scores.score[0], x, 1e-3)
	require.InDelta(t, 0, 30.5-40*p(2*x)-p(x), 1e-3)
}

// Items come, and tastes do not count as varied any more. The order is that of all selections, as after a restart.
func TestVaried_ItemsThatComeEndIt(t *testing.T) {
	s, fields := NewSorted(), map[string][]byte{}
	s.Grow(3)
	for _, shown := range [][]policy.Item{{0, 1}, {1, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 2}} {
		s.Selected(&Selection{Items: shown, At: 1})
		s.Sort(shown, 1, make([]int32, 2), nil)
	}
	require.True(t, s.varied())
	s.Grow(100)
	require.False(t, s.varied())
	s.Harvest(func(field, value []byte) { fields[string(field)] = slices.Clone(value) })
	again := NewSorted()
	again.Grow(100)
	for field, value := range fields {
		require.NoError(t, again.Load([]byte(field), value))
	}
	again.Loaded()
	var orders, undecided [2][]int32
	for k, f := range []*Sorted{s, again} {
		orders[k] = make([]int32, 3)
		undecided[k] = f.Sort([]policy.Item{0, 1, 2}, 1, orders[k], nil)
	}
	require.Equal(t, orders[1], orders[0])
	require.Equal(t, undecided[1], undecided[0])
}
