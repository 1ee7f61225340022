package delay

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// fieldOf names a pooled field of another source.
type fieldOf struct {
	source      int32
	hash, field string
}

// life applies random users, payoffs, other partitions and restarts to two learners. The first is never restarted; the second is
// loaded from the first's store.
type life struct {
	kind     kind
	learners []Learner
	stores   []*store
	items    int
	ref, now int64
	undrawn  []Feedback // ranked, nothing selected yet
	waiting  []Feedback // selected, not paid yet
	frozen   map[[2]int32]policy.Sums
	newest   map[[2]int32]policy.Sums
	fields   map[fieldOf]string
}

const (
	sources     = 3       // other partitions
	known       = 5       // items that they know
	lifeHorizon = 200_000 // ms
)

func newLife(t *rapid.T, k kind) *life {
	l := k.make(t)
	w := &life{kind: k, learners: []Learner{l}, stores: []*store{newStore(l)}, items: known,
		newest: map[[2]int32]policy.Sums{}, fields: map[fieldOf]string{}}
	l.Grow(known)
	for source := range int32(sources) { // a loaded hold's sums of sources that it has not met are another matter
		for i := range policy.Item(known) {
			w.newest[[2]int32{source, i}] = policy.Sums{N: 1, R: 0.5, Q: 0.25}
			l.SetSource(source, i, policy.Sums{N: 1, R: 0.5, Q: 0.25})
		}
	}
	w.frozen = maps.Clone(w.newest)
	return w
}

// each applies something to all learners, and notes which sums of others they may have then.
func (w *life) each(do func(Learner)) {
	for _, l := range w.learners {
		do(l)
	}
	if !w.learners[0].Status().OnHold {
		w.frozen = maps.Clone(w.newest)
	}
}

func (w *life) decide(t *rapid.T) Feedback {
	n := rapid.IntRange(1, w.items).Draw(t, "candidates")
	candidates := rapid.Permutation(allItems(w.items)).Draw(t, "utilities")[:n]
	key := policy.Key(rapid.Uint64().Draw(t, "key"))
	w.ref++
	var first Decision
	for k, l := range w.learners {
		d := Decision{Order: []int32{9}, Propensities: []float64{1}, Expected: []float64{1}, Explored: true, Instance: 7}
		l.Decide(candidates, contextOf(l, key, n), key, &d)
		if k == 0 {
			first = d
			requireDecision(t, &d, n)
			continue
		}
		require.Equal(t, first, d)
	}
	selected := policytest.Select(first.Order, rapid.IntRange(1, n).Draw(t, "window"))
	if rapid.Bool().Draw(t, "noise") {
		selected = first.Order[rapid.IntRange(0, n-1).Draw(t, "selected")]
	}
	fb := feedback(w.ref, candidates, &first, selected)
	fb.X, fb.Segment = rowOf(w.learners[0], key, candidates, fb.Item), segmentOf(key)
	fb.Began, fb.Horizon = w.now+rapid.Int64Range(-100, 100).Draw(t, "began"), lifeHorizon
	if rapid.IntRange(0, 50).Draw(t, "horizon") == 0 { // a former one
		fb.Horizon /= 2
	}
	return fb
}

// requireDecision wants a permutation, and propensities that are a distribution or none.
func requireDecision(t require.TestingT, d *Decision, n int) {
	sorted := slices.Sorted(slices.Values(d.Order))
	require.Equal(t, allItems(n), sorted)
	requireExpected(t, d, n)
	if len(d.Propensities) == 0 {
		require.False(t, d.Explored)
		return
	}
	require.Len(t, d.Propensities, n)
	var sum float64
	for _, p := range d.Propensities {
		require.True(t, p >= 0, "%v", d.Propensities)
		sum += p
	}
	require.InDelta(t, 1, sum, 1e-12)
}

// requireExpected wants, of each item or of none, a multiple of 10⁻⁶ that can be recorded.
func requireExpected(t require.TestingT, d *Decision, n int) {
	require.Contains(t, []int{0, n}, len(d.Expected))
	for _, x := range d.Expected {
		require.True(t, math.Abs(x) <= 1e6 && x == math.Round(x*1e6)/1e6, "%v", d.Expected)
	}
}

func takeOne(t *rapid.T, from *[]Feedback) Feedback {
	if len(*from) == 0 {
		t.Skip("nothing there")
	}
	k := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	fb := (*from)[k]
	*from = slices.Delete(*from, k, k+1)
	return fb
}

func (w *life) selected(fb Feedback) {
	w.each(func(l Learner) { l.Selected(fb) })
	w.waiting = append(w.waiting, fb)
}

func (w *life) harvest(t *rapid.T) {
	want := w.stores[0].harvest()
	for _, s := range w.stores[1:] {
		require.Equal(t, want, s.harvest())
		require.Equal(t, w.stores[0].hashes, s.hashes)
	}
	for _, s := range w.stores {
		require.Empty(t, s.harvest(), "what is stored is not written again")
	}
}

func (w *life) reload(t *rapid.T) {
	w.harvest(t)
	loaded := w.kind.make(t)
	s := newStore(loaded)
	w.stores[0].load(t, w.items, loaded)
	require.Empty(t, s.harvest(), "what was loaded needs no writing")
	// Other sources' sums come again. Those that a hold is frozen with are not stored, but the first sums of a source and item
	// replace them.
	for _, sums := range []map[[2]int32]policy.Sums{w.frozen, w.newest} {
		for at, s := range sums {
			loaded.SetSource(at[0], at[1], s)
		}
	}
	for at, value := range w.fields {
		loaded.SetSourceField(at.source, at.hash, []byte(at.field), []byte(value), theirsAreOurs)
	}
	s.sums, s.hashes = maps.Clone(w.stores[0].sums), map[string]map[string]string{}
	for h, fields := range w.stores[0].hashes {
		s.hashes[h] = maps.Clone(fields)
	}
	w.learners, w.stores = []Learner{w.learners[0], loaded}, []*store{w.stores[0], s}
}

func (w *life) actions() map[string]func(*rapid.T) {
	atOnce := func(t *rapid.T) { w.selected(w.decide(t)) }
	payoff := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1))
	part := func(t *rapid.T) {
		fb := takeOne(t, &w.waiting)
		fb.Payoff, fb.Age = payoff.Draw(t, "payoff"), max(0, w.now-fb.Began)
		w.each(func(l Learner) { l.Partial(fb) })
		fb.Before, fb.InParts = fb.Payoff, true
		w.waiting = append(w.waiting, fb)
	}
	paid := func(t *rapid.T) {
		fb := takeOne(t, &w.waiting)
		fb.Payoff = payoff.Draw(t, "payoff")
		fb.Age, fb.Defaulted = max(0, w.now-fb.Began), rapid.IntRange(0, 2).Draw(t, "defaulted") == 0
		w.each(func(l Learner) { l.Paid(fb) })
	}
	return map[string]func(*rapid.T){
		"select at once": atOnce, "select at once again": atOnce, "paid": paid, "paid again": paid,
		"part": part, "part again": part,
		"decide":       func(t *rapid.T) { w.undrawn = append(w.undrawn, w.decide(t)) },
		"select later": func(t *rapid.T) { w.selected(takeOne(t, &w.undrawn)) },
		"unselected": func(t *rapid.T) {
			fb := takeOne(t, &w.undrawn)
			w.each(func(l Learner) { l.Unselected(fb) })
		},
		"expired": func(t *rapid.T) {
			fb := takeOne(t, &w.waiting)
			w.each(func(l Learner) { l.Expired(fb) })
		},
		"adopt":        w.adopt,
		"source":       w.sources,
		"source field": w.sourceField,
		"advance": func(t *rapid.T) {
			w.now += rapid.OneOf(rapid.Int64Range(0, 1500), rapid.Int64Range(0, 60_000)).Draw(t, "ms")
			w.each(func(l Learner) { l.Advance(w.now) })
		},
		"grow": func(t *rapid.T) {
			if w.items < 40 {
				w.items += rapid.IntRange(1, 9).Draw(t, "more")
				w.each(func(l Learner) { l.Grow(w.items) })
			}
		},
		"categorise": func(t *rapid.T) {
			i, name := rapid.Int32Range(0, int32(w.items)-1).Draw(t, "item"), rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "category")
			w.each(func(l Learner) { l.Categorise(i, name) })
		},
		"harvest": w.harvest, "reload": w.reload, "": w.check,
	}
}

// adopt takes over a decision of an earlier owner, which may have been configured otherwise.
func (w *life) adopt(t *rapid.T) {
	n := rapid.IntRange(1, w.items).Draw(t, "candidates")
	candidates := rapid.Permutation(allItems(w.items)).Draw(t, "utilities")[:n]
	d := Decision{Instance: rapid.Int32Range(-1, 9).Draw(t, "instance"), Order: rapid.Permutation(allItems(n)).Draw(t, "order")}
	if rapid.Bool().Draw(t, "propensities") {
		for range n {
			d.Propensities = append(d.Propensities, 1/float64(n))
		}
	}
	if rapid.Bool().Draw(t, "expected") {
		for range n {
			d.Expected = append(d.Expected, float64(rapid.Int64Range(-1e6, 2e6).Draw(t, "of an item"))/1e6)
		}
	}
	w.ref++
	w.each(func(l Learner) { l.Adopt(w.ref, &d) })
	w.undrawn = append(w.undrawn, feedback(w.ref, candidates, &d, int32(rapid.IntRange(0, n-1).Draw(t, "selected"))))
}

func (w *life) sources(t *rapid.T) {
	at := [2]int32{rapid.Int32Range(0, sources-1).Draw(t, "source"), rapid.Int32Range(0, known-1).Draw(t, "item")}
	n := rapid.Int64Range(1, 20).Draw(t, "N")
	r := rapid.Float64Range(0, 1).Draw(t, "mean") * float64(n)
	s := policy.Sums{N: n, R: r, Q: r}
	w.newest[at] = s
	w.each(func(l Learner) { l.SetSource(at[0], at[1], s) })
}

func (w *life) sourceField(t *rapid.T) {
	for _, pooled := range w.learners[0].Pooled() {
		at := fieldOf{source: rapid.Int32Range(0, sources-1).Draw(t, "source"), hash: pooled.Hash}
		examples, there := sourceFields[pooled.Hash]
		require.True(t, there, "this test knows no fields of %s", pooled.Hash)
		at.field = rapid.SampledFrom(examples.fields).Draw(t, "field")
		value := []byte(nil)
		delete(w.fields, at)
		if rapid.Bool().Draw(t, "there") {
			value = []byte(rapid.SampledFrom(examples.values).Draw(t, "value"))
			w.fields[at] = string(value)
		}
		w.each(func(l Learner) { l.SetSourceField(at.source, at.hash, []byte(at.field), value, theirsAreOurs) })
	}
}

// sourceFields are pooled fields from other sources, valid and invalid.
var sourceFields = map[string]struct{ fields, values []string }{
	hashWindows:    {[]string{"1:1:", "2:3:4", "2::2", "3:9:", "1::", "3:0:3", "x", "4:3:", "1:1:17"}, []string{"1", "7", "100"}},
	hashFlights:    {[]string{"0", "1", "2", "9", "x"}, []string{"1", "3 10:5:2", "9 10:5:2 12:30:6", "7 17:0:3"}},
	hashOpen:       {[]string{"0", "1", "2", "9", "x"}, []string{"1 1073741824 1073741824", "3 7 2", "40 9663676416 4294967296"}},
	hashSettled:    {[]string{"0", "1", "2", "9", "x"}, []string{"1 0", "2 30", "0 0"}},
	hashAttraction: {[]string{"0", "1", "2", "9", "x"}, []string{"12 0", "3 40", "0 7", "0 0", "x"}},
	hashHistory:    {[]string{"0", "1", "2", "9", "x", "pass"}, []string{"10:5:1:1073741824:1073741824", "10:5:3:7:2 12:30:6:99:0", "x"}},
	hashRecent:     {[]string{"0", "1", "2", "9", "x"}, []string{"10:5:1:1073741824:1073741824:9", "10:5:3:7:2:5 12:30:6:99:0:7", "10:40:9:0:0:9999", "x"}},
	hashLevels:     {[]string{"10", "12", "x", "pass", "64"}, []string{"10:5:1:1073741824", "10:5:3:-777777777 10:30:6:99999999", "12:1:40:-9", "x", "65536"}},
	hashAges:       {[]string{"10:5", "12:30", "40:0", "3:1", "x", "since"}, []string{"10 0:3 7:2", "12 0:1 1:4 9:1", "9 100000 0 0", "9 8388608 70000 5"}},
	hashCells: {[]string{"0", "1", "2", "9", "x", "0|0", "1|2", "2|1", "2|3", "9|1"}, []string{"0 10:5:2:1073741824:254:-3:0:9", "3 381 0 -381 7 10:5:1:7:127:127:1:2",
		"1 127 1 1 1", "0 10:5:1:9:127:0:0:0 12:30:2:-9:254:1:1:1", "x"}},
	hashLinear: {[]string{"10:5", "12:30", "13:4", "x", "-1:0"}, []string{"1 1073741824 16129 68182605824 5 16129 0 0 0 16129 -999 0 0 0 16129 7",
		"2 999999999999999999999999 32258 1 2 3 4 5 6 7 8 9 10 11 12 13", "-1 5", ""}},
}

func theirsAreOurs(theirs policy.Item) (policy.Item, bool) { return theirs, theirs < known }

func (w *life) check(t *rapid.T) {
	inFlight := make([]int64, w.items)
	come := make([]history.Payoffs, w.items)
	for _, o := range w.waiting {
		inFlight[o.Item]++
		come[o.Item] = come[o.Item].Add(o.previous())
	}
	status := func(l Learner) Status {
		s := l.Status() // except for counts of this process, or since it began
		s.Holds, s.Unfed, s.Instances, s.Contextual.Fits, s.Level.Changes = 0, 0, 0, 0, 0
		return s
	}
	want := status(w.learners[0])
	first, _ := w.sums(w.learners[0])
	for _, l := range w.learners {
		got := status(l)
		require.Equal(t, want, got)
		sums, faults := w.sums(l)
		require.NoError(t, faults)
		require.Equal(t, first, sums)
		seen := l.(Inspector).Inspect()
		if d, ok := l.(*Direct); ok && d.flights.silence.InParts {
			parts := make([]history.Payoffs, w.items)
			for i := range parts {
				parts[i] = d.flights.parts.Own(policy.Item(i))
			}
			require.Equal(t, come, parts, "what has come of those that are waiting, and of no others")
		}
		if seen.Items != nil {
			for i, n := range inFlight {
				require.Equal(t, n, seen.Items[i].InFlight)
			}
			require.EqualValues(t, len(w.waiting), got.Flights)
		}
		require.Equal(t, w.learners[0].(Inspector).Inspect().Windows, seen.Windows)
	}
}

// sums returns a learner's sums by item, and their faults.
func (w *life) sums(l Learner) (all []policy.Sums, faults error) {
	for i := range policy.Item(w.items) {
		all = append(all, l.Sums(i))
		faults = errors.Join(faults, all[i].Check())
	}
	return all, faults
}

// A learner that is loaded, at any time, from another's store behaves as that other ever after, and stores the same.
func TestLearners_StateRoundTrip(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { t.Repeat(newLife(t, k).actions()) })
		})
	}
}

// A learner may be configured with another policy, or with other windows, and go on: it ignores fields that it does not use.
func TestLearners_StateOfAnotherPolicyIsTaken(t *testing.T) {
	for _, handling := range []string{"qpmd/", "direct/"} {
		learned, plain := kindNamed(t, handling+"egreedy, windows learned"), kindNamed(t, handling+"greedy")
		l := learned.make(t)
		l.Grow(3)
		s := newStore(l)
		for ref := range int64(50) {
			var d Decision
			l.Decide(allItems(3), nil, policy.Key(ref), &d)
			fb := feedback(ref, allItems(3), &d, policytest.Select(d.Order, 2))
			l.Selected(fb)
			l.Advance(ref * 1000)
			if ref%2 == 0 {
				l.Paid(fb)
			}
			s.harvest()
		}
		require.NotEmpty(t, s.hashes[hashWindows])
		require.NotEmpty(t, s.hashes[HashLearner])
		for _, k := range []kind{plain, kindNamed(t, handling+"egreedy"), learned} {
			other := k.make(t)
			rapid.Check(t, func(t *rapid.T) { other = k.make(t); s.load(t, 3, other) })
			require.Equal(t, l.Status().Flights, other.Status().Flights)
			require.Empty(t, newStore(other).harvest())
		}
	}
}

func kindNamed(t *testing.T, name string) kind {
	all := kinds()
	at := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	require.GreaterOrEqual(t, at, 0, name)
	return all[at]
}

type storedField struct{ hash, name, value string }

// faultyFields are, for each hash, fields that no learner writes to it.
var faultyFields = map[string][][]storedField{
	hashFlights: {
		{{hashFlights, "1", "-1"}}, {{hashFlights, "1", "0"}}, {{hashFlights, "1", "01"}}, {{hashFlights, "1", ""}},
		{{hashFlights, "1", "9223372036854775807"}}, {{hashFlights, "3", "1"}}, {{hashFlights, "", "1"}},
		{{hashFlights, "-1", "1"}}, {{hashFlights, "+1", "1"}}, {{hashFlights, "1:2", "1"}},
	},
	hashAttraction: {
		{{hashAttraction, "3", "1 1"}}, {{hashAttraction, "x", "1 1"}}, {{hashAttraction, "1", ""}}, {{hashAttraction, "1", "1"}}, {{hashAttraction, "1", "0 0"}},
		{{hashAttraction, "1", "-1 1"}}, {{hashAttraction, "1", "1 01"}}, {{hashAttraction, "1", "1 1 1"}}, {{hashAttraction, "1", "1 1125899906842625"}},
		{{HashLearner, "falls", ""}}, {{HashLearner, "falls", ":1:2:3:4:5:0:1"}}, {{HashLearner, "falls", "1:2:3:4:5:0:1:2"}},
		{{HashLearner, "falls", ":1:2:3:4:5:-1:1:2"}}, {{HashLearner, "falls", ":1:2:3:4:5:0:3:2"}}, {{HashLearner, "falls", ":9007199254740993:2:3:4:5:0:1:2"}},
	},
	hashMet: {
		{{hashMet, "3", "1"}}, {{hashMet, "x", "1"}}, {{hashMet, "1", ""}}, {{hashMet, "1", "-1"}}, {{hashMet, "1", "01"}}, {{hashMet, "1", "1 1"}},
	},
	hashWindows: {
		{{hashWindows, "1", "1"}}, {{hashWindows, "0:1:", "1"}}, {{hashWindows, "2:1:", "1"}}, {{hashWindows, "1:1:", "0"}},
		{{hashWindows, "1:1001:", "1"}}, {{hashWindows, "1:1:", "99999999999999999"}}, {{hashWindows, "1:1:0", "1"}}, {{hashWindows, "1:1", "1"}},
	},
	HashLearner: {
		{{HashLearner, "other", "1 1"}}, {{HashLearner, "looked", "x"}}, {{HashLearner, "windows", "1"}}, {{HashLearner, "windows", "x 1 0 0.5 0.5"}},
		{{HashLearner, "windows", "1 x 0 0.5 0.5"}}, {{HashLearner, "windows", "1 1 0 0.5 0.6"}}, {{HashLearner, "windows", "1 1 1 0.5 0.5"}},
		{{HashLearner, "windows", "1 1 x 0.5 0.5"}}, {{HashLearner, "windows", "1 1 0 1 0"}}, {{HashLearner, "windows", "1 1 0 NaN 1"}},
	},
	hashOpen: {
		{{hashOpen, "3", "1 1 1"}}, {{hashOpen, "x", "1 1 1"}}, {{hashOpen, "1", "0 0 0"}}, {{hashOpen, "1", "1 1"}}, {{hashOpen, "1", ""}},
		{{hashOpen, "1", "1 1 1 1"}}, {{hashOpen, "1", "1 -1 1"}}, {{hashOpen, "1", "1 1 2"}}, {{hashOpen, "1", "1 1073741825 0"}},
		{{hashOpen, "1", "1  1 1"}}, {{hashOpen, "1", "4294967296 1 1"}},
	},
	hashHistory: {
		{{hashHistory, "pass", "1"}}, {{hashHistory, "pass", "1 x"}}, {{hashHistory, "3", "10:5:1:1:1"}}, {{hashHistory, "x", "10:5:1:1:1"}},
		{{hashHistory, "1", ""}}, {{hashHistory, "1", "10:5:0:0:0"}}, {{hashHistory, "1", "10:5:1:1"}}, {{hashHistory, "1", "10:5:1:1:-1"}},
		{{hashHistory, "1", "10:5:1:1:1 10:5:1:1:1"}}, {{hashHistory, "1", " 10:5:1:1:1"}}, {{hashHistory, "1", "-1:0:1:1:1"}},
	},
	hashRecent: {
		{{hashRecent, "pass", "1"}}, {{hashRecent, "3", "10:5:1:1:1:1"}}, {{hashRecent, "x", "10:5:1:1:1:1"}}, {{hashRecent, "1", ""}},
		{{hashRecent, "1", "10:5:1:1:1"}}, {{hashRecent, "1", "10:5:1:1:1:-1"}}, {{hashRecent, "1", "10:5:1:1:1:1 10:5:1:1:1:1"}},
	},
	hashLevels: {
		{{hashLevels, "pass", "x"}}, {{hashLevels, "10", ""}}, {{hashLevels, "64", "10:5:1:1"}}, {{hashLevels, "x", "10:5:1:1"}},
		{{hashLevels, "10", "11:5:1:1"}}, {{hashLevels, "10", "10:5:1"}}, {{hashLevels, "10", "10:5:0:1"}},
		{{hashLevels, "10", "10:5:1:1"}, {hashLevels, "11", "11:2:1:1"}},
		{{HashLearner, "levels", "1 1 1"}}, {{HashLearner, "levels", "0 0 0.5 NaN 0.5 1 0 10:0:0"}},
	},
	hashSettled: {
		{{hashSettled, "1", "1"}}, {{hashSettled, "1", "1 -1"}}, {{hashSettled, "1", "1  1"}}, {{hashSettled, "3", "1 1"}},
		{{hashSettled, "1", "1 1 1"}}, {{hashSettled, "1", "1 0 1 1073741825"}},
		{{hashFlights, "1", "1 x"}}, {{hashFlights, "1", "1 "}}, {{hashFlights, "1", "3 10:5:1 10:5:2"}}, {{hashFlights, "1", "3 10:5:0"}},
		{{hashFlights, "1", "3  10:5:1"}}, {{hashFlights, "1", "3 3:5:1"}}, {{hashFlights, "1", "3 10:05:1"}},
		{{hashFlights, "1", "3 10:5:1 11:2:1"}},
	},
	hashAges: {
		{{hashAges, "pass", "x"}}, {{hashAges, "10", "10 1:1"}}, {{hashAges, "10:x", "10 1:1"}}, {{hashAges, "-1:5", "10 1:1"}},
		{{hashAges, "10:5", ""}}, {{hashAges, "10:5", "10 1"}}, {{hashAges, "10:5", "10 -1:1"}}, {{hashAges, "10:5", "10 1:0"}},
		{{hashAges, "46:99999999999", "10 1:1"}}, {{hashAges, "since", ""}}, {{hashAges, "since", "0"}}, {{hashAges, "since", "1 2 0"}},
		{{hashAges, "since", "1 2 3 x"}}, {{hashAges, "since", "1 2 3 4 5"}},
		{{HashLearner, "silence", "1 1"}}, {{HashLearner, "silence", "1 x 0.5"}}, {{HashLearner, "silence", "1 1 NaN"}},
		{{HashLearner, "silence", "1 1 2"}}, {{HashLearner, "silence", "1 1 0.5 1 1"}},
		{{HashLearner, "below", ""}}, {{HashLearner, "below", "0.5 0.5"}}, {{HashLearner, "below", "0.5 0.5 NaN"}}, {{HashLearner, "below", "2 0.5 1"}},
	},
	hashCells: {
		{{hashCells, "3", "0 10:5:1:5:127:0:0:0"}}, {{hashCells, "x", "0 10:5:1:5:127:0:0:0"}}, {{hashCells, "1", ""}}, {{hashCells, "1", "0 10:5:1:5:127:0:0"}},
		{{hashCells, "1", "0 10:5:1:5:128:0:0:0"}}, {{hashCells, "1", "1 127 0 0"}}, {{hashCells, "1", "1 127 0 0 -128"}}, {{hashCells, "1", "1"}},
		{{hashCells, "1", "-1 127 0 0 0"}}, {{hashCells, "1", "0 10:5:-1:5:127:0:0:0"}}, {{hashCells, "1", "0 10:5:1:5:127:0:0:x"}}, {{hashCells, "1", "x"}},
		{{hashCells, "1", "9223372036854775807 127 0 0 0"}}, {{hashCells, "1", "0 10:5:1:x:127:0:0:0"}}, {{hashCells, "1", "0 10:5:1:2147483648:127:0:0:0"}},
		{{hashCells, "1", "0 12:30:1:5:127:0:0:0 10:5:1:5:127:0:0:0"}}, {{hashCells, "1", "0 99:5:1:5:127:0:0:0"}},
		{{hashCells, "1|3", "0 10:5:1:5:127:0:0:0"}}, {{hashCells, "1|x", "0 10:5:1:5:127:0:0:0"}}, {{hashCells, "1|-1", "0 10:5:1:5:127:0:0:0"}},
		{{hashCells, "3|1", "0 10:5:1:5:127:0:0:0"}}, {{hashCells, "1|1|1", "0 10:5:1:5:127:0:0:0"}},
	},
	hashCategories: {
		{{hashCategories, "3", "a"}}, {{hashCategories, "x", "a"}}, {{hashCategories, "1", ""}}, {{hashCategories, "1|1", "a"}},
	},
	hashLinear: {
		{{hashLinear, "x", "0 0"}}, {{hashLinear, "99:1", "0 0"}}, {{hashLinear, "10:5", ""}}, {{hashLinear, "10:5", "1 1"}},
		{{hashLinear, "10:5", "x 0" + strings.Repeat(" 0", 14)}}, {{hashLinear, "10:5", "0 x" + strings.Repeat(" 0", 14)}},
		{{hashLinear, "10:5", "0 01" + strings.Repeat(" 0", 14)}}, {{hashLinear, "10:5", "0 0" + strings.Repeat(" 0", 13) + " x"}},
		{{hashLinear, "10:5", "0 0 x" + strings.Repeat(" 0", 13)}}, {{hashLinear, "10:5", "9223372036854775807 0" + strings.Repeat(" 0", 14)}},
		{{hashLinear, "10:5", "0 170141183460469231731687303715884105728" + strings.Repeat(" 0", 14)}},
		{{HashLearner, "fit", ""}}, {{HashLearner, "fit", "1 2 3"}},
		{{HashLearner, "fit", "1 -9 2 0.25 4 4 4 4 4 4 4" + strings.Repeat(" 0", 14)}}, {{HashLearner, "fit", "1 -9 2 0.25 4 4 4 4 4 4 4" + strings.Repeat(" NaN", 14)}},
	},
	hashQueue: {
		{{hashQueue, "1", "0.5"}}, {{hashQueue, "3:0", "0.5"}}, {{hashQueue, "-1:0", "0.5"}}, {{hashQueue, "1:00", "0.5"}},
		{{hashQueue, "+1:0", "0.5"}}, {{hashQueue, "1:", "0.5"}}, {{hashQueue, "1:0", "NaN"}}, {{hashQueue, "1:0", "Inf"}},
		{{hashQueue, "1:0", ""}},
		{{HashLearner, "hold", "1"}}, {{HashLearner, "hold", "3 1"}}, {{HashLearner, "hold", "1 "}},
		{{hashQueue, "1:9223372036854775807", "0.5"}},
		// Found in the end only: a payoff is missing, or came twice.
		{{hashQueue, "1:0", "0.5"}, {hashQueue, "1:2", "0.5"}}, {{hashQueue, "1:1", "0.5"}, {hashQueue, "1:1", "0.5"}},
	},
	hashInstances: {
		{{hashInstances, "1", "0"}}, {{hashInstances, "", "1"}}, {{hashInstances, "-1", "1"}}, {{hashInstances, "01", "1"}},
		{{hashInstances, "2147483648", "1"}}, {{hashInstances, "1", "2147483648"}}, {{hashInstances, "1:2", "1"}},
		{{HashLearner, "hold", "1 1"}},
	},
	hashRounds:  {{{hashRounds, "", "1"}}, {{hashRounds, "1", "0"}}, {{hashRounds, "1:", "1"}}, {{hashRounds, "x", "1"}}},
	hashVectors: {{{hashVectors, "1:0", block(1, 1)}}, {{hashVectors, "1:0", block(1, math.NaN())}, {hashRounds, "1", "1"}}},
}

func loadAll(l Learner, fields []storedField) error {
	var err error
	for _, f := range fields {
		err = errors.Join(err, l.LoadField(f.hash, []byte(f.name), []byte(f.value)))
	}
	return errors.Join(err, l.Loaded())
}

func TestLearners_LoadRefusesWhatTheyCannotHaveWritten(t *testing.T) {
	for _, k := range kinds() {
		hashes := k.make(t).Hashes()
		for _, h := range hashes {
			require.Contains(t, faultyFields, h, "%s: nothing is known that would be faulty", k.name)
		}
		for h, all := range faultyFields {
			for _, fields := range all {
				if l := k.make(t); slices.Contains(hashes, h) {
					l.Grow(3)
					require.ErrorIs(t, loadAll(l, fields), ErrState, "%s: %v", k.name, fields)
				}
			}
		}
		l := k.make(t)
		l.Grow(3)
		require.ErrorIs(t, l.LoadField("other", []byte("1"), []byte("1")), ErrState, k.name)
	}
}

func FuzzLearners_LoadField(f *testing.F) {
	all := kinds()
	for k := range all {
		for _, s := range []storedField{
			{hashQueue, "1:0", "0.5"}, {hashFlights, "2", "3"}, {HashLearner, "hold", "2 77"},
			{hashInstances, "1", "3"}, {hashRounds, "1", "7"}, {hashRounds, "1:3", "7"},
			{hashVectors, "1:3:0", block(7, 0.5, 0.2, 0.3)}, {hashWindows, "2::3", "5"},
			{HashLearner, "windows", "3 9 0.125 0.25 0.25 0.25 0.25"}, {hashOpen, "1", "2 99 9"}, {hashAges, "10:5", "10 0:1073741824"},
			{hashRecent, "1", "10:5:3:7:2:5 12:30:6:99:0:7"}, {hashLevels, "10", "10:5:3:-777777777 10:30:6:99999999"},
			{hashCells, "1", "1 127 1 2 3 10:5:1:9:127:5:-7:0"}, {hashCells, "1|2", "0 10:5:1:9:127:5:-7:0"}, {hashCategories, "1", "a"}, {hashLinear, "10:5", "3 1073741824 16129 -70000000000000000000 1 2 3 4 5 6 7 8 9 10 11 12"},
			{HashLearner, "fit", "1 -9 2 0.25 4 4 4 4 4 4 4 1 0 1 0 0 1 0 0 0 1 1 1 1 1"},
			{HashLearner, "falls", ":-5:77:99:256:1:0:12:17"},
			{HashLearner, "levels", "65536 7 0.5 0.5 0.25 0.5 8000 10:5:7 12:30:-99999999"},
		} {
			f.Add(uint8(k), s.hash, s.name, s.value)
		}
	}
	f.Fuzz(func(t *testing.T, k uint8, hash, field, value string) {
		l := all[int(k)%len(all)].make(t)
		l.Grow(3)
		if l.LoadField(hash, []byte(field), []byte(value)) != nil || l.Loaded() != nil {
			return
		}
		// Accepted fields can be used.
		var d Decision
		for k := range int64(4) {
			l.Decide(allItems(3), contextOf(l, policy.Key(k), 3), policy.Key(k), &d)
			requireDecision(t, &d, 3)
			fb := feedback(k, allItems(3), &d, d.Order[0])
			fb.X, fb.Segment = rowOf(l, policy.Key(k), allItems(3), fb.Item), segmentOf(policy.Key(k))
			fb.Payoff = 1
			l.Selected(fb)
			l.Paid(fb)
			l.Advance(math.MaxInt64 - 4 + k)
		}
		l.Harvest(newStore(l))
	})
}

// A steady learner allocates nothing: not per decision, nor per selection or payoff; except for robust, which packs an item's history again
// at its payoff.
func TestLearners_AllocateNothing(t *testing.T) {
	for _, k := range kinds() {
		l := k.make(t)
		l.Grow(30)
		candidates := allItems(20)
		var d Decision
		var fb Feedback
		ref := int64(0)
		about := contextOf(l, 7, len(candidates))
		step := func() {
			ref++
			l.Decide(candidates, about, policy.Key(ref), &d)
			fb = Feedback{Ref: ref, Item: d.Order[0], Payoff: 0.5, Candidates: candidates, Order: d.Order, Instance: d.Instance}
			if len(d.Propensities) > 0 {
				fb.Propensity = d.Propensities[0]
			}
			if len(d.Expected) > 0 {
				fb.Expected, fb.HasExpected = d.Expected[0], true
			}
			fb.X, fb.Segment = about.Row(int(d.Order[0]), len(candidates)), about.SegmentOf()
			l.Selected(fb)
			l.Paid(fb)
			if about != nil {
				l.Advance(ref)
			}
		}
		for range 200 {
			step()
		}
		most := 0.0
		if _, packs := l.(*Robust); packs {
			most = 2
		}
		require.LessOrEqual(t, testing.AllocsPerRun(200, step), most, k.name)
	}
}
