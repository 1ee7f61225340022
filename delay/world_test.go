package delay

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// store is a Recorder that keeps its records, as a database would, and its last records, line by line.
type store struct {
	learner Learner
	sums    map[policy.Item]policy.Sums
	hashes  map[string]map[string]string
	log     []string
	known   bool // the global learner has read all harvests
}

// publish sets all that is stored and pooled in a global or another learner, by its numbers.
func (s *store) publish(to Learner, source int32, items Translate) {
	for i, sums := range s.sums {
		if n, known := items(i); known {
			to.SetSource(source, n, sums)
		}
	}
	for _, pooled := range to.Pooled() {
		for field, value := range s.hashes[pooled.Hash] {
			to.SetSourceField(source, pooled.Hash, []byte(field), []byte(value), items)
		}
	}
}

func newStore(l Learner) *store {
	s := &store{learner: l, sums: map[policy.Item]policy.Sums{}, hashes: map[string]map[string]string{}}
	for _, h := range l.Hashes() {
		s.hashes[h] = map[string]string{}
	}
	return s
}

func (s *store) Item(i policy.Item) {
	s.sums[i] = s.learner.Sums(i)
	s.log = append(s.log, fmt.Sprint(i, s.sums[i]))
}

func (s *store) Known() bool { return s.known }

func (s *store) Field(hash string, field, value []byte) {
	s.log = append(s.log, fmt.Sprintf("%s %s = %q (%t)", hash, field, value, value == nil))
	if value == nil {
		delete(s.hashes[hash], string(field))
		return
	}
	s.hashes[hash][string(field)] = string(value)
}

// harvest takes the learner's changes, and returns them line by line.
func (s *store) harvest() []string {
	s.log = nil
	s.learner.Harvest(s)
	return s.log
}

// load fills a new learner with the stored fields, in a random order.
func (s *store) load(t *rapid.T, items int, l Learner) {
	l.Grow(items)
	for i, sums := range s.sums {
		require.NoError(t, sums.Check())
		l.LoadSums(i, sums)
	}
	type field struct{ hash, name, value string }
	var fields []field
	for _, h := range slices.Sorted(maps.Keys(s.hashes)) {
		for _, name := range slices.Sorted(maps.Keys(s.hashes[h])) {
			fields = append(fields, field{h, name, s.hashes[h][name]})
		}
	}
	if len(fields) > 0 {
		for _, f := range rapid.Permutation(fields).Draw(t, "fields") {
			require.NoError(t, l.LoadField(f.hash, []byte(f.name), []byte(f.value)))
		}
	}
	require.NoError(t, l.Loaded())
}

// loadSorted fills a new learner likewise, its fields sorted.
func (s *store) loadSorted(t *testing.T, items int, l Learner) {
	t.Helper()
	l.Grow(items)
	for i, sums := range s.sums {
		l.LoadSums(i, sums)
	}
	for _, h := range slices.Sorted(maps.Keys(s.hashes)) {
		for _, name := range slices.Sorted(maps.Keys(s.hashes[h])) {
			require.NoError(t, l.LoadField(h, []byte(name), []byte(s.hashes[h][name])))
		}
	}
	require.NoError(t, l.Loaded())
}

// oracle is QPM-D by its definition, and slow: all payoffs are kept per item in the order of their arrival, and those fed are a
// prefix.
type oracle struct {
	base      policy.Policy
	items     int
	arrived   map[policy.Item][]float64
	fed       map[policy.Item]int
	inFlight  map[policy.Item]policy.Count
	onHold    bool
	holdItem  policy.Item
	holdRef   int64
	published map[[2]int32]policy.Sums // by source and item
}

func newOracle(base policy.Policy) *oracle {
	return &oracle{
		base: base, arrived: map[policy.Item][]float64{}, fed: map[policy.Item]int{}, inFlight: map[policy.Item]policy.Count{},
		published: map[[2]int32]policy.Sums{},
	}
}

func (o *oracle) selected(out Feedback) {
	o.inFlight[out.Item]++
	switch {
	case o.onHold:
	case len(o.arrived[out.Item]) > o.fed[out.Item]:
		o.fed[out.Item]++
	default:
		o.onHold, o.holdItem, o.holdRef = true, out.Item, out.Ref
	}
}

func (o *oracle) paid(out Feedback) {
	o.inFlight[out.Item]--
	o.arrived[out.Item] = append(o.arrived[out.Item], out.Payoff)
	if o.onHold && o.holdItem == out.Item {
		o.fed[out.Item]++
		o.endHold()
	}
}

func (o *oracle) expired(out Feedback) {
	o.inFlight[out.Item]--
	if o.onHold && o.holdRef == out.Ref {
		o.endHold()
	}
}

func (o *oracle) endHold() {
	o.onHold = false
}

func (o *oracle) sources(source int32, i policy.Item, s policy.Sums) {
	o.published[[2]int32{source, i}] = s
}

// pagesOf are numbers as policies want them.
// flying are selections in flight as an oracle says.
type flying struct{ policy.Pages[policy.Count] }

func (f *flying) Pooled(i policy.Item) policy.Count { return f.Get(i) }

func pagesOf(counts []policy.Count) *flying {
	all := &flying{}
	for i, n := range counts {
		*all.At(policy.Item(i)) = n
	}
	return all
}

func (o *oracle) sums(i policy.Item) policy.Sums {
	var s policy.Sums
	for _, payoff := range o.arrived[i][:o.fed[i]] {
		s.N++
		s.R += payoff
		s.Q += payoff * payoff
	}
	return s
}

func (o *oracle) table() *policy.Table {
	t := policy.NewTable(o.items)
	for i := range policy.Item(o.items) {
		t.Set(i, o.sums(i))
	}
	for at, s := range o.published {
		t.SetSource(at[0], at[1], s)
	}
	return t
}

func (o *oracle) flights() []policy.Count {
	f := make([]policy.Count, o.items)
	for i, n := range o.inFlight {
		f[i] = n
	}
	return f
}

func (o *oracle) decide(candidates []policy.Item, key policy.Key) []int32 {
	order := make([]int32, len(candidates))
	in := policy.Input{Items: candidates, Table: o.table(), InFlight: pagesOf(o.flights()), Key: key}
	o.base.Rank(&in, &policy.Workspace{}, order)
	return order
}

func (o *oracle) queued() (n int64) {
	for i, a := range o.arrived {
		n += int64(len(a) - o.fed[i])
	}
	return n
}

// step is one impression whose selection was a step of BASE.
type step struct {
	candidates []policy.Item
	key        policy.Key
	inFlight   []policy.Count
	order      []int32
	item       policy.Item
	ref        int64
	cancelled  bool
}

// world lets users and payoffs happen at random, to any number of learners in step, beside the oracle.
type world struct {
	learners []Learner
	oracle   *oracle
	ref      int64
	waiting  []Feedback // selections whose payoff has not come
	undrawn  []Feedback // impressions ranked and not yet selected from
	steps    []step
}

func basePolicy(t *rapid.T) policy.Policy {
	e, err := policy.NewElimination(policy.Confidence{
		Radius: rapid.SampledFrom([]policy.Radius{policy.Subgaussian, policy.Paper}).Draw(t, "radius"),
		Sigma:  rapid.SampledFrom([]float64{1e-6, 0.05, 0.5}).Draw(t, "sigma"), AutoDelta: true})
	require.NoError(t, err)
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	moss, err := policy.NewMOSS(belief)
	require.NoError(t, err)
	thompson, err := policy.NewThompson(belief)
	require.NoError(t, err)
	optimistic, err := policy.NewOptimistic(policy.Belief{Sigma: 0.2})
	require.NoError(t, err)
	return rapid.SampledFrom([]policy.Policy{e, moss, optimistic, thompson, policy.NewGreedy(), policy.NewUtility()}).Draw(t, "policy")
}

func newWorld(t *rapid.T, base policy.Policy, i instead) *world {
	w := &world{oracle: newOracle(base), learners: []Learner{i(NewQPMD(base))}}
	w.grow(rapid.IntRange(1, 6).Draw(t, "items"))
	return w
}

func (w *world) grow(items int) {
	w.oracle.items = items
	for _, l := range w.learners {
		l.Grow(items)
	}
}

// decide ranks candidates, has a user draw a window and select.
func (w *world) decide(t *rapid.T) Feedback {
	all := make([]policy.Item, w.oracle.items)
	for i := range all {
		all[i] = policy.Item(i)
	}
	n := rapid.IntRange(1, len(all)).Draw(t, "candidates")
	candidates := rapid.Permutation(all).Draw(t, "utilities")[:n]
	key := policy.Key(rapid.Uint64().Draw(t, "key"))
	want := w.oracle.decide(candidates, key)
	for _, l := range w.learners {
		d := Decision{Propensities: []float64{1}, Explored: true}
		l.Decide(candidates, nil, key, &d)
		require.Equal(t, Decision{Order: want, Propensities: []float64{}, Instance: -1}, d)
		l.Adopt(w.ref, &d)
	}
	w.ref++
	item := candidates[policytest.Select(want, rapid.IntRange(1, n).Draw(t, "window"))]
	out := Feedback{Ref: w.ref, Item: item}
	w.steps = append(w.steps, step{candidates: candidates, key: key, inFlight: w.oracle.flights(), order: want, item: item, ref: w.ref})
	return out
}

func (w *world) selected(out Feedback) {
	w.oracle.selected(out)
	for _, l := range w.learners {
		l.Selected(out)
	}
	w.waiting = append(w.waiting, out)
}

// actions are the possible events; several of a kind make it likelier.
func (w *world) actions() map[string]func(*rapid.T) {
	pick := func(t *rapid.T, from *[]Feedback) Feedback {
		if len(*from) == 0 {
			t.Skip("nothing there")
		}
		k := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
		out := (*from)[k]
		*from = slices.Delete(*from, k, k+1)
		return out
	}
	paid := func(t *rapid.T) {
		out := pick(t, &w.waiting)
		out.Payoff = rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1)).Draw(t, "payoff")
		w.oracle.paid(out)
		for _, l := range w.learners {
			l.Paid(out)
		}
	}
	atOnce := func(t *rapid.T) {
		before := w.oracle.onHold
		out := w.decide(t)
		w.selected(out)
		if before { // no step of BASE
			w.steps = w.steps[:len(w.steps)-1]
		}
	}
	return map[string]func(*rapid.T){
		"select at once":       atOnce,
		"select at once again": atOnce,
		"paid":                 paid,
		"paid again":           paid,
		"expired": func(t *rapid.T) {
			out := pick(t, &w.waiting)
			if w.oracle.onHold && w.oracle.holdRef == out.Ref {
				for k := range w.steps {
					w.steps[k].cancelled = w.steps[k].cancelled || w.steps[k].ref == out.Ref
				}
			}
			w.oracle.expired(out)
			for _, l := range w.learners {
				l.Expired(out)
			}
		},
		"": func(t *rapid.T) {
			for _, l := range w.learners {
				for i := range policy.Item(w.oracle.items) {
					require.Equal(t, w.oracle.sums(i), l.Sums(i), "item %d", i)
				}
				s := l.Status()
				require.Equal(t, w.oracle.onHold, s.OnHold)
				require.Equal(t, w.oracle.queued(), s.Queued)
				require.EqualValues(t, len(w.waiting), s.Flights)
				require.Equal(t, w.oracle.table().Fed(), s.Fed)
				if s.OnHold {
					require.Equal(t, w.oracle.holdItem, s.Item)
				}
			}
		},
	}
}

// moreActions are those under which BASE's steps differ from those without delay: selections that come later than decisions, other
// sources, new items.
func (w *world) moreActions() map[string]func(*rapid.T) {
	a := w.actions()
	a["decide"] = func(t *rapid.T) { w.undrawn = append(w.undrawn, w.decide(t)) }
	a["select later"] = func(t *rapid.T) {
		if len(w.undrawn) == 0 {
			t.Skip("nothing there")
		}
		w.selected(w.undrawn[0])
		w.undrawn = w.undrawn[1:]
	}
	a["unselected"] = func(t *rapid.T) {
		if len(w.undrawn) == 0 {
			t.Skip("nothing there")
		}
		for _, l := range w.learners {
			l.Unselected(w.undrawn[0])
		}
		w.undrawn = w.undrawn[1:]
	}
	a["source"] = func(t *rapid.T) { // between steps; TestQPMD_AHoldStaysAtItsEpoch has them in holds
		if w.oracle.onHold {
			t.Skip("on hold")
		}
		source := rapid.Int32Range(0, 3).Draw(t, "source")
		item := policy.Item(rapid.IntRange(0, w.oracle.items-1).Draw(t, "item"))
		n := rapid.Int64Range(1, 20).Draw(t, "N")
		r := rapid.Float64Range(0, 1).Draw(t, "mean") * float64(n)
		s := policy.Sums{N: n, R: r, Q: r}
		w.oracle.sources(source, item, s)
		for _, l := range w.learners {
			l.SetSource(source, item, s)
		}
	}
	a["grow"] = func(t *rapid.T) {
		if w.oracle.items > 8 {
			t.Skip("enough")
		}
		w.grow(w.oracle.items + 1)
	}
	return a
}
