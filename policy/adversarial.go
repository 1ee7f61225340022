package policy

import (
	"math"
	"slices"
)

// Adversarial is a learner for payoffs that may be chosen by an opponent (the paper's section 4), without its memory:
// what it knows is in a Vector, so that one Adversarial serves any number of instances.
//
// Coordinates name what losses belong to: items, or utility ranks. They are given in increasing utility, and q is the
// window distribution folded for lists of their number: the probabilities of the coordinates, in this order, must lie in
// its admissible set C.
type Adversarial interface {
	// Point fills p, which is as long as coordinates, with the probabilities with which the coordinates are to be
	// selected: a point of C, up to rounding. It leaves v as it is and does not allocate once ws has grown to n.
	Point(v *Vector, coordinates []int32, q, p []float64, ws *AdversarialWorkspace)
	// Feed takes in the payoff, in [0,1], of coordinates[selected], which was selected with probability propensity when
	// that decision was made. It tells whether it made use of it, see Loss, and then counts it among v's rounds.
	Feed(v *Vector, coordinates []int32, selected int, payoff, propensity float64, q []float64,
		ws *AdversarialWorkspace) bool
	// Valid tells whether a finite number can be one of a Vector that was fed.
	Valid(x float64) bool
	// Name is the policy's name in configurations and ranking records.
	Name() string
}

// Projector finds the point of C that both algorithms need: Solve fills p with
// argmin over p in C of ⟨g,p⟩ − (2/eta)·Σ√p_i, C = {p in the simplex : p_1+…+p_k ≤ q_1+…+q_k for every k}. Package
// admissible has one.
type Projector interface {
	Solve(p, g, q []float64, eta float64)
}

// AdversarialWorkspace is the memory that an Adversarial works in, and the solver, which may keep its own. Its owner
// passes it to one call at a time and keeps it.
type AdversarialWorkspace struct {
	Solver Projector

	g      []float64 // what is solved for
	now    []float64 // OSMD: the point that a step starts at
	which  []int32   // positions: of what is not known, or of what is kept
	kept   []float64 // OSMD: g, q and solution of what is kept
	folded []float64
	point  []float64
	median []float64
}

const (
	// LeastPropensity is the smallest normal number, 2⁻¹⁰²². The loss of a propensity below it is not estimated: numbers
	// that small have lost digits already, and their reciprocals may not be finite.
	LeastPropensity = 0x1p-1022
	// MostLoss bounds a loss estimate, and what losses add up to: beyond it a loss means "never again" whatever its size,
	// and with it neither sums nor the squares that the solver needs can overflow. A propensity would have to be below
	// 10⁻⁷⁷ for an estimate to come near it.
	MostLoss = 0x1p256
)

// Loss is the unbiased estimate of the loss ℓ = 1 − payoff of what was selected with the given probability: ℓ/propensity;
// that of everything else is 0. (The paper's −payoff/propensity is unbiased too, but leaves the domain of the mirror map
// where the propensity is at most (η·payoff)².) It is bounded by MostLoss. ok is false, and there is no estimate, where
// the propensity is not within [LeastPropensity, 1] or the payoff not within [0,1]: such a payoff is not fed.
func Loss(payoff, propensity float64) (estimate float64, ok bool) {
	// A probability may exceed 1 by what rounding leaves.
	if !(propensity >= LeastPropensity && propensity <= 1+0x1p-40) || !(payoff >= 0 && payoff <= 1) {
		return 0, false
	}
	return min((1-payoff)/propensity, MostLoss), true
}

// clampLoss keeps a cumulative loss finite.
func clampLoss(x float64) float64 { return min(max(x, -MostLoss), MostLoss) }

// gather fills g with what v knows of the coordinates, and notes in ws.which the positions of those of which it knows
// nothing; their g is 0.
func (ws *AdversarialWorkspace) gather(v *Vector, coordinates []int32, g []float64) {
	ws.which = v.gather(coordinates, g, ws.which[:0])
}

// startAtMedian gives those of which nothing is known (ws.which) the median of the others in g, the lower one of two,
// infinities not counted. They keep what they have where there are none.
func (ws *AdversarialWorkspace) startAtMedian(g []float64) {
	if len(ws.which) == 0 || len(ws.which) == len(g) {
		return
	}
	known := ws.median[:0]
	next := 0
	for k, x := range g {
		if next < len(ws.which) && int(ws.which[next]) == k {
			next++
			continue
		}
		if !math.IsInf(x, 0) {
			known = append(known, x)
		}
	}
	ws.median = known
	if len(known) == 0 {
		return
	}
	m := lowerMedian(known)
	for _, k := range ws.which {
		g[k] = m
	}
}

// lowerMedian is the median of x, the lower one of two. It reorders x. Quickselect (C. A. R. Hoare, "Algorithm 65:
// Find", CACM 1961) on the middle of three; after too many bad cuts, which no natural input has, it sorts.
func lowerMedian(x []float64) float64 {
	want := (len(x) - 1) / 2
	for cuts := 0; len(x) > 12; cuts++ {
		if cuts > 40 {
			break
		}
		a, b, c := x[0], x[len(x)/2], x[len(x)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := 0, len(x)-1
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case want <= j:
			x = x[:j+1]
		case want >= i:
			x, want = x[i:], want-i
		default:
			return pivot
		}
	}
	slices.Sort(x)
	return x[want]
}
