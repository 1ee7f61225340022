package partition

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The order that is kept has the same leaders, so that each selection shows the same windows, and names each item once.
func TestKeepLeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		order := make([]int32, n)
		for k := range order {
			order[k] = int32(k)
		}
		order = rapid.Permutation(order).Draw(t, "order")
		kept := slices.Clone(order)
		keepLeaders(kept)
		require.True(t, ofLeaders(kept))
		require.Equal(t, ofLeaders(order), slices.Equal(order, kept))
		for at := range n {
			require.Contains(t, kept, int32(at))
			require.Equal(t, selectedBy(order, at), selectedBy(kept, at), "order %v", order)
			require.Equal(t, slices.Max(order[:at+1]) == int32(n-1), slices.Max(kept[:at+1]) == int32(n-1))
		}
		b := appendLeaders(nil, kept)
		d := entryReader{binaryReader{rest: b}}
		require.Equal(t, kept, d.leaders(nil, n))
		require.NoError(t, d.err)
		require.Empty(t, d.rest)
	})
}

// selectedBy is the interval of windows that select the item at a position.
func selectedBy(order []int32, at int) policy.Interval {
	t, err := policy.NewIntervals(100)
	if err != nil {
		panic(err)
	}
	return t.Selected(order, at)
}

// The order of 20 candidates takes two bytes of a pending impression on average over all orders, and at most three.
func TestAppendLeaders_Bytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	const orders = 10_000
	var e entry
	e.reset()
	e.bucket = 7
	undecided(&e)
	e.items = make([]policy.Item, 20)
	without, all := len(appendEntry(nil, &e)), 0
	for range orders {
		e.ranks = e.ranks[:0]
		for _, r := range rng.Perm(20) {
			e.ranks = append(e.ranks, int32(r))
		}
		keepLeaders(e.ranks)
		more := len(appendEntry(nil, &e)) - without
		require.LessOrEqual(t, more, 3)
		all += more
	}
	require.LessOrEqual(t, float64(all)/orders, 2.0)
}

// ranked needs rankings until the selection.
type ranked struct{ *tally }

func (ranked) Needs() delay.Needs { return delay.Needs{Ranking: true} }

// An impression keeps the leaders of its ranking by falling utility, or all ranks where its learner needs the candidates: ranked and saved, and
// adopted.
func TestDecide_KeepsLeaders(t *testing.T) {
	for candidates, want := range map[bool][]int32{false: {4, 0, 1, 2, 3}, true: {4, 3, 2, 1, 0}} {
		cfg := testConfig()
		cfg.Learners[0].New = func() delay.Learner {
			l := &tally{changed: map[policy.Item]bool{}, instances: candidates}
			if candidates {
				return l
			}
			return ranked{l}
		}
		w := newWorld(t, cfg)
		w.now = day
		require.NoError(t, w.read(event.Impressions, "a", impression("a", "v", "w", "x", "y", "z"), w.now))
		kept := func(what string) {
			w.entry("a")
			require.Equal(t, want, w.m.cur.ranks, what)
		}
		kept("ranked")
		w.crash()
		kept("adopted")
		w.save()
		w.crash()
		kept("saved")
	}
}
