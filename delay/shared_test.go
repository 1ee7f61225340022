package delay

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// sharing is a group of learners that share a pool, in which each is a source with its own numbers. Beside it is one learner that
// receives every event of any of them. Beside each part is a twin that shares nothing and receives the others' published records.
type sharing struct {
	kind   kind
	global Learner
	parts  []*part
	all    Learner
	now    int64
	undone []sharedSelection
	ref    int64
	turns  int // publications
}

type part struct {
	source  int32
	numbers []policy.Item // of the global learner's items, by our number
	learner Learner
	store   *store
	twin    Learner
	stored  map[fieldOf]string // as published last

	published bool // since the learner was made
}

type sharedSelection struct {
	Feedback
	by int
}

const sharedItems = 6

func newSharing(t *rapid.T, k kind) *sharing {
	w := &sharing{kind: k, global: k.make(t), all: k.make(t), now: 1 << 40}
	w.all.Grow(sharedItems)
	w.global.Grow(sharedItems)
	w.global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for source := range int32(3) {
		p := &part{source: source, numbers: rapid.Permutation(allItems(sharedItems)).Draw(t, "numbers"), stored: map[fieldOf]string{}}
		p.join(t, w, newStore)
		require.NoError(t, p.learner.Loaded())
		p.twin = k.make(t)
		p.twin.Grow(sharedItems)
		w.parts = append(w.parts, p)
	}
	return w
}

// join makes the part's learner.
func (p *part) join(t require.TestingT, w *sharing, remember func(Learner) *store) {
	p.learner = w.kind.make(t)
	p.learner.Share(w.global, p.source, func(i policy.Item) policy.Item { return p.numbers[i] })
	p.learner.Grow(sharedItems)
	p.store = remember(p.learner)
}

func (p *part) number(global policy.Item) policy.Item {
	return policy.Item(slices.Index(p.numbers, global))
}

// categorise gives an item's category to all.
func (w *sharing) categorise(i policy.Item, name string) {
	w.all.Categorise(i, name)
	for _, p := range w.parts {
		p.learner.Categorise(p.number(i), name)
		p.twin.Categorise(p.number(i), name)
	}
}

// again is another pool that receives at once all records published by the parts.
func (w *sharing) again(t *rapid.T) Learner {
	l := w.kind.make(t)
	l.Grow(sharedItems)
	l.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for _, at := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order") {
		p := w.parts[at]
		l.BeginResync(p.source)
		for i, sums := range p.store.sums {
			l.SetSource(p.source, p.numbers[i], sums)
		}
		for of, value := range p.stored {
			l.SetSourceField(p.source, of.hash, []byte(of.field), []byte(value), func(i policy.Item) (policy.Item, bool) { return p.numbers[i], true })
		}
		l.EndResync(p.source, func(string, policy.Item) bool { return true })
	}
	return l
}

// each lets something happen to a part's learner, its twin and the one to which all happens.
func (w *sharing) each(by int, fb Feedback, do func(Learner, Feedback)) {
	do(w.all, fb)
	p := w.parts[by]
	fb.Item, fb.Candidates = p.number(fb.Item), slices.Clone(fb.Candidates)
	for k, i := range fb.Candidates {
		fb.Candidates[k] = p.number(i)
	}
	do(p.learner, fb)
	do(p.twin, fb)
}

// publish gives the pool and the others' twins a part's records since the last time, or all of them.
func (w *sharing) publish(p *part, complete bool) {
	w.turns++
	p.store.known = p.published && w.turns%3 != 0
	p.store.harvest()
	p.published = true
	if complete {
		w.global.BeginResync(p.source)
	}
	theirs := func(i policy.Item) (policy.Item, bool) { return p.numbers[i], true }
	set := func(hash, field string, value []byte) {
		w.global.SetSourceField(p.source, hash, []byte(field), value, theirs)
		for _, o := range w.parts {
			if o != p {
				o.twin.SetSourceField(p.source, hash, []byte(field), value, func(i policy.Item) (policy.Item, bool) { return o.number(p.numbers[i]), true })
			}
		}
	}
	for i, sums := range p.store.sums {
		w.global.SetSource(p.source, p.numbers[i], sums)
		for _, o := range w.parts {
			if o != p {
				o.twin.SetSource(p.source, o.number(p.numbers[i]), sums)
			}
		}
	}
	before := p.stored
	p.stored = map[fieldOf]string{}
	for _, pooled := range p.learner.Pooled() {
		for field, value := range p.store.hashes[pooled.Hash] {
			p.stored[fieldOf{p.source, pooled.Hash, field}] = value
			set(pooled.Hash, field, []byte(value))
		}
	}
	for at := range before {
		if _, there := p.stored[at]; !there && !complete {
			set(at.hash, at.field, nil)
		} else if !there { // the whole finds out by itself, the twins cannot
			for _, o := range w.parts {
				if o != p {
					o.twin.SetSourceField(p.source, at.hash, []byte(at.field), nil, func(i policy.Item) (policy.Item, bool) { return o.number(p.numbers[i]), true })
				}
			}
		}
	}
	if complete {
		w.global.EndResync(p.source, func(hash string, i policy.Item) bool {
			_, stored := p.stored[fieldOf{p.source, hash, fmt.Sprint(p.number(i))}]
			return stored
		})
	}
}

// sync publishes all, and ends the epoch.
func (w *sharing) sync(t *rapid.T) {
	for _, p := range w.parts {
		w.publish(p, rapid.IntRange(0, 3).Draw(t, "whole") == 0)
	}
	w.readTicks()
}

func (w *sharing) readTicks() {
	w.global.Estimate(w.global.Commit(sharedItems))
	for _, p := range w.parts {
		p.learner.Refresh(slices.Values(allItems(sharedItems)))
	}
}

// reload replaces a part's learner by one loaded from its store.
func (w *sharing) reload(t *rapid.T, p *part) {
	from, before := p.store, p.learner
	from.known = false
	from.harvest()
	p.published = false
	p.join(t, w, newStore)
	from.load(t, sharedItems, p.learner)
	p.learner.Refresh(slices.Values(allItems(sharedItems)))
	require.Empty(t, p.store.harvest(), "what was loaded needs no writing")
	p.store.sums, p.store.hashes = from.sums, from.hashes
	for i := range policy.Item(sharedItems) {
		x, y := before.Evidence(i), p.learner.Evidence(i)
		require.InDeltaSlice(t, []float64{x.W, x.R, x.Q, x.Open}, []float64{y.W, y.R, y.Q, y.Open}, 1e-9, "item %d", i)
	}
	if before := baseOf(before); before.contexts != nil {
		same := func(i policy.Item) policy.Item { return i }
		require.Equal(t, knownBy(t, before, same), knownBy(t, baseOf(p.learner), same), "one that begins knows the same")
	}
	if before, ok := before.(*Robust); ok {
		for i := range policy.Item(sharedItems) {
			x, y := *before.reading(i), *p.learner.(*Robust).reading(i)
			require.InDeltaSlice(t, []float64{x.Mean, x.Worth, x.Chances}, []float64{y.Mean, y.Worth, y.Chances}, 1e-9, "item %d", i)
		}
	}
}

// requireFresh: each item that differs from the pool's is fresh, without a Refresh that lists it. Else decisions depend on when that comes.
func (p *part) requireFresh(t *rapid.T) {
	d, differing := baseOf(p.learner), 0
	for i := range policy.Item(sharedItems) {
		if d.differs(i) {
			differing++
		}
	}
	require.GreaterOrEqual(t, d.table.Fresh(), differing)
}

// requireAlike wants of two learners the same evidence and sums, but for rounding. numbers are b's, by a's.
func requireAlike(t *rapid.T, a, b Learner, number func(policy.Item) policy.Item) {
	for i := range policy.Item(sharedItems) {
		x, y := a.Evidence(i), b.Evidence(number(i))
		if _, ok := a.(*Robust); ok { // it weighs selections in flight at ticks, which are not the same
			require.InDelta(t, x.W+x.Open, y.W+y.Open, 1e-4, "item %d: %+v, %+v", i, x, y)
			x, y = baseOf(a).Evidence(i), baseOf(b).Evidence(number(i))
		}
		for _, pair := range [][2]float64{{x.W, y.W}, {x.R, y.R}, {x.Q, y.Q}, {x.Open, y.Open}} {
			require.InDelta(t, pair[0], pair[1], 1e-4, "item %d: %+v, %+v", i, x, y)
		}
		ta, tb := baseOf(a), baseOf(b)
		require.Equal(t, ta.table.Pooled(i).N, tb.table.Pooled(number(i)).N)
		if ta.flights.pooled {
			require.Equal(t, ta.flights.Pooled(i), tb.flights.Pooled(number(i)))
		}
	}
	ta, tb := baseOf(a), baseOf(b)
	if ra, ok := a.(*Robust); ok {
		requireRows(t, ra, b.(*Robust), number)
	}
	require.Equal(t, ta.table.Fed(), tb.table.Fed())
	require.Equal(t, ta.table.Len(), tb.table.Len())
	require.InDelta(t, ta.table.Weight(), tb.table.Weight(), 1e-4)
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	ca, cb := belief.Components(ta.table), belief.Components(tb.table)
	for _, pair := range [][2]float64{{ca.Mean, cb.Mean}, {ca.Sigma, cb.Sigma}, {ca.Tau, cb.Tau}} {
		require.InDelta(t, pair[0], pair[1], 1e-3*(1+math.Abs(pair[0])), "%+v, %+v", ca, cb)
	}
	if x, y := ta.attraction, tb.attraction; x != nil {
		for i := range policy.Item(sharedItems) {
			require.Equal(t, x.table.Evidence(i), y.table.Evidence(number(i)))
		}
		require.Equal(t, x.status(ta.table.Mean()), y.status(tb.table.Mean()))
		require.Equal(t, belief.Components(x.table), belief.Components(y.table))
	}
	if ta.contexts == nil {
		return
	}
	require.NoError(t, tb.contexts.model.Load(ta.contexts.model.Append(nil))) // when variances are learned is not the same
	theirs := knownBy(t, tb, number)
	for i, known := range knownBy(t, ta, func(i policy.Item) policy.Item { return i }) {
		require.InDeltaSlice(t, theirs[i], known, 1e-4, "item %d", i)
	}
}

// requireRows wants of two learners the same rows of items, as of the later tick: to the last bit.
func requireRows(t *rapid.T, a, b *Robust, number func(policy.Item) policy.Item) {
	tick := max(a.levels.tick, b.levels.tick)
	for i := range policy.Item(sharedItems) {
		x, y := a.items.Pooled(i).Rows(nil), b.items.Pooled(number(i)).Rows(nil)
		x.Merge(&a.grid, tick)
		y.Merge(&a.grid, tick)
		require.Equal(t, string(x.Append(nil)), string(y.Append(nil)), "item %d", i)
	}
}

func baseOf(l Learner) *base {
	switch l := l.(type) {
	case *Direct:
		return &l.base
	case *Robust:
		return &l.base
	}
	return nil
}

// drawRanking draws an impression's candidates and their order.
func drawRanking(t *rapid.T) (candidates []policy.Item, order []int32) {
	return rapid.Permutation(allItems(sharedItems)).Draw(t, "candidates"), rapid.Permutation(allItems(sharedItems)).Draw(t, "order")
}

// knownBy is the estimate of each item, in each segment, with some features: the mean, and its worth in payoffs.
func knownBy(t *rapid.T, d *base, number func(policy.Item) policy.Item) (all [][]float64) {
	for i := range policy.Item(sharedItems) {
		var of []float64
		for segment := range d.contexts.segments {
			about := policy.Context{Segment: segment, X: randomRow(policy.Key(i), 0)}
			d.in.Items, d.in.Context = []policy.Item{number(i)}, &about
			known := d.contexts.know(d.table, &d.in).Candidates[0]
			of = append(of, known.Mean, known.Weight)
		}
		all = append(all, of)
	}
	return all
}

// requireSame wants of two wholes that they know the same, bit for bit.
func requireSame(t *rapid.T, one, other Learner) {
	a, b := baseOf(one), baseOf(other)
	if a.contexts != nil {
		b.contexts.looked = a.contexts.looked // a new one searches for a change from its first fit on
	}
	require.Equal(t, string(one.AppendEstimate(nil)), string(other.AppendEstimate(nil)))
	for i := range policy.Item(sharedItems) {
		require.Equal(t, a.Evidence(i), b.Evidence(i))
	}
	if a.contexts == nil {
		return
	}
	require.Equal(t, a.contexts.model.Total, b.contexts.model.Total)
	same := func(i policy.Item) policy.Item { return i }
	require.Equal(t, knownBy(t, a, same), knownBy(t, b, same))
	for i := range policy.Item(sharedItems) {
		require.Equal(t, a.contexts.categories.name(i), b.contexts.categories.name(i))
	}
}

// Once all records are exchanged, parts of a pool have the knowledge of a learner that had every event. Before that, they have that
// of one that received the same records itself. A part keeps none of the pool's evidence.
func TestSharing_IsOneKnowledge(t *testing.T) {
	tried := 0
	for _, k := range kinds() {
		if baseOf(k.make(t)) == nil {
			continue
		}
		tried++
		t.Run(k.name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testSharing(t, k) }) })
	}
	require.GreaterOrEqual(t, tried, 17)
}

func testSharing(t *rapid.T, k kind) {
	w := newSharing(t, k)
	silence := baseOf(w.all).flights.silence
	byTick := silence.Law == SilenceAges || silence.Drift > 0 // values estimated at a tick: a twin has them of the records that it had before
	inParts := silence.InParts
	// With features, a pool estimates at other times, too.
	late := baseOf(w.all).contexts != nil && silence.Law == SilenceAges
	tick := func() int64 {
		if a := baseOf(w.all).flights.awaiting; a != nil {
			return a.tick
		}
		return 0
	}
	payoff := rapid.SampledFrom([]float64{0, 0.125, 0.5, 1})
	take := func(t *rapid.T) (s sharedSelection) {
		if len(w.undone) == 0 {
			t.Skip("nothing there")
		}
		at := rapid.IntRange(0, len(w.undone)-1).Draw(t, "which")
		s = w.undone[at]
		w.undone = slices.Delete(w.undone, at, at+1)
		return s
	}
	synced, forced := false, false
	changed := func(do func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			do(t)
			synced = false
		}
	}
	actions := map[string]func(*rapid.T){
		"select": changed(func(t *rapid.T) {
			w.ref++
			s := sharedSelection{Feedback{Ref: w.ref, Item: rapid.Int32Range(0, sharedItems-1).Draw(t, "item"), Began: w.now,
				Propensity: 0.25, Expected: 0.5, HasExpected: w.ref%4 > 0, X: randomRow(policy.Key(w.ref), 0), Segment: rapid.Int32Range(0, 2).Draw(t, "segment")}, rapid.IntRange(0, 2).Draw(t, "by")}
			s.Candidates, s.Order = drawRanking(t)
			w.each(s.by, s.Feedback, Learner.Selected)
			w.undone = append(w.undone, s)
		}),
		"leave": changed(func(t *rapid.T) {
			var fb Feedback
			fb.Candidates, fb.Order = drawRanking(t)
			w.each(rapid.IntRange(0, 2).Draw(t, "by"), fb, Learner.Unselected)
		}),
		"pay": changed(func(t *rapid.T) {
			s := take(t)
			s.Payoff, s.Age = payoff.Draw(t, "payoff"), w.now-s.Began
			w.each(s.by, s.Feedback, Learner.Paid)
		}),
		"end": changed(func(t *rapid.T) {
			s := take(t)
			s.Defaulted, s.Payoff = true, silence.Default
			w.each(s.by, s.Feedback, Learner.Paid)
		}),
		"drop": changed(func(t *rapid.T) {
			s := take(t)
			w.each(s.by, s.Feedback, Learner.Expired)
		}),
		"advance": func(t *rapid.T) {
			w.sync(t)
			before := tick()
			w.now += rapid.Int64Range(0, lifeHorizon/2).Draw(t, "by")
			w.all.Advance(w.now)
			for _, p := range w.parts {
				p.learner.Advance(w.now)
				p.twin.Advance(w.now)
			}
			if synced = false; rapid.IntRange(0, 2).Draw(t, "alone") == 0 {
				forced = byTick
				return // nobody hears of it yet
			}
			w.sync(t)
			forced = forced && tick() == before
			synced = !forced && (!late || tick() > before)
		},
		"publish": func(t *rapid.T) {
			w.publish(w.parts[rapid.IntRange(0, 2).Draw(t, "of")], rapid.Bool().Draw(t, "whole"))
			w.readTicks()
		},
		"sync": func(t *rapid.T) {
			w.sync(t)
			synced = !late && !forced
		},
		"again": func(t *rapid.T) {
			w.sync(t)
			forced, synced = byTick, false // one to which all has happened has not estimated now
			again := w.again(t)
			for _, l := range []Learner{w.global, again} {
				l.Commit(sharedItems)
				require.Equal(t, l.Makes(), l.Estimate(l.Makes()))
			}
			requireSame(t, w.global, again)
			for _, p := range w.parts {
				p.learner.Refresh(slices.Values(allItems(sharedItems)))
			}
		},
		"reload": func(t *rapid.T) { w.reload(t, w.parts[rapid.IntRange(0, 2).Draw(t, "of")]) },
		"": func(t *rapid.T) {
			for _, p := range w.parts {
				p.requireFresh(t)
				if !byTick {
					requireAlike(t, p.learner, p.twin, func(i policy.Item) policy.Item { return i })
				}
				if synced {
					requireAlike(t, p.learner, w.all, func(i policy.Item) policy.Item { return p.numbers[i] })
					require.Zero(t, baseOf(p.learner).table.Fresh())
				}
			}
		},
	}
	if u := baseOf(w.all).contexts; u != nil && u.categories.look {
		actions["categorise"] = func(t *rapid.T) {
			w.categorise(rapid.Int32Range(0, sharedItems-1).Draw(t, "item"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "category"))
			w.sync(t)
		}
	}
	if inParts {
		actions["part"] = changed(func(t *rapid.T) {
			s := take(t)
			s.Payoff, s.Age = payoff.Draw(t, "payoff"), w.now-s.Began
			w.each(s.by, s.Feedback, Learner.Partial)
			s.Before, s.InParts = s.Payoff, true
			w.undone = append(w.undone, s)
		})
	}
	t.Repeat(actions)
}

// TestSharing_ReadsLeaveTheGlobalLearner: partitions that decide side by side set nothing in the global learner's selections in flight, not
// even to the value that they have.
func TestSharing_ReadsLeaveTheGlobalLearner(t *testing.T) {
	tried := 0
	for _, k := range kinds() {
		if l := baseOf(k.make(t)); l == nil || l.flights.awaiting == nil {
			continue
		}
		tried++
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newSharing(t, k)
				for i := range policy.Item(sharedItems) {
					w.ref++
					fb := Feedback{Ref: w.ref, Item: i, Began: w.now, Propensity: 0.25, X: randomRow(policy.Key(i), 0)}
					fb.Candidates, fb.Order = drawRanking(t)
					w.each(rapid.IntRange(0, 2).Draw(t, "by"), fb, Learner.Selected)
				}
				w.sync(t)
				const mark = -1 // no computation sets it
				flights := func(check bool) {
					for i := range policy.Item(sharedItems) {
						spans := baseOf(w.global).flights.Others(i).Spans
						require.NotEmpty(t, spans)
						for n := range spans {
							if check {
								require.EqualValues(t, mark, spans[n].Above, "item %d", i)
							}
							spans[n].Above = mark
						}
					}
				}
				flights(false)
				for _, p := range w.parts {
					about := policy.Context{X: randomRow(0, 0)}
					p.learner.Decide(allItems(sharedItems), &about, 1, &Decision{})
					p.learner.Status()
					for i := range policy.Item(sharedItems) {
						p.learner.Evidence(i)
					}
					flights(true)
				}
			})
		})
	}
	require.GreaterOrEqual(t, tried, 5)
}
