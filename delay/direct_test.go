package delay

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// slowDirect is direct feeding by its definition: every payoff is kept, and selections in flight are counted again each time.
type slowDirect struct {
	base    policy.Policy
	silence Silence
	items   int
	fed     []Feedback
	open    []Feedback // selected, neither paid nor expired
	sources map[[2]int32]policy.Sums
	flights map[[2]int32]int // those of other sources
}

func (s *slowDirect) decide(candidates []policy.Item, key policy.Key) []int32 {
	table := policy.NewTable(s.items)
	for _, fb := range s.fed {
		table.Add(fb.Item, fb.Payoff)
	}
	for at, sums := range s.sources {
		table.SetSource(at[0], at[1], sums)
	}
	inFlight := make([]policy.Count, s.items)
	for _, fb := range s.open {
		inFlight[fb.Item]++
	}
	for at, n := range s.flights {
		inFlight[at[1]] += policy.Count(n)
	}
	if s.silence.Law == SilenceAtOnce {
		for i, n := range inFlight {
			for range n { // each is a payoff
				table.Add(policy.Item(i), s.silence.Default)
			}
		}
	} else {
		table.EvidenceBy(func(i policy.Item) policy.Evidence {
			e := table.Pooled(i).Evidence()
			e.Open = float64(inFlight[i])
			return e
		})
		for i := range policy.Item(s.items) {
			table.Weigh(i)
		}
	}
	order := make([]int32, len(candidates))
	in := policy.Input{Items: candidates, Table: table, InFlight: pagesOf(inFlight), Key: key}
	s.base.Rank(&in, &policy.Workspace{}, order)
	return order
}

// Direct feeding equals its definition, at any order of selections, payoffs, expiries, other sources and new items.
func TestDirect_IsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]policy.Policy{leastSampled{}, policy.NewGreedy(), policy.NewKLUCB(), policy.NewUtility()}).Draw(t, "policy")
		law := rapid.SampledFrom([]SilenceLaw{SilenceWaits, SilenceAtOnce}).Draw(t, "silence")
		silence := Silence{Law: law, Default: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "default")}
		slow := &slowDirect{base: base, silence: silence, items: 2, sources: map[[2]int32]policy.Sums{}, flights: map[[2]int32]int{}}
		fast := NewDirect(base, silence)
		fast.Grow(2)
		var undrawn []Feedback
		ref := int64(0)
		decide := func(t *rapid.T) {
			n := rapid.IntRange(1, slow.items).Draw(t, "candidates")
			candidates := rapid.Permutation(allItems(slow.items)).Draw(t, "utilities")[:n]
			key := policy.Key(rapid.Uint64().Draw(t, "key"))
			want := Decision{Order: slow.decide(candidates, key), Propensities: []float64{}, Instance: -1}
			got := Decision{Propensities: []float64{1}, Explored: true}
			fast.Decide(candidates, nil, key, &got)
			require.Equal(t, want, got)
			ref++
			undrawn = append(undrawn, feedback(ref, candidates, &got, policytest.Select(got.Order, rapid.IntRange(1, n).Draw(t, "window"))))
		}
		selected := func(t *rapid.T) {
			fb := takeOne(t, &undrawn)
			fast.Selected(fb)
			slow.open = append(slow.open, fb)
		}
		t.Repeat(map[string]func(*rapid.T){
			"decide": decide, "decide again": decide, "selected": selected, "selected again": selected,
			"unselected": func(t *rapid.T) { fast.Unselected(takeOne(t, &undrawn)) },
			"paid": func(t *rapid.T) {
				fb := takeOne(t, &slow.open)
				fb.Payoff = rapid.Float64Range(0, 1).Draw(t, "payoff")
				fast.Paid(fb)
				slow.fed = append(slow.fed, fb)
			},
			"expired": func(t *rapid.T) { fast.Expired(takeOne(t, &slow.open)) },
			"source": func(t *rapid.T) {
				at := [2]int32{rapid.Int32Range(0, 3).Draw(t, "source"), int32(rapid.IntRange(0, slow.items-1).Draw(t, "item"))}
				n := rapid.Int64Range(1, 9).Draw(t, "N")
				slow.sources[at] = policy.Sums{N: n, R: float64(n) / 2, Q: float64(n) / 4}
				fast.SetSource(at[0], at[1], slow.sources[at])
			},
			"flights of a source": func(t *rapid.T) {
				at := [2]int32{rapid.Int32Range(0, 3).Draw(t, "source"), int32(rapid.IntRange(0, slow.items-1).Draw(t, "item"))}
				n := rapid.IntRange(0, 9).Draw(t, "flights")
				value := []byte(strconv.Itoa(n))
				if slow.flights[at] = n; n == 0 {
					value = nil
				}
				fast.SetSourceField(at[0], hashFlights, []byte(strconv.Itoa(100+int(at[1]))), value, func(theirs policy.Item) (policy.Item, bool) {
					return theirs - 100, true
				})
			},
			"grow": func(t *rapid.T) {
				slow.items += rapid.IntRange(0, 2).Draw(t, "more")
				fast.Grow(slow.items)
			},
			"": func(t *rapid.T) {
				fed := int64(len(slow.fed))
				for _, s := range slow.sources {
					fed += s.N
				}
				want := Status{Fed: fed, Flights: int64(len(slow.open)), Silence: SilenceStatus{Law: law}}
				if law == SilenceAtOnce {
					want.Silence.Weight = float64(len(slow.open))
					want.Silence.Payoffs = silence.Default * want.Silence.Weight
				}
				require.Equal(t, want, fast.Status())
			},
		})
	})
}

// An item that was never selected, as after a reset, ends without a trace in the counts: they never fall below 0.
func TestDirect_InFlightNeverFallsBelowZero(t *testing.T) {
	d := NewDirect(leastSampled{}, Silence{})
	d.Grow(2)
	s := newStore(d)
	d.Paid(Feedback{Ref: 1, Item: 0, Payoff: 1})
	d.Expired(Feedback{Ref: 2, Item: 1})
	require.Equal(t, Status{Fed: 1}, d.Status())
	require.Equal(t, make([]ItemInspection, 2), d.Inspect().Items)
	require.Equal(t, []string{"0 {1 1 1}"}, s.harvest(), "and nothing of them is written")
	d.Selected(Feedback{Ref: 3, Item: 0})
	require.Equal(t, []ItemInspection{{InFlight: 1}, {}}, d.Inspect().Items)
}

// Other sources' sums are taken in at once, whatever is in flight.
func TestDirect_SourcesAreTakenAtOnce(t *testing.T) {
	d := NewDirect(policy.NewUtility(), Silence{})
	d.Grow(2)
	d.Selected(Feedback{Ref: 1, Item: 0})
	d.SetSource(7, 0, policy.Sums{N: 5, R: 1, Q: 1})
	require.EqualValues(t, 5, d.Status().Fed)
	d.SetSource(7, 0, policy.Sums{N: 9, R: 1, Q: 1})
	require.EqualValues(t, 9, d.Status().Fed)
}

func TestDirect_HarvestGivesOnlyWhatChanged(t *testing.T) {
	d := NewDirect(policy.NewUtility(), Silence{})
	d.Grow(3)
	s := newStore(d)
	require.Empty(t, s.harvest())
	d.Selected(Feedback{Ref: 40, Item: 2})
	d.Selected(Feedback{Ref: 41, Item: 2})
	d.Selected(Feedback{Ref: 42, Item: 1})
	require.Equal(t, []string{`flights 2 = "2" (false)`, `flights 1 = "1" (false)`}, s.harvest())
	d.Paid(Feedback{Ref: 42, Item: 1, Payoff: 0.5})
	d.Expired(Feedback{Ref: 41, Item: 2})
	require.Equal(t, []string{`1 {1 0.5 0.25}`, `flights 1 = "" (true)`, `flights 2 = "1" (false)`}, s.harvest())
	// A selection that was paid between two harvests leaves no trace in flight.
	d.Selected(Feedback{Ref: 43, Item: 0})
	d.Paid(Feedback{Ref: 43, Item: 0, Payoff: 1})
	require.Equal(t, []string{`0 {1 1 1}`}, s.harvest())
}

// With QPM-D, selections in flight break ties and count for nothing else.
func TestSelectionsInFlight_AreSamplesForDirectFeedingAlone(t *testing.T) {
	var d Decision
	for _, l := range []Learner{NewDirect(leastSampled{}, Silence{}), NewQPMD(leastSampled{})} {
		l.Grow(2)
		l.Selected(Feedback{Ref: 1, Item: 0})
		l.Decide(allItems(2), nil, 1, &d)
		if _, direct := l.(*Direct); direct {
			require.Equal(t, []int32{1, 0}, d.Order)
		} else {
			require.Equal(t, []int32{0, 1}, d.Order)
		}
	}
}

// One impression of a laboratory or a worker: its ranking, its selection and its payoff, at once or 1,000 later.
func BenchmarkLearners(b *testing.B) {
	const n, lag = 10, 1000
	for _, k := range kinds() {
		b.Run(k.name, func(b *testing.B) {
			l := k.make(b)
			l.Grow(n)
			candidates := allItems(n)
			var d Decision
			flying := make([]Feedback, lag)
			b.ReportAllocs()
			for ref := 0; b.Loop(); ref++ {
				if fb := &flying[ref%lag]; ref >= lag {
					l.Paid(*fb)
				}
				l.Decide(candidates, nil, policy.Key(ref), &d)
				fb := Feedback{Ref: int64(ref), Item: d.Order[0], Payoff: 0.5, Candidates: candidates, Order: d.Order,
					Instance: d.Instance}
				if len(d.Propensities) > 0 {
					fb.Propensity = d.Propensities[0]
				}
				l.Selected(fb)
				flying[ref%lag] = fb
			}
		})
	}
}
