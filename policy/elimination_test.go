package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkElimination is one decision, from utilities to ranking: the order by utility and Find-Permutation. "sorts" is
// its time in units of slices.Sort of as many random float64s, others each time. The bound at n = 1,000 is 2.
func BenchmarkElimination(b *testing.B) {
	for _, n := range []int{20, 100, 1000} {
		rng := rand.New(rand.NewPCG(9, 9))
		const inputs = 256
		utilities := make([][]float64, inputs)
		for k := range utilities {
			utilities[k] = make([]float64, n)
			for i := range utilities[k] {
				utilities[k][i] = rng.Float64()
			}
		}
		names := lists(n, rng)
		tied := names[len(names)-2] // all tie, long items
		for _, c := range []struct {
			name      string
			utilities [][]float64
			items     [][]byte
		}{
			{"random", utilities, names[0].items},
			{"all tie", [][]float64{tied.utilities}, tied.items},
		} {
			for _, instance := range instances(n, rng) {
				if instance.name != "random" && instance.name != "everyone leads" && instance.name != "means fall, all apart" && instance.name != "counts rise" {
					continue
				}
				b.Run(fmt.Sprintf("n=%d/utilities %s/%s", n, c.name, instance.name), func(b *testing.B) {
					benchmarkDecision(b, c.utilities, c.items, utilities, instance)
				})
			}
		}
	}
}

// benchmarkDecision ranks candidates of the given utilities and names. Whatever the order, they have the statistics of
// the instance, so that the worst case stays one. Decisions take turns with sorts of floats, so that both meet the same
// machine.
func benchmarkDecision(b *testing.B, utilities [][]float64, names [][]byte, floats [][]float64, instance instance) {
	e := elimination(b, Confidence{Sigma: 0.5, Delta: 0.05})
	n := len(names)
	var ws Workspace
	order, dst, scratch := make([]int32, n), make([]int32, n), make([]float64, n)
	items := make([]Item, n)
	in := instance.in
	in.Items = items
	copy(items, instance.in.Items)
	SortByUtility(order, utilities[0], names, &ws) // grows ws
	e.Rank(&in, &ws, dst)
	var sorts, decisions time.Duration
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		copy(scratch, floats[k%len(floats)])
		start := time.Now()
		slices.Sort(scratch)
		between := time.Now()
		SortByUtility(order, utilities[k%len(utilities)], names, &ws)
		for at := range order {
			items[at] = instance.in.Items[at]
		}
		e.Rank(&in, &ws, dst)
		sorts += between.Sub(start)
		decisions += time.Since(between)
	}
	b.ReportMetric(float64(decisions)/float64(b.N), "ns/op")
	b.ReportMetric(float64(decisions)/float64(sorts), "sorts")
}
