package contextual

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Units is the number of units in a payoff of 1. Payoffs are rounded to units once.
const Units = 1 << 30

// Linear is the sums over all payoffs: features in units of 1/127, payoffs and their squares in Units.
type Linear struct {
	N int64   // number of payoffs, less one for each forgotten item
	G []int64 // Σxxᵀ, lower triangle by rows
	H []Wide  // Σxr
	Q Wide    // Σr²
}

// NewLinear returns empty sums for dim features.
func NewLinear(dim int) *Linear {
	return &Linear{G: make([]int64, packed(dim)), H: make([]Wide, dim)}
}

func (l *Linear) Clear() {
	l.N, l.Q = 0, Wide{}
	clear(l.G)
	clear(l.H)
}

// packed returns the size of a triangle with its diagonal; row j begins at packed(j).
func packed(dim int) int { return dim * (dim + 1) / 2 }

// Add adds a payoff r, in Units, with features x.
func (l *Linear) Add(x []int8, r int64) {
	l.N++
	at := 0
	for j, a := range x {
		for _, b := range x[:j+1] {
			l.G[at] += int64(a) * int64(b)
			at++
		}
		l.H[j].Add(int64(a) * r)
	}
	l.Q.Add(squared(r))
}

// squared returns the square of r units, in Units, rounded.
func squared(r int64) int64 {
	size := uint64(max(r, -r))
	high, low := bits.Mul64(size, size)
	low, carry := bits.Add64(low, Units/2, 0)
	return int64((high+carry)<<34 | low>>30)
}

func (l *Linear) Plus(o *Linear) {
	l.N += o.N
	for k, g := range o.G {
		l.G[k] += g
	}
	for k := range o.H {
		l.H[k].Plus(o.H[k])
	}
	l.Q.Plus(o.Q)
}

func (l *Linear) Minus(o *Linear) {
	l.N -= o.N
	for k, g := range o.G {
		l.G[k] -= g
	}
	for k := range o.H {
		l.H[k].Minus(o.H[k])
	}
	l.Q.Minus(o.Q)
}

// Forget keeps a cell's differences among n payoffs, with sum r in Units and features' sums s, and removes their mean.
func (l *Linear) Forget(n, r int64, s []int64) {
	if n <= 0 {
		return
	}
	l.N--
	at := 0
	for j, a := range s {
		for _, b := range s[:j+1] {
			l.G[at] -= quotient(a, b, n)
			at++
		}
		l.H[j].Add(-quotient(a, r, n))
	}
	l.Q.Add(-int64(float64(r) / float64(n) * float64(r) / Units))
}

// quotient returns a·b/n, cut towards zero.
func quotient(a, b, n int64) int64 {
	high, low := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	if high >= uint64(n) { // inconsistent sums
		return 0
	}
	q, _ := bits.Div64(high, low, uint64(n))
	if a < 0 != (b < 0) {
		return -int64(q)
	}
	return int64(q)
}

// matrices writes Σxxᵀ and Σxr in units of 1, and returns Σr².
func (l *Linear) matrices(a, f []float64) (e float64) {
	for k, g := range l.G {
		a[k] = float64(g) * (1.0 / (features.One * features.One))
	}
	for k := range l.H {
		f[k] = l.H[k].Float() * (1.0 / (features.One * Units))
	}
	return l.Q.Float() * (1.0 / Units)
}
