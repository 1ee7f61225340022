package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// literalFindPermutation is Algorithm 2 line by line, with the tie rules spelt out: the oracle.
func literalFindPermutation(in *Input, spread float64) []int32 {
	n := len(in.Items)
	lower, upper := make([]float64, n), make([]float64, n)
	remaining := map[int]bool{} // A
	for i := range n {
		remaining[i] = true
		s := in.Table.Pooled(in.Items[i])
		if s.N == 0 {
			lower[i], upper[i] = math.Inf(-1), math.Inf(1)
			continue
		}
		mean, c := s.R/float64(s.N), math.Sqrt(spread/float64(s.N))
		lower[i], upper[i] = mean-c, mean+c
	}
	goesFirst := func(a, b int) bool {
		na, nb := in.Table.Pooled(in.Items[a]).N, in.Table.Pooled(in.Items[b]).N
		if na != nb {
			return na < nb
		}
		if in.InFlight != nil && in.InFlight.Pooled(in.Items[a]) != in.InFlight.Pooled(in.Items[b]) {
			return in.InFlight.Pooled(in.Items[a]) < in.InFlight.Pooled(in.Items[b])
		}
		return in.Key.Uint64(uint64(a)) < in.Key.Uint64(uint64(b))
	}
	var order []int32
	for len(remaining) > 0 {
		leader := -1
		for i := range n {
			if !remaining[i] {
				continue
			}
			undominated := true
			for j := range n {
				// The paper's condition for j = i is c_i > 0, which a float64 may fail to show.
				if remaining[j] && j != i && !(upper[i] > lower[j]) {
					undominated = false
				}
			}
			if undominated && (leader < 0 || goesFirst(i, leader)) {
				leader = i
			}
		}
		order = append(order, int32(leader))
		delete(remaining, leader)
		for j := n - 1; j >= 0; j-- { // B, in decreasing utility
			if remaining[j] && j < leader {
				order = append(order, int32(j))
				delete(remaining, j)
			}
		}
	}
	return order
}

// instance is a table and candidates for Find-Permutation.
type instance struct {
	name string
	in   Input
}

// newInstance takes the sums of the candidates in increasing utility.
func newInstance(name string, sums []Sums, rng *rand.Rand) instance {
	n := len(sums)
	table := NewTable(n + 3)
	items := make([]Item, n)
	for i, at := range rng.Perm(n) {
		items[i] = Item(at + 3)
		table.Set(items[i], sums[i])
	}
	in := Input{Items: items, Table: table, Key: Key(rng.Uint64())}
	if rng.IntN(2) == 0 {
		in.InFlight = inFlight()
		for i := range Item(n + 3) {
			*in.InFlight.(*flying).At(i) = Count(rng.Int64N(3))
		}
	}
	return instance{name, in}
}

func sumsOf(n int64, mean float64) Sums {
	return Sums{N: n, R: mean * float64(n), Q: mean * mean * float64(n)}
}

// instances are random and adversarial ones of n candidates.
func instances(n int, rng *rand.Rand) []instance {
	build := func(name string, sums func(i int) Sums) instance {
		all := make([]Sums, n)
		for i := range all {
			all[i] = sums(i)
		}
		return newInstance(name, all, rng)
	}
	at := func(i int) float64 { return float64(i+1) / float64(n+1) }
	scale := int64(1) << rng.IntN(30)
	return []instance{
		build("random", func(int) Sums { return sumsOf(1+rng.Int64N(scale), rng.Float64()) }),
		build("some unseen", func(int) Sums { return sumsOf(rng.Int64N(4)*rng.Int64N(scale), rng.Float64()) }),
		build("none seen", func(int) Sums { return Sums{} }),
		build("all equal", func(int) Sums { return sumsOf(scale, 0.5) }),
		build("few values", func(int) Sums { return sumsOf(rng.Int64N(3)*scale, float64(rng.IntN(3))/2) }),
		build("means rise, all apart", func(i int) Sums { return sumsOf(1<<40, at(i)) }),
		build("means fall, all apart", func(i int) Sums { return sumsOf(1<<40, 1-at(i)) }),
		build("means fall, counts rise", func(i int) Sums { return sumsOf(scale+int64(i), 1-at(i)) }),
		build("means fall, counts fall", func(i int) Sums { return sumsOf(scale+int64(n-i), 1-at(i)) }),
		build("means rise, counts rise", func(i int) Sums { return sumsOf(scale+int64(i), at(i)) }),
		build("means rise, counts fall", func(i int) Sums { return sumsOf(scale+int64(n-i), at(i)) }),
		build("counts rise", func(i int) Sums { return sumsOf(1+int64(i), 0.5) }),
		build("counts fall", func(i int) Sums { return sumsOf(int64(n-i), 0.5) }),
		everyoneLeads(n, rng),
		evictedAtOnce(n, rng),
		{"one of a thousand sources", pooledInstance(n, rng)},
	}
}

// everyoneLeads is the worst case of a scan per leader, and deepens the heap. Each item, from the right, has fewer payoffs than all
// before and a slightly smaller upper end. None is dominated.
func everyoneLeads(n int, rng *rand.Rand) instance {
	sums := make([]Sums, n)
	for i := range sums {
		sums[i] = sumsOf(1_000_000+int64(i), 0.5+1e-5*float64(i)/float64(n))
	}
	return newInstance("everyone leads", sums, rng)
}

// evictedAtOnce fills the heap as everyoneLeads does. Then one very good item of the second lowest utility dominates all but one at
// the bottom of the heap, which lose their place one by one.
func evictedAtOnce(n int, rng *rand.Rand) instance {
	sums := everyoneLeads(n, rng).sums()
	for i := range sums {
		if i == 0 {
			sums[i] = sumsOf(1<<40, 0.6)
		} else if i == n-1 {
			sums[i] = sumsOf(2_000_000, 0.6)
		} else if i < n/4 {
			sums[i] = sumsOf(10_000_000-int64(i), 0.4)
		}
	}
	return newInstance("evicted at once", sums, rng)
}

func (i instance) sums() []Sums {
	all := make([]Sums, len(i.in.Items))
	for k, item := range i.in.Items {
		all[k] = i.in.Table.Pooled(item)
	}
	return all
}

func pooledInstance(n int, rng *rand.Rand) Input {
	in := newInstance("", make([]Sums, n), rng).in
	for range 4 * n {
		in.Table.SetSource(rng.Int32N(1000), in.Items[rng.IntN(n)], sumsOf(rng.Int64N(50), rng.Float64()))
	}
	return in
}

func TestAlgorithm2_FindPermutationIsTheLiteralOne(t *testing.T) {
	const seed = 20261121
	rng := rand.New(rand.NewPCG(seed, 2))
	var ws Workspace
	check := func(n int) {
		for _, instance := range instances(n, rng) {
			for _, spread := range []float64{1e-12, 0.01, 1, 30, 1e5} {
				want := literalFindPermutation(&instance.in, spread)
				got := make([]int32, n)
				findPermutation(&instance.in, spread, &ws, got)
				require.Equal(t, want, got, "scans: seed %d, n %d, %s, spread %g", seed, n, instance.name, spread)
				// The heap from the start, which scans would otherwise often make unnecessary.
				ws.heapLeaders(&instance.in, 0)
				follow(ws.leaders, 0, got)
				require.Equal(t, want, got, "heap: seed %d, n %d, %s, spread %g", seed, n, instance.name, spread)
			}
		}
	}
	for n := 1; n <= 12; n++ {
		for range 60 {
			check(n)
		}
	}
	for range 8 {
		check(13 + rng.IntN(90))
	}
	check(300)
}

// Where the radius disappears beside a huge mean, somebody must lead all the same.
func TestFindPermutation_VanishingRadius(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	in := newInstance("", []Sums{sumsOf(1<<50, 1e9), sumsOf(1<<50, 1e9), sumsOf(1<<50, 1e9)}, rng).in
	dst := make([]int32, 3)
	var ws Workspace
	findPermutation(&in, 1e-9, &ws, dst)
	slices.Sort(dst)
	require.Equal(t, []int32{0, 1, 2}, dst)
}

func TestFindPermutation_DoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	e, err := NewElimination(Confidence{Sigma: 0.5, Delta: 0.05})
	require.NoError(t, err)
	for _, instance := range instances(1000, rng) {
		var ws Workspace
		dst := make([]int32, 1000)
		policies := map[string]Policy{"elimination": e, "greedy": NewGreedy(), "utility": NewUtility()}
		for name, p := range policies {
			p.Rank(&instance.in, &ws, dst)
			require.Zero(t, testing.AllocsPerRun(10, func() { p.Rank(&instance.in, &ws, dst) }), "%s on %s", name, instance.name)
		}
	}
}

func BenchmarkFindPermutation(b *testing.B) {
	for _, n := range []int{5, 20, 100, 1000} {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, instance := range instances(n, rng) {
			dst := make([]int32, n)
			var ws Workspace
			b.Run(fmt.Sprintf("n=%d/%s", n, instance.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					findPermutation(&instance.in, 1, &ws, dst)
				}
			})
		}
	}
}
