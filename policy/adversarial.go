package policy

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Adversarial is an algorithm for payoffs that an opponent may choose (paper, section 4). Its state is in a Vector, so that one
// Adversarial serves any number of instances.
//
// Coordinates are the keys of losses, items or utility ranks, in increasing utility. q is the window distribution folded to their
// number: their probabilities, in this order, must lie in its admissible set C.
type Adversarial interface {
	// Point fills p, as long as coordinates, with their selection probabilities: a point of C, up to rounding. It leaves v
	// unchanged and does not allocate once ws has grown to n.
	Point(v *Vector, coordinates []int32, q, p []float64, ws *AdversarialWorkspace)
	// Feed learns from the payoff, in [0,1], of coordinates[selected], whose probability was propensity in its decision. It returns
	// false, and counts no round, if there is no estimate, see Loss.
	Feed(v *Vector, coordinates []int32, selected int, payoff, propensity float64, q []float64,
		ws *AdversarialWorkspace) bool
	// Valid returns whether a finite number can be in a Vector that was fed.
	Valid(x float64) bool
	// Name is the policy's name in configurations and ranking records.
	Name() string
}

// AdversarialWorkspace is an Adversarial's memory and solver. Its owner passes it to one call at a time.
type AdversarialWorkspace struct {
	solver admissible.Solver // of the point of C that both algorithms need
	g      []float64         // the linear term
	now    []float64         // OSMD: the point at which a step starts
	which  []int32           // positions: of unknown coordinates, or of those kept
	kept   []float64         // OSMD: g, q and solution of those kept
	folded []float64
	point  []float64
	median []float64
}

const (
	// LeastPropensity is the smallest normal number, 2⁻¹⁰²². Smaller propensities have lost digits, and their reciprocals may
	// overflow: there is no loss estimate.
	LeastPropensity = 0x1p-1022
	// mostLoss bounds a loss estimate, and the sum of losses, so that neither sums nor the solver's squares overflow. Any larger
	// loss means "never again". An estimate comes near it only for propensities below 10⁻⁷⁷.
	mostLoss = 0x1p256
)

// Loss returns the unbiased estimate ℓ/propensity of the loss ℓ = 1 − payoff of the selected coordinate; that of all others is 0.
// (The paper's −payoff/propensity is unbiased, too, but leaves the mirror map's domain if the propensity is at most (η·payoff)²).
// ok is false unless the propensity is within [LeastPropensity, 1] and the payoff within [0,1].
func Loss(payoff, propensity float64) (estimate float64, ok bool) {
	// Rounding may leave a probability above 1.
	if !(propensity >= LeastPropensity && propensity <= 1+0x1p-40) || !(payoff >= 0 && payoff <= 1) {
		return 0, false
	}
	return min((1-payoff)/propensity, mostLoss), true
}

func clampLoss(x float64) float64 { return min(max(x, -mostLoss), mostLoss) }

// gather fills g with v's values of the coordinates, 0 if unknown, and ws.which with the positions of unknown ones.
func (ws *AdversarialWorkspace) gather(v *Vector, coordinates []int32, g []float64) {
	ws.which = v.gather(coordinates, g, ws.which[:0])
}

// startAtMedian sets unknown coordinates (ws.which), if not all are, to the lower median of the others' finite values in g.
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

// lowerMedian returns the lower median of x, which it reorders: quickselect (C. A. R. Hoare, "Algorithm 65: Find", CACM 1961) with
// the median of three as pivot; after too many bad cuts it sorts.
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
