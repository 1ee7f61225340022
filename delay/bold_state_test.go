package delay

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// slowBOLD is BOLD as its definition reads: a list of instances, looked through from the first.
type slowBOLD struct {
	c           BOLDConfig
	outstanding map[int32]int
	vectors     map[[2]int32]*policy.Vector // by instance and length
	sums        map[policy.Item]policy.Sums
	unfed       int64
	ws          policy.AdversarialWorkspace
	sampler     admissible.Sampler
}

func newSlowBOLD(c BOLDConfig) *slowBOLD {
	return &slowBOLD{c: c, outstanding: map[int32]int{}, vectors: map[[2]int32]*policy.Vector{},
		sums: map[policy.Item]policy.Sums{}}
}

func (s *slowBOLD) choose() int32 {
	least := int32(0)
	for number := int32(0); s.c.MaxInstances == 0 || int(number) < s.c.MaxInstances; number++ {
		if s.outstanding[number] == 0 {
			return number
		}
		if s.outstanding[number] < s.outstanding[least] {
			least = number
		}
	}
	return least
}

func (s *slowBOLD) vector(instance int32, candidates []policy.Item) (*policy.Vector, []int32) {
	at, coordinates := [2]int32{instance, 0}, candidates
	if s.c.Index == LossByRank {
		at[1] = int32(len(candidates))
		coordinates = allItems(len(candidates))
	}
	if s.vectors[at] == nil {
		s.vectors[at] = &policy.Vector{}
	}
	return s.vectors[at], coordinates
}

func (s *slowBOLD) decide(candidates []policy.Item, q []float64, key policy.Key) Decision {
	n := len(candidates)
	d := Decision{Instance: s.choose(), Order: make([]int32, n)}
	v, coordinates := s.vector(d.Instance, candidates)
	p := make([]float64, n)
	s.c.Base.Point(v, coordinates, q, p, &s.ws)
	s.sampler.Sample(p, q, key.Float64(0), d.Order)
	for _, rank := range d.Order {
		d.Propensities = append(d.Propensities, p[rank])
	}
	s.outstanding[d.Instance]++
	return d
}

func (s *slowBOLD) paid(fb Feedback, q []float64) {
	sums := s.sums[fb.Item]
	s.sums[fb.Item] = policy.Sums{N: sums.N + 1, R: sums.R + fb.Payoff, Q: sums.Q + fb.Payoff*fb.Payoff}
	v, coordinates := s.vector(fb.Instance, fb.Candidates)
	if _, estimated := policy.Loss(fb.Payoff, fb.Propensity); len(fb.Candidates) == 1 && estimated { // teaches nothing
		s.free(fb.Instance)
		return
	}
	if !s.c.Base.Feed(v, coordinates, slices.Index(fb.Candidates, fb.Item), fb.Payoff, fb.Propensity, q, &s.ws) {
		s.unfed++
	}
	s.free(fb.Instance)
}

func (s *slowBOLD) free(instance int32) {
	s.outstanding[instance]--
	if s.c.MaxInstances > 0 && int(instance) >= s.c.MaxInstances && s.outstanding[instance] == 0 {
		maps.DeleteFunc(s.vectors, func(at [2]int32, _ *policy.Vector) bool { return at[0] == instance })
	}
}

// boldWorld lets users and payoffs happen at random, to BOLD and to the slow one.
type boldWorld struct {
	slow    *slowBOLD
	bold    *BOLD
	learner Learner // bold, or its stand-in
	items   int
	open    []Feedback
	ref     int64
	advance int64
}

// fold is the window distribution that decisions are made for, which is the fast one's to estimate.
func (w *boldWorld) fold(n int) []float64 {
	q := make([]float64, n)
	w.bold.windows.now.Fold(q)
	return q
}

func (w *boldWorld) decide(t *rapid.T) {
	n := rapid.IntRange(1, w.items).Draw(t, "candidates")
	candidates := rapid.Permutation(allItems(w.items)).Draw(t, "utilities")[:n]
	key := policy.Key(rapid.Uint64().Draw(t, "key"))
	want := w.slow.decide(candidates, w.fold(n), key)
	d := Decision{Explored: true}
	w.learner.Decide(candidates, nil, key, &d)
	require.Equal(t, want, d)
	w.ref++
	w.open = append(w.open, feedback(w.ref, candidates, &want, policytest.Select(want.Order, rapid.IntRange(1, n).Draw(t, "window"))))
}

func (w *boldWorld) actions() map[string]func(*rapid.T) {
	paid := func(t *rapid.T) {
		fb := takeOne(t, &w.open)
		fb.Payoff = rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1)).Draw(t, "payoff")
		if rapid.IntRange(0, 9).Draw(t, "without propensity") == 0 {
			fb.Propensity = 0
		}
		w.learner.Selected(fb)
		w.learner.Paid(fb)
		w.slow.paid(fb, w.fold(len(fb.Candidates)))
	}
	return map[string]func(*rapid.T){
		"decide": w.decide, "decide again": w.decide, "paid": paid, "paid again": paid,
		"expired": func(t *rapid.T) {
			fb := takeOne(t, &w.open)
			if rapid.Bool().Draw(t, "unselected") {
				w.learner.Unselected(fb)
			} else {
				w.learner.Selected(fb)
				w.learner.Expired(fb)
			}
			w.slow.free(fb.Instance)
		},
		"adopt": func(t *rapid.T) {
			n := rapid.IntRange(1, w.items).Draw(t, "candidates")
			candidates := rapid.Permutation(allItems(w.items)).Draw(t, "utilities")[:n]
			d := Decision{Instance: rapid.Int32Range(0, 9).Draw(t, "instance"), Order: rapid.Permutation(allItems(n)).Draw(t, "order")}
			for range n {
				d.Propensities = append(d.Propensities, 1/float64(n))
			}
			w.ref++
			w.learner.Adopt(w.ref, &d)
			w.slow.outstanding[d.Instance]++
			w.open = append(w.open, feedback(w.ref, candidates, &d, int32(rapid.IntRange(0, n-1).Draw(t, "selected"))))
		},
		"grow": func(t *rapid.T) {
			if w.items < 40 {
				w.items += rapid.IntRange(1, 3).Draw(t, "more")
				w.bold.Grow(w.items)
			}
		},
		"advance": func(t *rapid.T) {
			w.advance += rapid.Int64Range(0, 1500).Draw(t, "ms")
			w.bold.Advance(w.advance)
		},
		"": w.check,
	}
}

func (w *boldWorld) check(t *rapid.T) {
	for i := range policy.Item(w.items) {
		require.Equal(t, w.slow.sums[i], w.bold.Sums(i))
	}
	require.EqualValues(t, len(w.open), w.bold.Status().Flights)
	for number := range int32(12) {
		outstanding := 0
		if i := w.bold.pool.get(number); i != nil {
			outstanding = int(i.outstanding)
		}
		require.Equal(t, w.slow.outstanding[number], outstanding, "instance %d", number)
	}
	require.Equal(t, w.slow.unfed, w.bold.Status().Unfed)
}

// A BOLD decides as its definition says.
func TestAppendixC2_BOLDIsItsDefinition(t *testing.T) { holdAlways(t, boldIsItsDefinition) }

func boldIsItsDefinition(i instead) func(*rapid.T) {
	return func(t *rapid.T) {
		index := rapid.SampledFrom([]LossIndex{LossByItem, LossByRank}).Draw(t, "index")
		c := BOLDConfig{
			Base:         rapid.SampledFrom([]policy.Adversarial{ftrlBase(t, index), osmdBase(t, 10), osmdBase(t, 0)}).Draw(t, "base"),
			Index:        index,
			MaxInstances: rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "instances"),
			Windows:      WindowsConfig{Max: rapid.SampledFrom([]int{1, 4, 30}).Draw(t, "windows"), EstimateEvery: 1000},
		}
		if rapid.Bool().Draw(t, "given windows") {
			c.Windows.Given = geometricWindows(t)
		}
		w := &boldWorld{slow: newSlowBOLD(c), items: rapid.IntRange(1, 6).Draw(t, "items")}
		w.bold = newBOLD(t, c, w.items)
		w.learner = i(w.bold)
		t.Repeat(w.actions())
	}
}

func TestBOLD_HarvestGivesOnlyWhatChanged(t *testing.T) {
	b := newBOLD(t, BOLDConfig{Base: ftrlBase(t, LossByRank), Index: LossByRank, Windows: WindowsConfig{Max: 3, EstimateEvery: 1000}}, 40)
	s := newStore(b)
	require.Empty(t, s.harvest())
	var d Decision
	b.Decide(allItems(40), nil, 1, &d)
	b.Decide(allItems(2), nil, 1, &d)
	require.Equal(t, []string{`instances 0 = "1" (false)`, `instances 1 = "1" (false)`}, s.harvest())
	b.Expired(Feedback{Instance: 0})
	fb := Feedback{Item: 35, Candidates: allItems(40), Order: allItems(40), Instance: 1, Propensity: 0.5, Payoff: 1}
	b.Selected(fb)
	b.Paid(fb)
	require.Equal(t, []string{
		`35 {1 1 1}`, `instances 0 = "" (true)`, `instances 1 = "" (true)`, `rounds 1:40 = "1" (false)`,
		fmt.Sprintf("vectors 1:40:1 = %q (false)", "\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		`windows 3:: = "1" (false)`,
	}, s.harvest())
	// An instance that begins and ends between two harvests leaves no record.
	b.Decide(allItems(2), nil, 1, &d)
	b.Unselected(Feedback{Instance: d.Instance})
	require.Empty(t, s.harvest())
	b.Advance(2500)
	line := s.harvest()
	require.Len(t, line, 1)
	require.Contains(t, line[0], `learner windows = "2 1 0 0.4`)
	b.Advance(5000)
	require.Empty(t, s.harvest(), "nothing new")
}

// After windows are distinguished more or less finely, nothing is lost, and nothing is counted twice.
func TestBOLD_TheLongestWindowMayChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s *store
		var total int64
		q := make([]float64, 0, 30)
		for range 5 {
			c := BOLDConfig{Base: ftrlBase(t, LossByItem), Windows: WindowsConfig{Max: rapid.IntRange(1, 12).Draw(t, "longest"), EstimateEvery: 10}}
			b := newBOLD(t, c, 12)
			next := newStore(b)
			if s != nil {
				s.load(t, 12, b)
				next.hashes, next.sums = s.hashes, s.sums
				next.harvest()
			}
			s = next
			q, n := b.Windows(q[:0])
			require.Len(t, q, c.Windows.Max)
			require.Equal(t, total, n)
			for range rapid.IntRange(0, 9).Draw(t, "selections") {
				order := rapid.Permutation(allItems(12)).Draw(t, "order")
				b.Selected(Feedback{Item: rapid.Int32Range(0, 11).Draw(t, "item"), Candidates: allItems(12), Order: order})
				total++
			}
			b.Advance(rapid.Int64Range(0, 1000).Draw(t, "now"))
			s.harvest()
		}
	})
}

func block(has uint32, x ...float64) string {
	b := binary.LittleEndian.AppendUint32(nil, has)
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return string(b)
}

func TestBOLD_LoadRefusesWhatItCannotHaveWritten(t *testing.T) {
	load := func(index LossIndex, base policy.Adversarial, fields []storedField) error {
		return loadAll(newBOLD(t, BOLDConfig{Base: base, Index: index, Windows: WindowsConfig{Max: 2}}, 3), fields)
	}
	for _, fields := range [][]storedField{
		{{"rounds", "1:3", "1"}},
		{{"vectors", "1", block(1, 1)}, {"rounds", "1", "1"}},
		{{"vectors", "1:0", block(8, 1)}, {"rounds", "1", "1"}},
		{{"vectors", "1:1", block(1, 1)}, {"rounds", "1", "1"}},
		{{"vectors", "1:0", block(1, 1e300)}, {"rounds", "1", "1"}},
	} {
		require.ErrorIs(t, load(LossByItem, ftrlBase(t, LossByItem), fields), ErrState, fmt.Sprint(fields))
	}
	for _, fields := range [][]storedField{
		{{"rounds", "1", "1"}}, {{"rounds", "1:0", "1"}}, {{"rounds", "1:9999999", "1"}}, {{"rounds", "1:2:0", "1"}},
		{{"vectors", "1:2:0", block(4, 1)}, {"rounds", "1:2", "1"}},
		{{"vectors", "1:2:0", block(2, 1.5)}, {"rounds", "1:2", "1"}},
		{{"vectors", "1:2:0", block(2, 0x1p-1040)}, {"rounds", "1:2", "1"}},
		{{"vectors", "1:2:0", block(2, 1)}, {"rounds", "1:3", "1"}},
	} {
		require.ErrorIs(t, load(LossByRank, osmdBase(t, 5), fields), ErrState, fmt.Sprint(fields))
	}
	require.NoError(t, load(LossByRank, osmdBase(t, 5), []storedField{{"vectors", "2147483647:2:0", block(3, 0.5, 0.5)}, {"rounds", "2147483647:2", "1"}}))
}
