package delay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

func ageing(horizon int64) Silence { return Silence{Law: SilenceAges, Default: 0.25, Horizon: horizon} }

// publish sets all records that a learner has stored in another one, which numbers items otherwise.
func publish(to Learner, source int32, from *store, gone map[fieldOf]bool) {
	from.harvest()
	theirs := func(i policy.Item) (policy.Item, bool) { return otherNumber(i), true }
	from.publish(to, source, theirs)
	for _, pooled := range to.Pooled() {
		for field := range from.hashes[pooled.Hash] {
			gone[fieldOf{source, pooled.Hash, field}] = false
		}
	}
	for at, wasGone := range gone {
		if _, there := from.hashes[at.hash][at.field]; !there && !wasGone {
			to.SetSourceField(source, at.hash, []byte(at.field), nil, theirs)
			gone[at] = true
		}
	}
}

const pooledItems = 4

// otherNumber is the number of an item in the other of two partitions.
func otherNumber(i policy.Item) policy.Item { return pooledItems - 1 - i }

// Of two partitions that exchange records, each with some of the selections, one has the evidence of a learner that had all of
// them. (Where the other's tick arrives late, expired weight grows one tick later.)
func TestDirect_AgesArePooled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		horizon := rapid.SampledFrom([]int64{1 << 20, 5_000_000}).Draw(t, "horizon")
		law := ageing(horizon)
		law.Law = rapid.SampledFrom([]SilenceLaw{SilenceAges, SilenceAges, SilenceAtOnce, SilenceWaits}).Draw(t, "silence")
		law.Drift = rapid.SampledFrom([]float64{0, 1, 30}).Draw(t, "drift")
		all, ours, theirs := NewDirect(policy.NewGreedy(), law), NewDirect(policy.NewGreedy(), law), NewDirect(policy.NewGreedy(), law)
		for _, l := range []*Direct{all, ours, theirs} {
			l.Grow(pooledItems)
		}
		store, gone := newStore(theirs), map[fieldOf]bool{}
		begin := rapid.SampledFrom([]int64{-62_135_596_800_000, -1000, 0, 1_784_000_000_000}).Draw(t, "begin")
		now := begin
		type selection struct {
			Feedback
			theirs bool
		}
		var open []selection
		part := func(s selection, do func(*Direct, Feedback)) {
			do(all, s.Feedback)
			if !s.theirs {
				do(ours, s.Feedback)
				return
			}
			s.Item = otherNumber(s.Item)
			do(theirs, s.Feedback)
			publish(ours, 7, store, gone)
		}
		selected := func(t *rapid.T) {
			s := selection{Feedback{Item: rapid.Int32Range(0, pooledItems-1).Draw(t, "item"), Began: now}, rapid.Bool().Draw(t, "theirs")}
			part(s, func(d *Direct, fb Feedback) { d.Selected(fb) })
			open = append(open, s)
		}
		move := func(ms int64) {
			now += ms
			theirs.Advance(now)
			publish(ours, 7, store, gone)
			ours.Advance(now)
			all.Advance(now)
		}
		advance := func(most int64) func(t *rapid.T) {
			return func(t *rapid.T) { move(rapid.Int64Range(0, most).Draw(t, "ms")) }
		}
		// Ticks are as fine as a partition's data are young. So both have a selection at the first tick, or their buckets differ by a tick.
		for _, of := range []bool{false, true} {
			s := selection{Feedback{Began: now}, of}
			part(s, func(d *Direct, fb Feedback) { d.Selected(fb) })
			open = append(open, s)
		}
		move(100_000)
		t.Repeat(map[string]func(*rapid.T){
			"select": selected, "select again": selected, "select once more": selected,
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is awaited")
				}
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				s := open[k]
				open = slices.Delete(open, k, k+1)
				s.Payoff, s.Age = rapid.Float64Range(0, 1).Draw(t, "payoff"), now-s.Began
				s.Defaulted = rapid.IntRange(0, 3).Draw(t, "defaulted") == 0
				if rapid.IntRange(0, 5).Draw(t, "dropped") == 0 {
					part(s, func(d *Direct, fb Feedback) { d.Expired(fb) })
					return
				}
				part(s, func(d *Direct, fb Feedback) { d.Paid(fb) })
			},
			"advance": advance(100_000), "advance far": advance(horizon / 2),
			"": func(t *rapid.T) {
				for i := range policy.Item(pooledItems) {
					want, got := all.table.Evidence(i), ours.table.Evidence(i)
					if law.Law == SilenceWaits { // others' flights are not transmitted
						want.Open, got.Open = 0, 0
					}
					for k, pair := range [][2]float64{{want.W, got.W}, {want.R, got.R}, {want.Q, got.Q}, {want.Open, got.Open}} {
						require.InDelta(t, pair[0], pair[1], 1e-5, "item %d, number %d", i, k)
					}
				}
			},
		})
	})
}

// Payoffs of other partitions without their awaited selections would overstate items' means. With the awaited selections the mean
// is that of a learner of everything. Without them it is far above.
func TestDirect_PayoffsOfOthersWithoutTheirSilenceMislead(t *testing.T) {
	const horizon, selections = 10_000_000, 400
	all, with, without, theirs := NewDirect(policy.NewGreedy(), ageing(horizon)), NewDirect(policy.NewGreedy(), ageing(horizon)),
		NewDirect(policy.NewGreedy(), ageing(horizon)), NewDirect(policy.NewGreedy(), ageing(horizon))
	for _, l := range []*Direct{all, with, without, theirs} {
		l.Grow(pooledItems)
		l.Advance(0)
	}
	store := newStore(theirs)
	for k := range int64(selections) {
		fb := Feedback{Ref: k, Item: 0, Began: 1000 * k}
		for _, l := range []*Direct{all, theirs} {
			fb.Item = 0
			if l == theirs {
				fb.Item = otherNumber(0)
			}
			l.Selected(fb)
			if k%20 == 0 { // one of twenty is paid, soon
				paid := fb
				paid.Payoff, paid.Age = 1, 100_000
				l.Paid(paid)
			}
		}
	}
	delivering(with, without, theirs, all)
	for _, l := range []*Direct{theirs, all} {
		l.Advance(horizon / 2)
	}
	publish(with, 1, store, map[fieldOf]bool{})
	delete(store.hashes, hashFlights)
	publish(without, 1, store, map[fieldOf]bool{})
	with.Advance(horizon / 2)
	without.Advance(horizon / 2)
	mean := func(d *Direct) float64 {
		e := d.table.Evidence(0)
		return e.Mean()
	}
	require.InDelta(t, mean(all), mean(with), 1e-5)
	require.Less(t, mean(with), 0.35, "0.25 is the default, of most")
	require.Equal(t, 1.0, mean(without), "only good news counts")
}

// Payoffs of a day are delivered at its end, with their times. In between, selections of the day are not silent; once it is delivered,
// they are, up to the newest payoff. A payoff whose time is far ahead changes nothing.
func TestDirect_WhatIsNotDeliveredIsNotSilent(t *testing.T) {
	const horizon, day = 1 << 30, 1 << 26
	l := NewDirect(policy.NewGreedy(), ageing(horizon))
	l.Grow(8)
	start := int64(1 << 40)
	for d := range int64(5) {
		var file []Feedback
		for k := range int64(256) {
			now := start + d*day + k*(day/256)
			l.Advance(now)
			fb := Feedback{Ref: d*256 + k, Item: policy.Item(d), Began: now, Payoff: 1, Age: day / 64}
			if l.Selected(fb); k%4 == 0 && now+fb.Age < start+(d+1)*day {
				file = append(file, fb)
			}
		}
		last := start + (d+1)*day - 1
		l.Advance(last)
		require.Zero(t, l.table.Evidence(policy.Item(d)).W, "of day %d nothing was delivered", d)
		if d == 2 {
			ahead := Feedback{Ref: -1, Item: 7, Began: last, Payoff: 1, Age: 1 << 50}
			l.Selected(ahead)
			l.Paid(ahead)
		}
		for _, fb := range file {
			l.Paid(fb)
		}
		l.Advance(last + 1 + l.flights.awaiting.grid.TickLength())
		e := l.table.Evidence(policy.Item(d))
		if d > 2 { // how late payoffs are is known by then; a quarter is paid 1, the default is 0.25
			require.InDelta(t, 0.4375, e.Mean(), 0.05, "day %d", d)
			require.Greater(t, e.W, 200.0)
		}
	}
}

// delivering makes learners take it that all payoffs until far later have been delivered, so that silence counts up to their ticks.
func delivering(learners ...*Direct) {
	for _, l := range learners {
		l.flights.awaiting.newest, l.flights.awaiting.newer = 1<<50, true
	}
}

// While a partition has no owner, its payoffs are not read: unpaid selections count up to its tick and no further.
func TestDirect_UnpaidCountUpToTheEarliestTick(t *testing.T) {
	ours, theirs := NewDirect(policy.NewGreedy(), ageing(1<<20)), NewDirect(policy.NewGreedy(), ageing(1<<20))
	delivering(ours, theirs)
	for _, l := range []*Direct{ours, theirs} {
		l.Grow(pooledItems)
		l.Selected(Feedback{Item: 1, Began: 1 << 30})
		l.Advance(1<<30 + 1<<19)
	}
	store, gone := newStore(theirs), map[fieldOf]bool{}
	publish(ours, 1, store, gone)
	weights := func() []float64 { return []float64{ours.table.Evidence(1).W, ours.table.Evidence(otherNumber(1)).W} }
	ours.Advance(1<<30 + 1<<19 + 1<<12)
	require.InDeltaSlice(t, []float64{0.5, 0.5}, weights(), 0.45)
	ours.Advance(1 << 31)
	require.EqualValues(t, 1<<30+1<<19, ours.flights.awaiting.made.until)
	for _, w := range weights() { // ours are in longer blocks by now, of which less is known
		require.Less(t, w, 0.95)
	}
	theirs.Advance(1 << 31)
	publish(ours, 1, store, gone)
	ours.Advance(1<<31 + 1<<12)
	require.EqualValues(t, 1<<31, ours.flights.awaiting.made.until)
	require.Equal(t, []float64{1, 1}, weights())
}

// Unpaid selections count up to the end of the newest payoff's tick.
func TestDirect_UnpaidCountUpToTheNewestPayoff(t *testing.T) {
	l := NewDirect(policy.NewGreedy(), ageing(1<<20))
	l.Grow(2)
	tick := l.flights.awaiting.grid.TickLength()
	l.Advance(1 << 30)
	fb := Feedback{Item: 1, Began: 1<<30 - 3*tick, Age: tick + 1, Payoff: 1}
	l.Selected(fb)
	l.Paid(fb)
	l.Advance(1<<30 + tick)
	require.Equal(t, 1<<30-tick, l.flights.awaiting.made.until)
}

// A pool that has no record of a partition yet may have counted the unpaid up to a later tick than that partition's own. For it the
// pool counts up to the partition's tick only, and stores that.
func TestDirect_UnpaidCountUpToTheOwnTick(t *testing.T) {
	global, ours, theirs := NewDirect(policy.NewGreedy(), ageing(1<<20)), NewDirect(policy.NewGreedy(), ageing(1<<20)), NewDirect(policy.NewGreedy(), ageing(1<<20))
	delivering(ours, theirs)
	global.Grow(pooledItems)
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	ours.Share(global, 0, func(i policy.Item) policy.Item { return i })
	for _, l := range []*Direct{ours, theirs} {
		l.Grow(pooledItems)
		l.Selected(Feedback{Item: 1, Began: 1 << 30})
	}
	theirs.Advance(1 << 31)
	publish(global, 1, newStore(theirs), map[fieldOf]bool{})
	global.Estimate(global.Commit(pooledItems))
	require.EqualValues(t, 1<<31, global.flights.awaiting.made.until)
	taking := NewDirect(policy.NewGreedy(), ageing(1<<20))
	taking.Grow(pooledItems)
	_, err := taking.TakeEstimate(global.AppendEstimate(nil))
	require.NoError(t, err)
	require.Equal(t, global.flights.awaiting.made, taking.flights.awaiting.made, "without payoffs below the default")
	ours.Refresh(slices.Values(allItems(pooledItems)))
	ours.Advance(1<<30 + 1<<19) // half of the horizon: of those paid, half may still be
	come := func() float64 { return ours.flights.awaiting.ours(1)[0].Above }
	require.Less(t, come(), 0.95)
	require.Less(t, ours.flights.awaiting.elsewhere(otherNumber(1))[0].Above, 0.95)
	store := newStore(ours)
	for _, now := range []int64{1<<30 + 1<<19, 1<<30 + 1<<19 + 1<<14, 1 << 31} {
		ours.Advance(now)
		store.harvest()
		words := strings.Fields(store.hashes[HashLearner][fieldSilence])
		require.NotEmpty(t, words)
		require.Equal(t, words[0], words[1], "up to the pass, behind which the global learner is ahead")
	}
	require.Equal(t, 1.0, come())
}

// While a peer has no owner, the weight of a partition's recent selections does not fall, however many ticks it makes.
func TestDirect_WeightsDoNotFallWhileAPeerHasNoOwner(t *testing.T) {
	ours, theirs := NewDirect(policy.NewGreedy(), ageing(1<<20)), NewDirect(policy.NewGreedy(), ageing(1<<20))
	delivering(ours, theirs)
	for _, l := range []*Direct{ours, theirs} {
		l.Grow(pooledItems)
	}
	unit := ours.flights.awaiting.grid.Unit()
	now := int64(1 << 30)
	selects := func(units int64) {
		for range units {
			ours.Selected(Feedback{Item: 0, Began: now})
			now += unit
		}
		ours.Advance(now)
	}
	selects(40)
	theirs.Advance(now)
	publish(ours, 1, newStore(theirs), map[fieldOf]bool{})
	selects(4)
	weight := ours.table.Evidence(0).W
	require.Greater(t, weight, 0.5)
	for range 100 {
		selects(8)
		after := ours.table.Evidence(0).W
		require.GreaterOrEqual(t, after, 0.99*weight, "but for what the share paid is taken for")
		require.Less(t, after, 1.1*weight)
	}
	require.Equal(t, now-now%(4*unit), ours.flights.awaiting.tick)
	require.Less(t, ours.flights.awaiting.made.until, ours.flights.awaiting.tick-700*unit)
}

// Payoffs below the default are stored apart, with their delays. A loaded learner has the evidence of the stored one, to the last
// digit; one that takes it over has its counts.
func TestDirect_PayoffsBelowTheDefaultAreStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fresh := func() *Direct {
			d := NewDirect(policy.NewGreedy(), ageing(1<<20))
			d.Grow(pooledItems)
			return d
		}
		d, now := fresh(), int64(1<<30)
		store := newStore(d)
		for range rapid.IntRange(1, 40).Draw(t, "selections") {
			fb := Feedback{Item: rapid.Int32Range(0, pooledItems-1).Draw(t, "item"), Began: now}
			d.Selected(fb)
			now += rapid.Int64Range(0, 20_000).Draw(t, "ms")
			switch rapid.IntRange(0, 3).Draw(t, "end") {
			case 0:
				fb.Payoff, fb.Age = rapid.SampledFrom([]float64{0, 0.1, 0.25, 0.5, 1}).Draw(t, "payoff"), rapid.Int64Range(0, 1<<20).Draw(t, "age")
				d.Paid(fb)
			case 1:
				d.Advance(now)
				store.harvest()
			}
		}
		store.harvest()
		again := fresh()
		store.load(t, pooledItems, again)
		for i := range policy.Item(pooledItems) {
			require.Equal(t, d.table.Evidence(i), again.table.Evidence(i))
			require.Equal(t, d.flights.awaiting.settled.Own(i), again.flights.awaiting.settled.Own(i))
		}
		require.Equal(t, d.flights.awaiting.all, again.flights.awaiting.all)
		to := fresh()
		require.NoError(t, Merge(to, d, allItems(pooledItems), Portion{Additive: true}, func(policy.Item) {}))
		require.NoError(t, Merge(to, d, allItems(pooledItems), Portion{Additive: true}, func(policy.Item) {}))
		require.Equal(t, d.flights.awaiting.all.Add(d.flights.awaiting.all), to.flights.awaiting.all)
		d.Advance(now + 1<<25)
		to.Advance(now + 1<<25)
		require.Equal(t, d.flights.awaiting.made.below > 0, to.flights.awaiting.made.below > 0)
		require.InDelta(t, d.flights.awaiting.made.low, to.flights.awaiting.made.low, 1e-12)
	})
}

// Returns that come later than sales are expected while others like them are in flight. One selection in ten sells early, and one
// in ten costs as much late: the mean stays at the default at any time. Were both taken to be equally late, it would be far above.
func TestDirect_LaterPayoffsBelowTheDefaultAreExpected(t *testing.T) {
	const horizon = 1 << 22
	d := NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: 0.5, Horizon: horizon})
	d.Grow(1)
	type due struct {
		at int64
		fb Feedback
	}
	var payoffs []due
	for k := range int64(4000) {
		now := 1000 * k
		for len(payoffs) > 0 && payoffs[0].at <= now {
			fb := payoffs[0].fb
			fb.Age = now - fb.Began
			d.Paid(fb)
			payoffs = payoffs[1:]
		}
		d.Advance(now)
		fb := Feedback{Ref: k, Began: now}
		d.Selected(fb)
		switch k % 10 {
		case 0:
			fb.Payoff = 1
			payoffs = append(payoffs, due{now + 20_000, fb})
		case 5:
			payoffs = append(payoffs, due{now + 1_000_000, fb})
		}
		slices.SortStableFunc(payoffs, func(a, b due) int { return cmp.Compare(a.at, b.at) })
		if k > 2500 {
			e := d.table.Evidence(0)
			require.InDelta(t, 0.5, e.Mean(), 0.01, "after %d", k)
		}
	}
}

// A selection that was made before a reset of the learner, and is paid after it, takes one that it was not counted with out. None
// is left behind that would weigh for ever.
func TestDirect_NothingIsLeftBehindByWhatWasNotCounted(t *testing.T) {
	d := NewDirect(policy.NewGreedy(), ageing(1<<20))
	d.Grow(1)
	d.Advance(1 << 30)
	d.Selected(Feedback{Ref: 2, Began: 1 << 30})
	d.Paid(Feedback{Ref: 1, Began: 1 << 29, Payoff: 1, Age: 5000})
	d.Paid(Feedback{Ref: 2, Began: 1 << 30, Payoff: 1, Age: 5000})
	d.Advance(1 << 31)
	require.Equal(t, policy.Evidence{W: 2, R: 2, Q: 2}, d.table.Evidence(0))
	require.Empty(t, d.flights.awaiting.ours(0))
	require.Empty(t, d.flights.awaiting.every)
}

// Before event time is known, selections are new, however long ago they began.
func TestDirect_UnpaidCountOnceTimeIsKnown(t *testing.T) {
	for _, began := range []int64{-62_135_596_800_000, -1, 1_784_000_000_000} {
		d := NewDirect(policy.NewGreedy(), ageing(1<<20))
		d.Grow(1)
		delivering(d)
		d.Selected(Feedback{Began: began})
		require.Equal(t, policy.Evidence{Open: 1}, d.table.Evidence(0))
		d.Advance(began + 1<<19)
		half := d.table.Evidence(0).W
		require.True(t, half > 0.1 && half < 0.9, "%v", half)
		d.Advance(began + 1<<21)
		require.Equal(t, policy.Evidence{W: 1, R: 0.25, Q: 0.0625}, d.table.Evidence(0))
	}
}

// withSpans is a learner that awaits selections of one item that began in so many blocks, of which some were paid, at different
// ages.
func withSpans(s Silence, spans int) (d *Direct, now int64) {
	d = NewDirect(policy.NewGreedy(), s)
	d.Grow(30)
	unit := int64(1 << 20)
	if a := d.flights.awaiting; a != nil {
		unit = a.grid.Unit()
	}
	now = int64(spans) * unit
	for k := range int64(spans) {
		fb := Feedback{Item: 0, Began: k * unit} // blocks are as short as can be while event time is not known
		for range 3 {
			d.Selected(fb)
		}
		fb.Payoff, fb.Age = 1, k*s.Horizon/100
		d.Paid(fb)
	}
	if a := d.flights.awaiting; a != nil {
		a.made.until = now
		a.made.late[sideAbove] = inflight.Estimate(&a.grid, now+s.Horizon, 1, &a.ages[sideAbove])
		a.updateShares()
		a.made.share = inflight.Share(a.all, a.every)
	}
	return d, now
}

// Nothing is allocated for a selection, a payoff or a decision while event time stands still, however much is awaited.
func TestDirect_AgesAllocateNothing(t *testing.T) {
	for _, spans := range []int{0, 1, 10, 60, 61, -60} {
		law := ageing(1 << 24)
		law.Drift = float64(max(0, spans) % 10) // of the last but one
		d, now := withSpans(law, max(spans, -spans))
		if a := d.flights.awaiting; spans < 0 { // some payoffs are below the default
			a.made.below, a.made.late[sideBelow] = 0.3, a.made.late[sideAbove]
		}
		candidates := allItems(20)
		var decision Decision
		ref := int64(0)
		step := func() {
			ref++
			d.Decide(candidates, nil, policy.Key(ref), &decision)
			fb := Feedback{Ref: ref, Item: 0, Began: now - 1, Payoff: 0.5, Age: ref % 100_000}
			d.Selected(fb)
			fb.Defaulted = ref%2 == 0
			d.Paid(fb)
		}
		for range 200 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(200, step), "%d spans", spans)
	}
}

// A selection and its payoff, by law and by how many blocks have selections that are awaited. A payoff under SilenceAges is to be
// a microsecond dearer than under SilenceWaits at the most.
func BenchmarkDirect_Silence(b *testing.B) {
	for _, spans := range []int{1, 10, 60} {
		drifting := ageing(1 << 24)
		drifting.Drift = 0.5
		for _, s := range []Silence{{}, {Law: SilenceAtOnce}, ageing(1 << 24), drifting} {
			b.Run(fmt.Sprintf("%s, drift %v, %d spans", s.Law, s.Drift, spans), func(b *testing.B) {
				d, now := withSpans(s, spans)
				if a := d.flights.awaiting; a != nil {
					require.Len(b, a.ours(0), spans)
				}
				b.ReportAllocs()
				for ref := int64(0); b.Loop(); ref++ {
					fb := Feedback{Ref: ref, Item: 0, Began: now - 1, Payoff: 0.5, Age: ref % 100_000}
					d.Selected(fb)
					d.Paid(fb)
				}
			})
		}
	}
}
