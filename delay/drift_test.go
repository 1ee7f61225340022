package delay

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// evidenceAt is how much was learned at a time.
type evidenceAt struct {
	at     int64
	weight float64
}

// faded processes all evidence of an item in the order of time. Each piece has the variance of the mean that it gave, and the
// variance grows with time.
func faded(all []evidenceAt, value []float64, rate float64, end int64) (w, mean float64) {
	order := make([]int, len(all))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(all[a].at - all[b].at) })
	variance, at := math.Inf(1), int64(0) // in variances of a payoff
	for _, k := range order {
		if !math.IsInf(variance, 1) {
			variance += rate * float64(all[k].at-at)
		}
		at = all[k].at
		gain := variance / (variance + 1/all[k].weight)
		if math.IsInf(variance, 1) {
			gain = 1
		}
		mean += gain * (value[k] - mean)
		variance = (1 - gain) * variance
		if gain == 1 {
			variance = 1 / all[k].weight
		}
	}
	return 1 / (variance + rate*float64(max(0, end-at))), mean
}

// The evidence of an item is that of a Kalman filter of a mean that follows a random walk. The filter has each payoff, and the
// weight of the unpaid, in the middle of the block in which the selection began.
func TestDrift_IsAFilterOfWhatBeganWhen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := Silence{Law: rapid.SampledFrom([]SilenceLaw{SilenceAges, SilenceWaits}).Draw(t, "silence"), Default: 0.25, Horizon: 1 << 24,
			Drift: rapid.Float64Range(1, 60).Draw(t, "drift")}
		rate := law.Drift * law.Drift / 86_400_000
		l := NewDirect(policy.NewGreedy(), law)
		l.Grow(1)
		g := inflight.NewScheme(law.Horizon)
		now := int64(1 << 30)
		l.Advance(now)
		type end struct {
			began  int64
			payoff float64
		}
		var open []int64
		var ended []end
		t.Repeat(map[string]func(*rapid.T){
			"select": func(t *rapid.T) {
				open = append(open, now)
				l.Selected(Feedback{Began: now})
			},
			"pay": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is awaited")
				}
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				e := end{open[k], float64(rapid.IntRange(0, 4).Draw(t, "payoff")) / 4}
				open = slices.Delete(open, k, k+1)
				ended = append(ended, e)
				l.Paid(Feedback{Began: e.began, Payoff: e.payoff, Age: now - e.began, Defaulted: e.payoff == 0.25})
			},
			"advance": func(t *rapid.T) {
				now += rapid.Int64Range(0, 1<<22).Draw(t, "ms")
				l.Advance(now)
			},
			"": func(t *rapid.T) {
				tick := g.Tick(now)
				var all []evidenceAt
				var value []float64
				byBlock := map[inflight.Bucket][]float64{}
				for _, e := range ended {
					b := g.BucketOf(e.began, tick)
					byBlock[b] = append(byBlock[b], e.payoff)
				}
				for b, payoffs := range byBlock {
					var sum float64
					for _, x := range payoffs {
						sum += x
					}
					all = append(all, evidenceAt{b.Start() + (b.End()-b.Start())/2, float64(len(payoffs))})
					value = append(value, sum/float64(len(payoffs)))
				}
				if law.Law == SilenceAges {
					for _, x := range l.flights.awaiting.ours(0) {
						a := l.flights.awaiting
						if w := x.Weigh(a.shares.Get(0).paid, a.shares.Get(0).below); w.Sum() > 0 {
							all = append(all, evidenceAt{x.Start() + (x.End()-x.Start())/2, w.Sum()})
							value = append(value, (0.25*w.Unpaid+a.made.low*w.Below)/w.Sum())
						}
					}
				}
				got := l.table.Evidence(0)
				if len(all) == 0 {
					require.Zero(t, got.W)
					return
				}
				for k := range all {
					all[k].at = min(all[k].at, tick)
				}
				w, mean := faded(all, value, rate, tick)
				require.InEpsilon(t, w, got.W, 1e-4)
				require.InDelta(t, mean, got.R/got.W, 1e-4)
				require.LessOrEqual(t, got.W, float64(len(ended)+len(open))+1e-9)
			},
		})
	})
}

// Evidence from before there was a history counts as of the first tick that keeps one, and fades from then on.
func TestDrift_WhatWasThereBeforeCountsAsOfTheFirstPass(t *testing.T) {
	law := Silence{Horizon: 1 << 24, Drift: 10}
	old := NewDirect(policy.NewGreedy(), Silence{Horizon: 1 << 24})
	l := NewDirect(policy.NewGreedy(), law)
	for _, d := range []*Direct{old, l} {
		d.Grow(1)
	}
	for range 1000 {
		old.Paid(Feedback{Payoff: 0.5})
	}
	l.LoadSums(0, old.Sums(0))
	require.NoError(t, l.Loaded())
	require.Equal(t, 1000.0, l.table.Evidence(0).W, "at once nothing is forgotten")
	begin := int64(1 << 40)
	l.Advance(begin)
	require.Equal(t, 1000.0, l.table.Evidence(0).W)
	const day = 86_400_000
	l.Advance(begin + day)
	require.InDelta(t, 1000.0/(1+100*1000), l.table.Evidence(0).W, 1e-3)
	l.Selected(Feedback{Began: begin + day})
	l.Paid(Feedback{Began: begin + day, Payoff: 1})
	require.InDelta(t, 1, l.table.Evidence(0).Mean(), 0.01, "one payoff of now weighs more than a thousand of then")
	require.EqualValues(t, 1001, l.Sums(0).N, "what was summed up stays")
}

// TestDrift_BeginsOnceMore: a learner's drift is set to 0 for most of a year, and then set again. All that it was fed counts as of then.
func TestDrift_BeginsOnceMore(t *testing.T) {
	const day = 86_400_000
	now, stored := int64(1<<40), map[string]map[string]string{}
	var sums policy.Sums
	live := func(drift float64, days int64) policy.Evidence {
		l := NewDirect(policy.NewGreedy(), Silence{Horizon: 1 << 24, Drift: drift})
		s := newStore(l)
		for _, h := range l.Hashes() {
			if stored[h] != nil {
				s.hashes[h] = stored[h]
			}
		}
		s.sums[0] = sums
		s.loadSorted(t, 1, l)
		l.Advance(now)
		began := l.Evidence(0)
		for range days {
			now += day
			l.Advance(now)
			for range 10 {
				l.Selected(Feedback{Began: now})
				l.Paid(Feedback{Began: now, Payoff: 0.5})
			}
			s.harvest()
		}
		for h, fields := range s.hashes {
			stored[h] = fields
		}
		sums = l.Sums(0)
		return began
	}
	live(0.1, 30)
	require.Contains(t, stored[hashHistory], "pass")
	live(0, 300)
	require.Empty(t, stored[hashHistory])
	require.Equal(t, 3300.0, live(0.1, 30).W)
	require.Contains(t, stored[hashHistory], "pass")
}

// TestDrift_OfASourceThatGoesBack: a global learner goes by the ticks that sources publish now. Of those of a store that went back nothing is kept.
func TestDrift_OfASourceThatGoesBack(t *testing.T) {
	global := NewDirect(policy.NewGreedy(), Silence{Horizon: 1 << 24, Drift: 10})
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	resync := func(source int32, tick string) {
		global.BeginResync(source)
		if tick != "" {
			global.SetSourceField(source, hashHistory, fieldTick, []byte(tick), nil)
		}
		global.EndResync(source, func(string, policy.Item) bool { return false })
		global.Commit(0)
	}
	requireAsOf := func(tick, since int64) {
		t.Helper()
		p, s := global.flights.drift.asOf()
		require.Equal(t, []int64{tick, since}, []int64{p, s})
	}
	resync(1, "900 500")
	resync(2, "700 600")
	requireAsOf(900, 500)
	resync(1, "800 550")
	requireAsOf(800, 550)
	resync(1, "")
	requireAsOf(700, 600)
	resync(2, "")
	requireAsOf(inflight.Never, inflight.Never)
}

// TestDrift_BelowAnEmptyGlobalLearner: evidence follows the partition's own ticks until the process has read one.
func TestDrift_BelowAnEmptyGlobalLearner(t *testing.T) {
	law := Silence{Law: SilenceAges, Horizon: 20_000, Drift: 50}
	l, global := NewDirect(policy.NewGreedy(), law), NewDirect(policy.NewGreedy(), law)
	global.BeGlobal(func(policy.Item) uint64 { return 0 })
	l.Share(global, 0, func(i policy.Item) policy.Item { return i })
	l.Loaded()
	l.Grow(1)
	l.Advance(100_000)
	l.Paid(Feedback{Began: 99_000, Payoff: 1, Age: 1000})
	for at := int64(100_000); at < 120_000; at += 100 {
		l.Advance(at)
		before := l.Evidence(0)
		l.Refresh(func(func(policy.Item) bool) {})
		require.Equal(t, before, l.Evidence(0), "at %d", at)
	}
}
