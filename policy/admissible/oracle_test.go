package admissible

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The slow and obvious ways that the tests compare with.

// permutations calls f with every order of n positions.
func permutations(n int, f func(order []int32)) {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	var place func(k int)
	place = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			place(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	place(0)
}

// selected is the item that a user with the window (1..n) selects, by the definition.
func selected(ranking []int32, window int) int32 { return slices.Max(ranking[:window]) }

// pooling solves with one rate for all.
func pooling(g, q []float64, eta float64) []float64 {
	w := make([]float64, len(g))
	for i := range w {
		w[i] = 1
	}
	return poolingEach(g, q, w, eta)
}

// poolingEach solves for the rates w/eta by pooling adjacent violators from the left. Each block has the multiplier that gives it
// its mass, found by bisection. Where multipliers rise, blocks are merged.
func poolingEach(g, q, w []float64, eta float64) []float64 {
	type block struct {
		first, end int
		tau        float64 // z − low, the multiplier; p is computed from z and low, for the difference cancels
		z, low     float64
	}
	n := len(g)
	least := slices.Min(g)
	a := make([]float64, n)
	for i := range a {
		a[i] = eta * (g[i] - least)
	}
	pool := func(first, end int) block {
		mass := 0.0
		for _, v := range q[first:end] {
			mass += v
		}
		if mass == 0 {
			return block{first, end, math.Inf(1), math.Inf(1), 0}
		}
		low := slices.Min(a[first:end])
		lo, hi := slices.Min(w[first:end])/math.Sqrt(mass), slices.Max(w[first:end])*math.Sqrt(float64(end-first)/mass)
		for range 200 {
			z := (lo + hi) / 2
			sum := 0.0
			for i := first; i < end; i++ {
				sum += w[i] * w[i] / ((a[i] - low + z) * (a[i] - low + z))
			}
			if z == lo || z == hi {
				break
			}
			if sum > mass {
				lo = z
			} else {
				hi = z
			}
		}
		return block{first, end, hi - low, hi, low}
	}
	var blocks []block
	for i := range n {
		b := pool(i, i+1)
		for len(blocks) > 0 && (blocks[len(blocks)-1].tau < b.tau) {
			b = pool(blocks[len(blocks)-1].first, b.end)
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	p := make([]float64, n)
	for _, b := range blocks {
		for i := b.first; i < b.end; i++ {
			p[i] = w[i] * w[i] / ((a[i] - b.low + b.z) * (a[i] - b.low + b.z))
		}
	}
	return p
}

// randomWindows draws a folded window distribution of one of several shapes, most of them with zeros.
func randomWindows(rng *rand.Rand, n int) []float64 {
	q := make([]float64, n)
	shape := rng.IntN(5)
	for k := range q {
		switch shape {
		case 0:
			q[k] = rng.ExpFloat64()
		case 1:
			if rng.IntN(2) == 0 {
				q[k] = rng.Float64()
			}
		case 2:
			q[k] = math.Pow(0.7, float64(k))
		case 3:
			q[k] = 1
		case 4:
			q[k] = math.Pow(rng.Float64(), 8)
		}
	}
	if shape == 1 {
		q[rng.IntN(n)] = 1
	}
	return normalise(q)
}

func normalise(q []float64) []float64 {
	var sum float64
	for _, v := range q {
		sum += v
	}
	for k := range q {
		q[k] /= sum
	}
	return q
}

// randomMember draws a member of C: a random combination of rankings, by the definition.
func randomMember(rng *rand.Rand, q []float64) []float64 {
	n := len(q)
	p := make([]float64, n)
	weights := make([]float64, 1+rng.IntN(n+1))
	for k := range weights {
		weights[k] = rng.ExpFloat64()
	}
	for _, weight := range normalise(weights) {
		order := randomRanking(rng, n)
		for w := 1; w <= n; w++ {
			p[selected(order, w)] += weight * q[w-1]
		}
	}
	return p
}

func randomRanking(rng *rand.Rand, n int) []int32 {
	order := make([]int32, n)
	for i, v := range rng.Perm(n) {
		order[i] = int32(v)
	}
	return order
}
