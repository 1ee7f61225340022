package delay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// valuedItems is a learner of items of which each was selected so often, and whose selections have ended. A tenth to a half of an
// item's selections are paid, by pays.
func valuedItems(items, selections int, none float64, pays func(r *rand.Rand, item int) float64, r *rand.Rand) (d *Direct, shares []float64) {
	d = NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: none, Horizon: 1 << 20})
	d.Grow(items)
	now := int64(1 << 30)
	for i := range items {
		shares = append(shares, 0.1+0.4*float64(i)/float64(items))
		for range selections {
			fb := Feedback{Item: policy.Item(i), Began: now}
			d.Selected(fb)
			now += 1000
			if r.Float64() < shares[i] {
				fb.Payoff, fb.Age = pays(r, i), 1000
			} else {
				fb.Payoff, fb.Defaulted = none, true
			}
			d.Paid(fb)
		}
	}
	d.Advance(now + 1<<22)
	return d, shares
}

// errorsOf returns the root mean squares, over items, of the errors of evidence's means and of payoffs' own means.
func errorsOf(d *Direct, mean func(item int) float64) (evidence, own float64) {
	items := d.table.Len()
	for i := range items {
		e, o := d.Evidence(policy.Item(i)).Mean()-mean(i), d.table.Pooled(policy.Item(i)).Evidence().Mean()-mean(i)
		evidence, own = evidence+e*e, own+o*o
	}
	return math.Sqrt(evidence / float64(items)), math.Sqrt(own / float64(items))
}

// Where three in ten payoffs are returned, of any item, an item's own returns say little. Errors of means are then 0.5 of those of
// payoffs' own means, ±5% over 200 items. If values differ by chance by five standard deviations they are 0.65.
func TestValues_AlikeComeFromAllItems(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d, shares := valuedItems(200, 100, 0.5, func(r *rand.Rand, _ int) float64 {
		if r.Float64() < 0.3 {
			return 0
		}
		return 1
	}, rand.New(rand.NewPCG(seed, 0)))
	evidence, own := errorsOf(d, func(i int) float64 { return 0.5 + 0.2*shares[i] })
	require.Less(t, evidence, 0.75*own)
	var within, raw float64
	for i := range policy.Item(200) {
		e, p := d.Evidence(i), d.table.Pooled(i).Evidence()
		within += e.Q - e.R*e.Mean()
		raw += p.Q - p.R*p.Mean()
		require.Equal(t, p.W, e.W)
	}
	require.Less(t, within, 0.8*raw, "their variance is that of shares paid: 0.44 of it")
}

// Prices that differ by item are each item's own: means are those of its payoffs, within a hundredth of their errors.
func TestValues_DifferentOnesAreTheItems(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d, _ := valuedItems(20, 200, 0, func(r *rand.Rand, item int) float64 {
		return 0.2 + 0.6*float64(item%4)/3 + 0.1*r.Float64()
	}, rand.New(rand.NewPCG(seed, 0)))
	require.Less(t, d.flights.awaiting.made.own, 1.)
	for i := range policy.Item(20) {
		require.InEpsilon(t, d.table.Pooled(i).Evidence().Mean(), d.Evidence(i).Mean(), 0.01)
	}
}

// Where all selections are paid, values are means, and a tick weighs no item again.
func TestValues_AreOwnWhereAllSelectionsArePaid(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	d := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: 1 << 20})
	d.Grow(10)
	now := int64(1 << 30)
	for k := range 2000 {
		fb := Feedback{Item: policy.Item(k % 10), Began: now, Age: 1000, Payoff: float64(r.IntN(2))}
		d.Selected(fb)
		d.Paid(fb)
		now += 1000
	}
	d.Advance(now)
	require.Greater(t, d.flights.awaiting.made.share, nearlyAll)
	require.Equal(t, values{own: 1, spread: 1}, d.flights.awaiting.made.values)
	for i := range policy.Item(10) {
		require.Equal(t, d.table.Pooled(i).Evidence(), d.Evidence(i))
	}
}

// Where all paid selections pay the same, nothing is estimated, and evidence is the payoffs.
func TestValues_OfEqualPayoffsAreNotEstimated(t *testing.T) {
	d, _ := valuedItems(20, 100, 0.25, func(*rand.Rand, int) float64 { return 1 }, rand.New(rand.NewPCG(1, 0)))
	require.Equal(t, values{own: 1, spread: 1}, d.flights.awaiting.made.values)
	for i := range policy.Item(20) {
		require.Equal(t, d.table.Pooled(i).Evidence(), d.Evidence(i))
	}
}

// Prices are each item's own also in catalogues of more than 2¹³ items and after more than 2³³ payoffs, and the estimate can be loaded.
func TestValues_OfManyItemsAndPayoffs(t *testing.T) {
	for _, many := range []struct {
		items policy.Item
		each  int64
	}{{12_000, 40}, {10, 1 << 31}} {
		d := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: 1 << 20})
		d.Grow(int(many.items))
		for i := range many.items {
			price, paid := 0.1+0.2*float64(i%5), many.each/4*(1+int64(i%3))
			n := float64(paid)
			d.table.AddOwn(i, policy.Sums{N: many.each, R: price * n, Q: (price*price + 1e-7) * n}, policy.SumsChanged)
			d.flights.awaiting.settled.AddOwn(i, inflight.Outcomes{Paid: paid, Unpaid: many.each - paid}, 1)
		}
		now := int64(1 << 30)
		d.Paid(Feedback{Began: now, Age: 1000, Payoff: 0.1})
		d.Advance(now + 1<<22)
		made := d.flights.awaiting.made
		require.Greater(t, made.share, 0.2)
		require.Less(t, made.share, nearlyAll)
		for i := range policy.Item(10) {
			require.InEpsilon(t, d.table.Pooled(i).Evidence().Mean(), d.Evidence(i).Mean(), 0.01)
		}
		require.NoError(t, d.LoadField("learner", []byte("silence"), d.flights.awaiting.appendEstimate(nil)))
	}
}

// Payoffs below the default are read again after many millions.
func TestSettled_OfManyPayoffsBelowTheDefault(t *testing.T) {
	column := settledColumn(&inflight.Outcomes{})
	for _, o := range []inflight.Outcomes{{Paid: 1 << 33, Below: 1 << 32, Low: 1 << 60}, {Paid: 5, Unpaid: 3, Below: 2, Low: 2 << 30}} {
		again, err := words.Parse(column.append(nil, o), ' ', readSettled, errEstimate)
		require.NoError(t, err)
		require.Equal(t, o, again)
	}
	_, err := words.Parse([]byte("5 3 2 2147483649"), ' ', readSettled, errEstimate)
	require.Error(t, err, "more than 1 each")
}

// A restored learner has the evidence of the stored one, after the next tick as well, also of items that nobody selects any more.
func TestValues_AreRestored(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	d, _ := valuedItems(20, 50, 0.25, func(r *rand.Rand, _ int) float64 { return r.Float64() }, r)
	require.Less(t, d.flights.awaiting.made.own, 1.)
	s := newStore(d)
	s.harvest()
	again := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: 0.25, Horizon: 1 << 20})
	s.loadSorted(t, 20, again)
	equal := func() {
		for i := range policy.Item(20) {
			require.Equal(t, d.Evidence(i), again.Evidence(i))
		}
	}
	equal()
	drifting := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: 0.25, Horizon: 1 << 20, Drift: 1})
	s.loadSorted(t, 20, drifting) // estimates none, and takes none over
	drifting.Advance(1 << 34)
	require.Equal(t, 1., drifting.flights.awaiting.made.own)
	before, now := d.Evidence(19), int64(1<<33)
	for range 300 {
		fb := Feedback{Item: policy.Item(r.IntN(10)), Began: now, Age: 1000, Payoff: 1}
		for _, l := range []*Direct{d, again} {
			l.Selected(fb)
			l.Paid(fb)
		}
		now += 1000
	}
	equal()
	for _, l := range []*Direct{d, again} {
		l.Advance(now + 1<<22)
	}
	equal()
	require.NotEqual(t, before, d.Evidence(19))
}

// TestValues_OfUnknownOutcomes: without silence's ages, defaults were fed that nothing counts as such. They do not pass for paid selections
// once ages is set, so that where all payoffs are equal nothing changes.
func TestValues_OfUnknownOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &lawful{now: 1 << 30}
		w.start(t, Silence{Law: SilenceWaits, Horizon: 1 << 20})
		for i := range policy.Item(pooledItems) {
			for k := range 500 {
				fb := Feedback{Item: i, Began: w.now}
				w.learner.Selected(fb)
				if fb.Payoff = 1; k%(20+int(i)) > 0 {
					fb.Payoff, fb.Defaulted = 0, true
				}
				w.learner.Paid(fb)
			}
		}
		w.start(t, Silence{Law: SilenceAges, Horizon: 1 << 20})
		for range rapid.IntRange(1, 100).Draw(t, "payoffs") {
			w.now += 1 << 15
			fb := Feedback{Began: w.now, Payoff: 1}
			w.learner.Selected(fb)
			w.learner.Paid(fb)
			w.learner.Advance(w.now)
		}
		for i := range policy.Item(pooledItems) {
			require.InDelta(t, w.learner.Sums(i).R, w.learner.Evidence(i).R, 1e-9, "item %d", i)
			require.InDelta(t, w.learner.Sums(i).Q, w.learner.Evidence(i).Q, 1e-9, "item %d", i)
		}
	})
}
