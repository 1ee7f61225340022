package delay

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// QPM-D equals its definition, at any order of selections, payoffs, expiries, other sources and new items.
func TestAppendixC2_QPMDIsItsDefinition(t *testing.T) { holdAlways(t, qpmdIsItsDefinition) }

func qpmdIsItsDefinition(i instead) func(*rapid.T) {
	return func(t *rapid.T) {
		w := newWorld(t, basePolicy(t), i)
		t.Repeat(w.moreActions())
	}
}

// BASE gets the sequence that it would get without delay, were each item's payoffs drawn in the order of their arrival. Run without
// delay on tapes of these payoffs, it makes the same decisions, step by step.
func TestAppendixC2_BaseSeesTheUndelayedSequence(t *testing.T) {
	holdAlways(t, baseSeesTheUndelayedSequence)
}

func baseSeesTheUndelayedSequence(i instead) func(*rapid.T) {
	return func(t *rapid.T) {
		base := basePolicy(t)
		w := newWorld(t, base, i)
		t.Repeat(w.actions())

		undelayed := policy.NewTable(w.oracle.items)
		read := make([]int, w.oracle.items) // of each tape
		for k, s := range w.steps {
			order := make([]int32, len(s.candidates))
			in := policy.Input{Items: s.candidates, Table: undelayed, InFlight: pagesOf(s.inFlight), Key: s.key}
			base.Rank(&in, &policy.Workspace{}, order)
			require.Equal(t, s.order, order, "step %d", k)
			if s.cancelled || w.oracle.onHold && s.ref == w.oracle.holdRef {
				continue
			}
			undelayed.Add(s.item, w.oracle.arrived[s.item][read[s.item]])
			read[s.item]++
		}
		for i := range policy.Item(w.oracle.items) {
			require.Equal(t, undelayed.Own(i), w.learners[0].Sums(i), "item %d", i)
		}
	}
}

func TestQPMD_ExpiryEndsOnlyTheHoldItBegan(t *testing.T) {
	q := NewQPMD(policy.NewGreedy())
	q.Grow(2)
	q.Selected(Feedback{Ref: 1, Item: 0}) // holds for item 0
	q.Selected(Feedback{Ref: 2, Item: 0})
	q.Selected(Feedback{Ref: 3, Item: 1})
	q.Expired(Feedback{Ref: 2, Item: 0})
	require.True(t, q.Status().OnHold, "the selection that expired is not the one that began the hold")
	q.Expired(Feedback{Ref: 1, Item: 0})
	require.Equal(t, Status{Holds: 1, Flights: 1}, q.Status())
	q.Paid(Feedback{Ref: 3, Item: 1, Payoff: 0.25})
	require.Equal(t, Status{Holds: 1, Queued: 1}, q.Status())

	// Another selection's payoff of the same item ends a hold; its own then waits.
	q.Selected(Feedback{Ref: 4, Item: 0})
	q.Selected(Feedback{Ref: 5, Item: 0})
	q.Paid(Feedback{Ref: 5, Item: 0, Payoff: 1})
	require.Equal(t, Status{Holds: 2, Queued: 1, Fed: 1, Flights: 1}, q.Status())
	q.Selected(Feedback{Ref: 6, Item: 1}) // fed from the queue
	require.Equal(t, policy.Sums{N: 1, R: 0.25, Q: 0.0625}, q.Sums(1))
	q.Selected(Feedback{Ref: 7, Item: 1}) // holds for item 1
	q.Expired(Feedback{Ref: 4, Item: 0})  // began a hold that is over
	require.True(t, q.Status().OnHold)
}

func TestQPMD_SourcesWaitForTheEndOfAHold(t *testing.T) {
	q := NewQPMD(policy.NewUtility())
	q.Grow(2)
	q.SetSource(7, 0, policy.Sums{N: 1, R: 1, Q: 1})
	q.Selected(Feedback{Ref: 1, Item: 0})
	for n := range int64(1000) {
		q.SetSource(7, 0, policy.Sums{N: n, R: 1, Q: 1})
		q.SetSource(9, 1, policy.Sums{N: n, R: 1, Q: 1})
	}
	require.EqualValues(t, 1, q.table.Fed(), "frozen")
	q.Paid(Feedback{Ref: 1, Item: 0, Payoff: 1})
	require.EqualValues(t, 2*999+1, q.table.Fed())
}

// The sums that a loaded hold is frozen with are those that come first; later ones wait, and so do all in later holds.
func TestQPMD_SourcesIntoALoadedHold(t *testing.T) {
	q := NewQPMD(policy.NewUtility())
	q.Grow(2)
	require.NoError(t, q.LoadField("learner", []byte("hold"), []byte("0 1")))
	require.NoError(t, q.LoadField("flights", []byte("0"), []byte("1")))
	require.NoError(t, q.Loaded())
	q.SetSource(7, 0, policy.Sums{N: 10, R: 1, Q: 1})
	require.EqualValues(t, 10, q.Status().Fed)
	q.SetSource(7, 0, policy.Sums{N: 20, R: 1, Q: 1})
	require.EqualValues(t, 10, q.Status().Fed)
	q.Paid(Feedback{Ref: 1, Item: 0, Payoff: 1})
	require.Equal(t, Status{Fed: 21}, q.Status())
	q.Selected(Feedback{Ref: 2, Item: 0})
	q.SetSource(8, 1, policy.Sums{N: 5, R: 1, Q: 1})
	require.EqualValues(t, 21, q.Status().Fed, "a source that is new comes in after the hold")
}

// A queue gives its memory back.
func TestFIFO(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 11))
	var f fifo
	var want []float64
	longest := 0
	for k := range 100_000 {
		if grows := k/5000%2 == 0; len(want) == 0 || rng.IntN(10) < 4 != grows {
			v := rng.Float64()
			f.push(v)
			want = append(want, v)
		} else {
			require.Equal(t, want[0], f.pop())
			want = want[1:]
		}
		require.EqualValues(t, len(want), f.len())
		require.LessOrEqual(t, len(f.ring), max(leastRing, 4*len(want)))
		longest = max(longest, len(want))
	}
	require.Greater(t, longest, 500)
}

func BenchmarkQPMD(b *testing.B) {
	run := func(name string, lag int) {
		b.Run(name, func(b *testing.B) {
			q := NewQPMD(policy.NewUtility())
			q.Grow(1000)
			rng := rand.New(rand.NewPCG(1, 1))
			items := make([]policy.Item, 1<<14)
			for i := range items {
				items[i] = rng.Int32N(1000)
			}
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				q.Selected(Feedback{Ref: int64(k), Item: items[k%len(items)]})
				if late := k - lag; late >= 0 {
					q.Paid(Feedback{Ref: int64(late), Item: items[late%len(items)], Payoff: 0.5})
				}
			}
		})
	}
	run("Selected+Paid/at once", 0)
	run("Selected+Paid/1000 later", 1000)

	b.Run("Selected+Paid+Harvest of 1000", func(b *testing.B) {
		q := NewQPMD(policy.NewUtility())
		q.Grow(1000)
		rng := rand.New(rand.NewPCG(1, 1))
		b.ReportAllocs()
		for k := 0; b.Loop(); k++ {
			fb := Feedback{Ref: int64(k), Item: rng.Int32N(1000), Payoff: 0.123456789}
			q.Selected(fb)
			q.Paid(fb)
			if k%1000 == 999 {
				q.Harvest(nothing{})
			}
		}
	})
}

type nothing struct{}

func (nothing) Item(policy.Item)             {}
func (nothing) Field(string, []byte, []byte) {}
