package lab

import (
	"cmp"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// preferenceNoise gives each user a utility of each candidate, around the mean.
type preferenceNoise struct {
	deviation float64 // in gaps between neighbours
	normal    func() float64
	own       []float64 // by position among the candidates, of the present user
	order     []int32   // scratch: positions in the order of own
}

// newTastes returns a run's; nil if all users share one order.
func newTastes(e *Experiment, run, candidates int) *preferenceNoise {
	deviation := e.tastes()
	if deviation == 0 {
		return nil
	}
	return &preferenceNoise{deviation: deviation, normal: normal(newStream(e.Seed, run, forOwnTastes)), own: make([]float64, candidates)}
}

// tastes returns the deviation of users' tastes: the experiment's, or the scenario's.
func (e *Experiment) tastes() float64 {
	if s := shops[e.Scenario]; s != nil && e.Tastes == 0 {
		return s.tastes
	}
	return e.Tastes
}

func (t *preferenceNoise) next() {
	for k := range t.own {
		t.own[k] = float64(k) + t.deviation*t.normal()
	}
}

// sorted returns the positions in the order of the user's utilities.
func (t *preferenceNoise) sorted() []int32 {
	t.order = t.order[:0]
	for k := range t.own {
		t.order = append(t.order, int32(k))
	}
	slices.SortFunc(t.order, func(a, b int32) int { return cmp.Compare(t.own[a], t.own[b]) })
	return t.order
}

// against returns whether regret is against the best fixed ranking. With varying tastes, where that has no closed form, it is
// against the best ranking for each user.
func (e *Experiment) against() bool { return e.Scenario.AgainstFixed() && e.Tastes == 0 }

// utility returns the present user's utility of a candidate.
func (w *world) utility(position int32) float64 {
	if w.tastes != nil {
		return w.tastes.own[position]
	}
	return float64(position)
}

// selects returns the position of the present user's selection from a ranking.
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

// bestOwn returns the mean payoff of the best ranking for the present user's tastes and window.
func (w *world) bestOwn() float64 {
	best := math.Inf(-1)
	for _, k := range w.tastes.sorted()[w.window-1:] {
		best = max(best, w.mean(k))
	}
	return best
}
