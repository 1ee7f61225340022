package lab

import (
	"cmp"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// preferenceNoise are users who differ: each has, for each candidate, a utility of his own around that of all.
type preferenceNoise struct {
	deviation float64 // in gaps between neighbours
	normal    func() float64
	own       []float64 // by position among the candidates, of the user at hand
	order     []int32   // scratch: positions in the order of own
}

// newTastes are those of a run; nil where all users like the items in the same order.
func newTastes(e *Experiment, run, candidates int) *preferenceNoise {
	deviation := e.tastes()
	if deviation == 0 {
		return nil
	}
	return &preferenceNoise{deviation: deviation, normal: normal(newStream(e.Seed, run, forOwnTastes)), own: make([]float64, candidates)}
}

// preferenceNoise is how much users' tastes vary: as it is said, or else as the scenario has it.
func (e *Experiment) tastes() float64 {
	if s := shops[e.Scenario]; s != nil && e.Tastes == 0 {
		return s.tastes
	}
	return e.Tastes
}

// next goes to the next user.
func (t *preferenceNoise) next() {
	for k := range t.own {
		t.own[k] = float64(k) + t.deviation*t.normal()
	}
}

// sorted are the positions in the order of the user's own utilities.
func (t *preferenceNoise) sorted() []int32 {
	t.order = t.order[:0]
	for k := range t.own {
		t.order = append(t.order, int32(k))
	}
	slices.SortFunc(t.order, func(a, b int32) int { return cmp.Compare(t.own[a], t.own[b]) })
	return t.order
}

// against tells whether regret is against the best fixed ranking. Where tastes vary that is not known in closed form, and
// regret is against the best ranking for each user.
func (e *Experiment) against() bool { return e.Scenario.AgainstFixed() && e.Tastes == 0 }

// utility is what the user at hand likes the candidate at a position by.
func (w *world) utility(position int32) float64 {
	if w.tastes != nil {
		return w.tastes.own[position]
	}
	return float64(position)
}

// selects is the position of what the user at hand selects from a ranking of positions.
func (w *world) selects(order []int32) int32 {
	if w.tastes == nil {
		return policy.Select(order, w.window)
	}
	best := order[0]
	for _, k := range order[:min(w.window, len(order))] {
		if w.utility(k) > w.utility(best) {
			best = k
		}
	}
	return best
}

// bestOwn is the mean that the best ranking for the user at hand, his own tastes known, brings for his window.
func (w *world) bestOwn() float64 {
	best := math.Inf(-1)
	for _, k := range w.tastes.sorted()[w.window-1:] {
		best = max(best, w.mean(k))
	}
	return best
}
