package delay

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// lawful is a learner whose law and horizon change from one start to the next, upon one store.
type lawful struct {
	law     Silence
	learner *Direct
	store   *store
	now     int64
	open    []Feedback
}

func (w *lawful) start(t *rapid.T, s Silence) {
	stored := w.store
	w.law, w.learner = s, NewDirect(policy.NewGreedy(), s)
	w.store = newStore(w.learner)
	if stored == nil {
		w.learner.Grow(pooledItems)
		return
	}
	stored.harvest()
	ours := *stored
	ours.hashes = map[string]map[string]string{}
	for _, h := range w.learner.Hashes() {
		ours.hashes[h] = stored.hashes[h]
	}
	ours.load(t, pooledItems, w.learner)
	w.store.sums, w.store.hashes = stored.sums, stored.hashes
	for _, h := range w.learner.Hashes() {
		if w.store.hashes[h] == nil {
			w.store.hashes[h] = map[string]string{}
		}
	}
	w.learner.Advance(w.now)
}

// check compares each item's weights of selections in flight with those of the law.
func (w *lawful) check(t *rapid.T) {
	for i := range policy.Item(pooledItems) {
		n := 0.0
		for _, fb := range w.open {
			if fb.Item == i {
				n++
			}
		}
		sums, e := w.learner.Sums(i), w.learner.table.Evidence(i)
		require.EqualValues(t, n, w.learner.flights.Own(i).N)
		weight := e.W - float64(sums.N)
		require.InDelta(t, n, weight+e.Open, 1e-6, "what does not weigh is open")
		require.InDelta(t, sums.R+0.25*weight, e.R, 1e-6)
		switch w.law.Law {
		case SilenceWaits:
			require.Zero(t, weight)
		case SilenceAtOnce:
			require.InDelta(t, n, weight, 1e-6)
		case SilenceAges:
			a := w.learner.flights.awaiting
			require.True(t, weight >= 0 && weight <= n, "%v of %v", weight, n)
			require.True(t, a.ours(i).Count() <= int64(n), "%v of %v", a.ours(i), n)
			for k, x := range a.ours(i) {
				require.True(t, x.N > 0 && (k == 0 || a.ours(i)[k-1].End() <= x.Start()), "%v", a.ours(i))
				began := int64(0)
				for _, fb := range w.open {
					if fb.Item == i && x.Start() <= fb.Began && fb.Began < x.End() {
						began++
					}
				}
				require.LessOrEqual(t, x.N, began, "of those that began in %v", x)
			}
		}
	}
	if a := w.learner.flights.awaiting; a != nil {
		var spans int64
		for _, own := range a.column.EachOwn() {
			spans += own.Spans.Count()
		}
		require.Equal(t, spans, a.every.Count(), "of all items")
	}
}

// The law and the horizon may change at any start. Counts are right ever after, and weights those of the law; once all has ended
// nothing is left that would weigh.
func TestDirect_LawMayChange(t *testing.T) {
	laws := []Silence{{Default: 0.25}, {Law: SilenceAtOnce, Default: 0.25}, ageing(1 << 20), ageing(1 << 27), ageing(3_000_000)}
	rapid.Check(t, func(t *rapid.T) {
		w := &lawful{}
		w.start(t, rapid.SampledFrom(laws).Draw(t, "law"))
		selected := func(t *rapid.T) {
			fb := Feedback{Item: rapid.Int32Range(0, 1).Draw(t, "item"), Began: w.now - rapid.Int64Range(-500, 5000).Draw(t, "ago")}
			w.learner.Selected(fb)
			w.open = append(w.open, fb)
		}
		end := func(t *rapid.T) {
			fb := takeOne(t, &w.open)
			fb.Age = max(0, w.now-fb.Began)
			switch rapid.IntRange(0, 2).Draw(t, "end") {
			case 0:
				w.learner.Expired(fb)
			case 1:
				fb.Defaulted = true
				fallthrough
			default:
				fb.Payoff = 0.25
				w.learner.Paid(fb)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"select": selected, "select again": selected, "end": end, "end again": end,
			"advance": func(t *rapid.T) {
				w.now += rapid.OneOf(rapid.Int64Range(0, 3000), rapid.Int64Range(0, 200_000)).Draw(t, "ms")
				w.learner.Advance(w.now)
			},
			"harvest": func(*rapid.T) { w.store.harvest() },
			"start":   func(t *rapid.T) { w.start(t, rapid.SampledFrom(laws).Draw(t, "law")) },
			"":        w.check,
		})
		for len(w.open) > 0 {
			end(t)
		}
		w.start(t, ageing(1<<20))
		w.check(t)
		require.Empty(t, w.store.hashes[hashFlights])
	})
}

// Spans stored by a law that keeps no ages do not stand for selections that they were not written for.
func TestDirect_SpansAreNotKeptForOtherSelections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &lawful{now: 1 << 30}
		one := func(began int64) Feedback { return Feedback{Item: 1, Began: began} }
		w.start(t, ageing(1<<20))
		w.open = []Feedback{one(w.now)}
		w.learner.Selected(w.open[0])
		w.start(t, Silence{Law: SilenceAtOnce, Default: 0.25})
		w.learner.Expired(w.open[0])
		w.now += 1 << 22
		w.open[0] = one(w.now)
		w.learner.Selected(w.open[0])
		w.start(t, ageing(1<<20))
		w.check(t)
		require.Empty(t, w.learner.flights.awaiting.ours(1), "when the one in flight began is not known")
	})
}

// Likewise with features: buckets of cells and linear sums stored with a shorter horizon merge before the next payoff.
func TestContextual_HorizonMayGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
		law := rapid.SampledFrom([]SilenceLaw{SilenceWaits, SilenceAges, SilenceAtOnce}).Draw(t, "silence")
		make := func(horizon int64) *Direct {
			l, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: shop(t), Belief: belief, Silence: Silence{Law: law, Horizon: horizon}})
			require.NoError(t, err)
			return l
		}
		horizon := rapid.Int64Range(1<<24, 1<<28).Draw(t, "horizon")
		began := rapid.Int64Range(1<<40, 1<<41).Draw(t, "time")
		l := make(horizon)
		l.Grow(3)
		require.NoError(t, l.Loaded())
		s, paid := newStore(l), int64(0)
		play := func() {
			for range rapid.IntRange(1, 6).Draw(t, "payoffs") {
				began += rapid.Int64Range(0, horizon/32).Draw(t, "later")
				paid++
				fb := Feedback{Ref: paid, Item: policy.Item(paid % 3), Began: began, Payoff: 0.5, X: randomRow(policy.Key(paid), 0)}
				l.Selected(fb)
				l.Paid(fb)
				l.Advance(began)
			}
			s.harvest()
		}
		for range rapid.IntRange(2, 4).Draw(t, "starts") {
			play()
			horizon *= rapid.SampledFrom([]int64{1, 4, 16}).Draw(t, "longer")
			l = make(horizon)
			s.load(t, 3, l)
			s.learner = l
			counted := int64(0)
			for _, row := range l.contexts.linear.rows {
				counted += row.Sum.N
			}
			require.Equal(t, paid, counted)
		}
	})
}

// Over the time that its selections cover, a longer horizon has longer buckets. Intervals stored with shorter buckets merge into them.
// Later intervals then do not overlap these, and can be loaded.
func TestDirect_HorizonMayGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &lawful{now: 1 << 30}
		select1 := func(began int64) {
			w.open = append(w.open, Feedback{Item: 1, Began: began})
			w.learner.Selected(w.open[len(w.open)-1])
			w.check(t)
		}
		w.start(t, ageing(1<<20))
		select1(w.now - 1<<27)
		w.learner.Advance(w.now)
		select1(w.now)
		w.start(t, ageing(1<<27))
		select1(w.now + 2000)
		require.Len(t, w.learner.flights.awaiting.ours(1), 2)
		w.start(t, ageing(1<<27))
		w.check(t)
	})
}

// Payoffs later than a horizon are missing from the delays that were learned with it. After a raise these say nothing of greater ages, in
// other partitions neither. Half of all selections are paid, with delays up to thirty days; the first sixty days have a horizon of seven.
func TestDirect_DelaysAfterARaiseOfTheHorizon(t *testing.T) {
	for _, how := range []string{"restarted", "rebuilt", "resharded"} {
		t.Run(how, func(t *testing.T) { delaysAfterARaise(t, how) })
	}
}

func delaysAfterARaise(t *testing.T, how string) {
	const day, long = 86_400_000, 30 * 86_400_000
	rng, now, horizon := rand.New(rand.NewPCG(1, 2)), int64(0), int64(7*day)
	d, other := NewDirect(policy.NewGreedy(), ageing(horizon)), NewDirect(policy.NewGreedy(), ageing(long))
	if how == "rebuilt" {
		d = NewDirect(policy.NewGreedy(), ageing(long))
	}
	d.Grow(pooledItems)
	other.Grow(pooledItems)
	s := newStore(d)
	ends, gone := map[int64][]Feedback{}, map[fieldOf]bool{} // by day
	play := func(days int64) {
		for range days * 50 {
			now += day / 50
			d.Advance(now)
			for _, fb := range ends[now/day] {
				d.Paid(fb)
			}
			delete(ends, now/day)
			fb := Feedback{Item: 1, Began: now, Horizon: horizon, Payoff: 1, Age: rng.Int64N(long)}
			d.Selected(fb)
			if rng.IntN(2) == 0 || fb.Age > horizon {
				fb.Payoff, fb.Age, fb.Defaulted = 0, horizon, true
			}
			at := (now + fb.Age) / day
			ends[at] = append(ends[at], fb)
		}
		s.harvest()
	}
	check := func(least, most float64, covers int64) {
		t.Helper()
		of := d.Status().Silence
		require.True(t, least < of.Delays.By(7*day) && of.Delays.By(7*day) < most, "%v", of.Delays.By(7*day))
		require.InDelta(t, covers*day, of.Covers, day)
		publish(other, 7, s, gone)
		other.Advance(now)
		theirs := other.Status().Silence
		require.InDelta(t, of.Delays.By(7*day), theirs.Delays.By(7*day), 0.01, "but for the tick")
	}
	play(60)
	horizon = long
	if how == "resharded" { // into a partition without these rows
		from := d
		d = NewDirect(policy.NewGreedy(), ageing(horizon))
		d.Grow(pooledItems)
		require.NoError(t, d.TakeOver(from, nil, Portion{}))
		for _, at := range slices.Sorted(maps.Keys(ends)) {
			for _, fb := range ends[at] {
				d.Carry(fb, true)
			}
		}
		s = newStore(d)
	}
	for _, days := range []int64{1, 6, 7} {
		if how == "restarted" {
			d = NewDirect(policy.NewGreedy(), ageing(horizon))
			s.loadSorted(t, pooledItems, d)
			s.learner = d
		}
		play(days)
	}
	check(0.23, 0.8, 14)
	play(46)
	check(0.2, 0.27, 60)
}

// The default may be one that no unit holds, and may be lowered while payoffs below it are stored. A learner reads its own estimate, and the
// mean of these payoffs stays.
func TestDirect_DefaultMayChange(t *testing.T) {
	for _, defaults := range [][]float64{{1. / 6, 1. / 6}, {0.5, 0.25, 0}} {
		for _, payoff := range []float64{0, 0.3} {
			rapid.Check(t, func(t *rapid.T) {
				w := &lawful{now: 1 << 30}
				for _, none := range defaults {
					law := ageing(1 << 22)
					law.Default = none
					w.start(t, law)
					for range 20 {
						fb := Feedback{Item: 1, Began: w.now, Payoff: payoff, Age: 1000}
						w.learner.Selected(fb)
						w.learner.Paid(fb)
						w.now += 100_000
						w.learner.Advance(w.now)
					}
					if defaults[0] > payoff {
						require.InDelta(t, payoff, w.learner.flights.awaiting.made.low, 1e-9)
					}
				}
				w.start(t, w.law)
			})
		}
	}
}

// Outcomes stay while another law is configured, but for those of items that end meanwhile.
func TestDirect_OutcomesEndWithTheirItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &lawful{now: 1 << 30}
		w.start(t, ageing(1<<20))
		for i := range policy.Item(2) {
			fb := Feedback{Item: i, Began: w.now, Payoff: 0.5}
			w.learner.Selected(fb)
			w.learner.Paid(fb)
		}
		w.start(t, Silence{Law: rapid.SampledFrom([]SilenceLaw{SilenceWaits, SilenceAtOnce}).Draw(t, "silence"), Default: 0.25})
		w.learner.Forget(0)
		w.start(t, ageing(1<<20))
		require.Equal(t, inflight.Outcomes{Paid: 1}, w.learner.flights.awaiting.all)
		require.Equal(t, inflight.Outcomes{Paid: 1}, w.learner.flights.awaiting.settled.Own(1))
	})
}
