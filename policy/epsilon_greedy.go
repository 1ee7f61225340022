package policy

import "math"

// EpsilonGreedy is ε-greedy with uniform exploration (section 4.1). With probability ε_t it explores: the ranking is drawn so that every
// candidate is selected with equal probability. Otherwise it ranks as greedy does (NewGreedy). For i.i.d. windows that admit uniform selection,
// regret is O(T^{2/3}). It needs the distribution of users' windows, folded to the list's length.
//
// The paper mixes n permutations for lazy windows, q_1 ≥ q_2 ≥ …. Uniform selection is admissible more often: exactly if q_1+…+q_k ≥ k/n
// for every k. Then one number draws the ranking from the comonotone coupling (admissible.Sampler). Lists shorter than the longest window
// fold its tail onto the last one, so admissibility depends on the length. If it is not admissible, exploration aims at the minimiser of
// F(p) = −2Σ√p_i over the admissible set. Every candidate that any user can select has p_i > 0 there.
//
// As with greedy, items without a payoff lead before all others.
type EpsilonGreedy struct{ exploit *Index }

var epsilonGreedySpec = Spec{Name: "egreedy", Colour: "#e92e67",
	About:   "the paper's: the best so far, and now and then anything, equally often",
	Explore: func(*Parameters) (*EpsilonGreedy, error) { return NewEpsilonGreedy(), nil }}

var (
	_ Explainer  = (*EpsilonGreedy)(nil)
	_ Estimating = (*EpsilonGreedy)(nil)
)

func NewEpsilonGreedy() *EpsilonGreedy { return &EpsilonGreedy{NewGreedy()} }

// Epsilon returns the exploration probability ε_t = min(1, (n·ln n/t)^{1/3}) for n candidates and t = 1 + fed, the payoffs fed for all
// items. The paper's ε is constant, of order T^{-1/3} for a known horizon T. This one has that order at all times. Its factor balances the
// cost of exploration with the error of estimates from t·ε_t/n samples each.
func (*EpsilonGreedy) Epsilon(n int, fed int64) float64 {
	t := 1 + max(float64(fed), 0)
	return min(1, math.Cbrt(float64(n)*math.Log(float64(n))/t))
}

// Random numbers of the decision's key. Smaller ones, which are positions, break ties.
const (
	coinNumber = 1<<32 + iota
	drawNumber
)

// Aim sets p, as long as q, to the selection probabilities of an exploring decision, for candidates in rising order of utility, in O(n). p is
// in the admissible set of the folded windows q, and depends on q alone: callers may cache it.
func (*EpsilonGreedy) Aim(q, p []float64, ws *Workspace) { ws.solver.Explore(p, q) }

// Explore ranks as Policy.Rank does, or explores with the aim of q, and returns which, in O(n). Propensities, as long as dst, are set to the
// probabilities that dst[k] is selected, over exploration's random numbers and the window, given those that break ties. They add up to 1.
func (e *EpsilonGreedy) Explore(in *Input, q, aim []float64, ws *Workspace, dst []int32, propensities []float64) bool {
	n := len(dst)
	e.exploit.Rank(in, ws, dst)
	ws.mass = sized(ws.mass, n)
	mass := ws.mass
	clear(mass)
	selected := dst[0]
	for w, position := range dst {
		selected = max(selected, position) // by window w+1
		mass[selected] += q[w]
	}
	epsilon := e.Epsilon(n, in.Table.Fed())
	for i, a := range aim {
		mass[i] = float64(epsilon*a) + float64((1-epsilon)*mass[i])
	}
	explored := in.Key.Float64(coinNumber) < epsilon
	if explored {
		ws.sampler.Sample(aim, q, in.Key.Float64(drawNumber), dst)
	}
	for k, position := range dst {
		propensities[k] = mass[position]
	}
	return explored
}

// Rule implements Explainer.
func (*EpsilonGreedy) Rule() string {
	return "some decisions, at random, are drawn so that each candidate is as likely to be selected, as near as windows " +
		"let it be; in all others the candidate with the highest mean payoff leads; unseen ones come first"
}

// Weigh implements Explainer.
func (e *EpsilonGreedy) Weigh(in *Input, ws *Workspace, why []Reason) { e.exploit.Weigh(in, ws, why) }

// Belief implements Estimating.
func (e *EpsilonGreedy) Belief() *Belief { return e.exploit.belief }
