package policy

import "math"

// Explorer is a policy that ranks at random now and then, on purpose, so that every candidate is selected with a known
// probability. For that it needs to know the distribution of users' windows, folded for lists of as many candidates.
type Explorer interface {
	// Aim fills p, which is as long as q, with the probabilities with which the candidates, labelled in increasing
	// utility, are selected when a decision explores: a member of the admissible set of the folded windows q. It is a
	// function of q alone, so that it may be kept for as long as q stays as it is.
	Aim(q, p []float64, ws *Workspace)
	// Explore ranks as Policy.Rank does, or explores with the aim of q, and tells which. Propensities, as long as dst,
	// are filled with the probabilities that the selection falls on dst[k], whatever the coin: over the random numbers
	// that decide about exploration and over the window, but given those that break ties. They add up to 1.
	Explore(in *Input, q, aim []float64, ws *Workspace, dst []int32, propensities []float64) (explored bool)
}

// EpsilonGreedy is ε-greedy with uniform exploration (the paper's section 4.1). With probability ε_t it explores: the
// ranking is drawn so that every candidate is selected with the same probability, whatever the user's window; else it is
// the best one for the payoffs so far, which is Greedy's. For windows drawn from one distribution, for which uniform
// selection is admissible, the regret is O(T^{2/3}).
//
// The paper mixes n permutations for lazy windows, q_1 ≥ q_2 ≥ …. Uniform selection is admissible more often than that,
// exactly where q_1+…+q_k ≥ k/n for every k, and then one number draws the ranking from the comonotone coupling, see
// admissible.Sampler. Whether it is admissible depends on the list's length, because lists shorter than the longest
// window fold the tail of the windows onto the last one. Where it is not, exploration aims at the minimiser of
// F(p) = −2Σ√p_i over the admissible set, which comes near: nothing that any user can select is left out.
//
// An item without a payoff has no estimate yet; as in Greedy such items lead before all others, so that the first payoff
// of each is not left to chance.
type EpsilonGreedy struct{ exploit Greedy }

var epsilonGreedyKind = Spec{Name: "egreedy", Colour: "#e92e67",
	About:   "the paper's: the best so far, and now and then anything, equally often",
	Explore: func(*Parameters) (Explorer, error) { return NewEpsilonGreedy(), nil }}

var _ Explorer = (*EpsilonGreedy)(nil)

// NewEpsilonGreedy makes the policy.
func NewEpsilonGreedy() *EpsilonGreedy { return &EpsilonGreedy{} }

// Epsilon is the probability to explore, ε_t = min(1, (n·ln n/t)^{1/3}) for n candidates and t = 1 + fed, the number of
// payoffs fed for all items. The paper's is for a horizon T known beforehand and constant, of the order T^{-1/3}; this
// one has the same order at all times, and with the factor that balances what exploration costs with what estimates from
// t·ε_t/n samples each miss.
func (*EpsilonGreedy) Epsilon(n int, fed int64) float64 {
	t := 1 + max(float64(fed), 0)
	return min(1, math.Cbrt(float64(n)*math.Log(float64(n))/t))
}

// Numbers of the decision's key beyond those that break ties, which are positions.
const (
	coinNumber = 1<<32 + iota
	drawNumber
)

// Aim implements Explorer. It takes O(n).
func (*EpsilonGreedy) Aim(q, p []float64, ws *Workspace) { ws.solver.Explore(p, q) }

// Explore implements Explorer. It takes O(n).
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
