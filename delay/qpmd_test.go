package delay

import (
	"math/rand/v2"
	"slices"
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

// TestQPMD_AHoldStaysAtItsEpoch: partitions below a global learner read all other sources. During a hold they read those of the epoch in
// which it began, whatever is published meanwhile, their own sums included. A hold that was loaded reads each epoch.
func TestQPMD_AHoldStaysAtItsEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const items, partitions = 3, 3
		base := basePolicy(t)
		global := NewQPMD(base)
		global.Grow(items)
		global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
		var parts [partitions]*QPMD
		var stores [partitions]*store
		var published [partitions][items]policy.Sums // as the global learner has them
		var frozen [partitions]*[items]policy.Sums   // sums that a partition reads, during a hold
		join := func(p int) {
			parts[p] = NewQPMD(base)
			parts[p].Share(global, int32(p), func(i policy.Item) policy.Item { return items - 1 - i })
			parts[p].Grow(items)
			stores[p] = newStore(parts[p])
		}
		read := func(p int) (all [items]policy.Sums) {
			for i := range all {
				all[i] = parts[p].Sums(policy.Item(i))
				for source := range partitions {
					if source != p {
						all[i] = all[i].Add(published[source][i])
					}
				}
			}
			return all
		}
		refresh := func() {
			for _, q := range parts {
				q.Refresh(slices.Values(allItems(items)))
			}
		}
		for p := range parts {
			join(p)
			require.NoError(t, parts[p].Loaded())
		}
		partition, item, ref := rapid.IntRange(0, partitions-1), rapid.Int32Range(0, items-1), int64(0)
		type selection struct {
			p int
			Feedback
		}
		var open []selection
		t.Repeat(map[string]func(*rapid.T){
			"select": func(t *rapid.T) {
				ref++
				s := selection{partition.Draw(t, "by"), Feedback{Ref: ref, Item: item.Draw(t, "item")}}
				before := parts[s.p].hold.on
				parts[s.p].Selected(s.Feedback)
				if parts[s.p].hold.on && !before {
					now := read(s.p)
					frozen[s.p] = &now
				}
				open = append(open, s)
			},
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				s := open[0]
				open = open[1:]
				if s.Payoff = float64(rapid.IntRange(0, 4).Draw(t, "payoff")) / 4; rapid.Bool().Draw(t, "paid") {
					parts[s.p].Paid(s.Feedback)
				} else {
					parts[s.p].Expired(s.Feedback)
				}
				if !parts[s.p].hold.on {
					frozen[s.p] = nil
				}
			},
			"publish": func(t *rapid.T) {
				p := partition.Draw(t, "of")
				for i := range published[p] {
					published[p][i] = parts[p].Sums(policy.Item(i))
					global.SetSource(int32(p), items-1-policy.Item(i), published[p][i])
				}
				global.Estimate(global.Commit(items))
				refresh()
			},
			"reload": func(t *rapid.T) {
				p := partition.Draw(t, "of")
				from := stores[p]
				from.harvest()
				join(p)
				from.load(t, items, parts[p])
				stores[p].sums, stores[p].hashes = from.sums, from.hashes
				frozen[p] = nil
				parts[p].Refresh(slices.Values(allItems(items)))
			},
			"": func(t *rapid.T) {
				for p, q := range parts {
					want := read(p)
					if frozen[p] != nil {
						want = *frozen[p]
					}
					var fed int64
					for i, s := range want {
						require.Equal(t, s.Evidence(), q.Evidence(policy.Item(i)), "partition %d, item %d", p, i)
						fed += s.N
					}
					require.Equal(t, fed, q.Status().Fed)
					require.EqualValues(t, fed, q.table.Weight())
					lone := policy.NewTable(items)
					for i, s := range want {
						lone.Set(policy.Item(i), s)
					}
					belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
					require.Equal(t, belief.Components(lone), belief.Components(q.table))

					key, order := policy.Key(ref), make([]int32, items)
					base.Rank(&policy.Input{Items: allItems(items), Table: lone, InFlight: q.flights, Key: key}, &policy.Workspace{}, order)
					var d Decision
					q.Decide(allItems(items), nil, key, &d)
					require.Equal(t, order, d.Order, "partition %d ranks by these sums", p)
				}
			},
		})
	})
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
func (nothing) Known() bool                  { return false }
func (nothing) Field(string, []byte, []byte) {}
