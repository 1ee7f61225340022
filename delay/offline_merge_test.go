package delay

import (
	"cmp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// mergeable makes learners of each kind, by name.
func mergeable(t require.TestingT) map[string]func() Mergeable {
	ftrl, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	bold := func(most int) func() Mergeable {
		return func() Mergeable {
			b, err := NewBOLD(BOLDConfig{Base: ftrl, MaxInstances: most})
			require.NoError(t, err)
			return b
		}
	}
	return map[string]func() Mergeable{
		"qpmd":   func() Mergeable { return NewQPMD(policy.NewGreedy()) },
		"direct": func() Mergeable { return NewDirect(policy.NewGreedy(), Silence{}) },
		"ages": func() Mergeable {
			return NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: lifeHorizon})
		},
		"impressions": func() Mergeable { return attracted(NewDirect(robustMOSS(t), Silence{}), 0) },
		"drift": func() Mergeable {
			return NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: lifeHorizon, Drift: 10})
		},
		"robust": func() Mergeable {
			return newRobust(t, RobustConfig{Belief: robustBelief, HalfLives: recency.DefaultHalfLives()})
		},
		"robust, impressions": func() Mergeable {
			return attracted(newRobust(t, RobustConfig{Belief: robustBelief, HalfLives: recency.DefaultHalfLives()}), 0)
		},
		"bold":    bold(0),
		"bounded": bold(3),
		"sorted":  func() Mergeable { return NewPreferring(NewQPMD(policy.NewGreedy()), preference.NewSorted()) },
	}
}

// live lets users select and pay.
func live(t *rapid.T, l Learner, items int) {
	l.Grow(items)
	for ref := range int64(rapid.IntRange(0, 30).Draw(t, "impressions")) {
		list := rapid.Permutation(sequence(items)).Draw(t, "list")[:rapid.IntRange(1, items).Draw(t, "length")]
		var d Decision
		l.Decide(list, nil, policy.Key(rapid.Uint64().Draw(t, "key")), &d)
		shown := make([]policy.Item, len(d.Order))
		for k, at := range d.Order {
			shown[k] = list[at]
		}
		at := rapid.IntRange(0, len(list)-1).Draw(t, "selected")
		fb := Feedback{Ref: ref, Item: shown[at], Candidates: list, Order: d.Order, Instance: d.Instance, Undecided: d.Undecided,
			Payoff: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "payoff")}
		if len(d.Ranks) > 0 {
			fb.Candidates, fb.Order = shown, nil
		}
		if len(d.Propensities) > 0 {
			fb.Propensity = d.Propensities[at]
		}
		l.Selected(fb)
		if rapid.Bool().Draw(t, "paid") {
			l.Paid(fb)
		}
	}
}

func sequence(n int) []policy.Item {
	all := make([]policy.Item, n)
	for i := range all {
		all[i] = policy.Item(i)
	}
	return all
}

// fields collects a learner's harvested fields.
type fields map[string]string

func (f fields) Item(i policy.Item) {}
func (f fields) Known() bool        { return false }
func (f fields) Field(hash string, field, value []byte) {
	if value == nil {
		delete(f, hash+"/"+string(field))
		return
	}
	f[hash+"/"+string(field)] = string(value)
}

// Two learners are merged into a third, which numbers the items its own way. It has the sums of both, all queues, and each
// instance's knowledge under its new number. It can load its own store.
func TestMerge_NothingIsLostOrCountedTwice(t *testing.T) {
	for name, make1 := range mergeable(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				const items = 5
				parts := []Mergeable{make1(), make1()}
				to := make1()
				to.Grow(2 * items)
				var payoffs, waiting, rounds int64
				number := make([][]policy.Item, len(parts))
				changed := map[policy.Item]bool{}
				for k, from := range parts {
					live(t, from, items)
					number[k] = rapid.Permutation(sequence(2*items)).Draw(t, "numbers")[:items]
					require.NoError(t, Merge(to, from, number[k], Portion{Additive: true, Queues: true, Of: 2, Rank: int32(k)},
						func(i policy.Item) { changed[i] = true }))
					i := from.(Inspector).Inspect()
					for n := range policy.Item(items) {
						payoffs += from.Sums(n).N
					}
					for _, item := range i.Items {
						waiting += item.Waiting
					}
					for _, one := range i.Instances {
						if name != "bounded" || one.Number*2+int32(k) < 3 {
							rounds += one.Rounds
						}
					}
				}
				i := to.(Inspector).Inspect()
				for n := range policy.Item(2 * items) {
					var want policy.Sums
					for k, from := range parts {
						for theirs, ours := range number[k] {
							if ours == n {
								want = want.Add(from.Sums(policy.Item(theirs)))
							}
						}
					}
					require.Equal(t, want, to.Sums(n))
					require.Equal(t, want != policy.Sums{}, changed[n], "sums are reported as changed")
					payoffs -= to.Sums(n).N
				}
				for _, item := range i.Items {
					waiting -= item.Waiting
				}
				for _, one := range i.Instances {
					rounds -= one.Rounds
					require.Zero(t, one.Outstanding, "what is under way is carried apart")
				}
				require.Equal(t, []int64{0, 0, 0}, []int64{payoffs, waiting, rounds})
				require.False(t, to.Status().OnHold)
				spans := stored(t, to, make1()).spans(t)
				for _, from := range parts {
					f := fields{}
					from.Harvest(f)
					spans -= f.spans(t)
				}
				require.Zero(t, spans, "selections by window")
			})
		})
	}
}

// spans returns the number of selections by which windows are learned.
func (f fields) spans(t require.TestingT) (n int64) {
	for key, value := range f {
		if strings.HasPrefix(key, hashWindows+"/") {
			count, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			n += count
		}
	}
	return n
}

// stored checks that a learner loads another's harvest, and equals it then.
func stored(t *rapid.T, l, again Mergeable) fields {
	f := fields{}
	l.Harvest(f)
	again.Grow(10)
	for n := range policy.Item(10) {
		again.LoadSums(n, l.Sums(n))
	}
	for key, value := range f {
		var hash, field string
		for k := range key {
			if key[k] == '/' {
				hash, field = key[:k], key[k+1:]
				break
			}
		}
		require.Contains(t, EveryHash(), hash)
		require.NoError(t, again.LoadField(hash, []byte(field), []byte(value)))
	}
	require.NoError(t, again.Loaded())
	require.Equal(t, l.(Inspector).Inspect(), again.(Inspector).Inspect())
	return f
}

// Learners of another kind are refused.
func TestMerge_RefusesAnotherKind(t *testing.T) {
	all := mergeable(t)
	kind := map[string]string{"bounded": "bold", "ages": "direct", "drift": "direct", "impressions": "direct", "robust, impressions": "robust"} // of those that are the same under another name
	for a, to := range all {
		for b, from := range all {
			if cmp.Or(kind[a], a) != cmp.Or(kind[b], b) {
				require.ErrorIs(t, Merge(to(), from(), nil, Portion{Additive: true}, nil), ErrMerge, "%s from %s", a, b)
			}
		}
	}
}

// Selections are carried from a learner, and then from one that is far ahead. Their buckets do not overlap: the state loads.
func TestMerge_CarriedSelectionsLoad(t *testing.T) {
	make1 := mergeable(t)["ages"]
	to := make1()
	to.Grow(1)
	s := newStore(to)
	for k, tick := range []int64{5_020_000, 10_000_000} {
		from := make1()
		from.Grow(1)
		from.Advance(tick)
		require.NoError(t, Merge(to, from, []policy.Item{0}, Portion{Additive: true, Of: 2, Rank: int32(k)}, func(policy.Item) {}))
		for _, began := range [][]int64{{5_000_000, 5_010_000}, {5_005_000}}[k] {
			to.Carry(Feedback{Began: began}, true)
		}
		s.harvest()
	}
	s.loadSorted(t, 1, make1())
}
