package contextual

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Units are in a payoff of 1: payoffs are rounded to one of them, once.
const Units = 1 << 30

// Linear is the sums over all payoffs. Feature numbers are in units of 1/127, payoffs and their squares in Units.
type Linear struct {
	N int64   // payoffs, less one for each item that was forgotten
	G []int64 // Σxxᵀ, of the lower triangle, row by row
	H []Wide  // Σxr
	Q Wide    // Σr²
}

// NewLinear is the sums of no payoffs, of so many features.
func NewLinear(dim int) *Linear {
	return &Linear{G: make([]int64, packed(dim)), H: make([]Wide, dim)}
}

// Clear takes all payoffs out.
func (l *Linear) Clear() {
	l.N, l.Q = 0, Wide{}
	clear(l.G)
	clear(l.H)
}

// packed is how many numbers a triangle has, diagonal included; row j begins at packed(j).
func packed(dim int) int { return dim * (dim + 1) / 2 }

// Add adds a payoff, in Units, of features x.
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

// squared is the square of so many units, in Units, rounded.
func squared(r int64) int64 {
	size := uint64(max(r, -r))
	high, low := bits.Mul64(size, size)
	low, carry := bits.Add64(low, Units/2, 0)
	return int64((high+carry)<<34 | low>>30)
}

// Plus adds another's sums.
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

// Minus takes another's sums out again.
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

// Forget takes out what the payoffs of a cell tell by their mean, so that what they tell by how they differ stays when the cell itself
// is forgotten: n payoffs that sum up to r, in Units, of features that sum up to s.
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

// quotient is a·b/n, cut towards zero.
func quotient(a, b, n int64) int64 {
	high, low := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	if high >= uint64(n) { // of sums that are none of n payoffs
		return 0
	}
	q, _ := bits.Div64(high, low, uint64(n))
	if a < 0 != (b < 0) {
		return -int64(q)
	}
	return int64(q)
}

// matrices writes Σxxᵀ and Σxr as they are in units of 1, and gives Σr².
func (l *Linear) matrices(a, f []float64) (e float64) {
	for k, g := range l.G {
		a[k] = float64(g) * (1.0 / (features.One * features.One))
	}
	for k := range l.H {
		f[k] = l.H[k].Float() * (1.0 / (features.One * Units))
	}
	return l.Q.Float() * (1.0 / Units)
}
