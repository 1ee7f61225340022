package lab

import (
	"cmp"
	"slices"
)

// preferenceNoise gives each user a utility of each candidate, around the mean.
type preferenceNoise struct {
	deviation float64 // in gaps between neighbours
	normal    func() float64
	own       []float64 // by position among the candidates, of the present user
}

// newTastes returns a run's; nil if all users share one order. The deviation is the experiment's, or the scenario's.
func newTastes(e *Experiment, run, candidates int) *preferenceNoise {
	deviation := e.Tastes
	if s := e.Scenario.definition().shop; s != nil && deviation == 0 {
		deviation = s.tastes
	}
	if deviation == 0 {
		return nil
	}
	return &preferenceNoise{deviation: deviation, normal: normalOf(newStream(e.Seed, run, forOwnTastes)), own: make([]float64, candidates)}
}

// next draws the next user's utilities, and sorts all positions by them.
func (t *preferenceNoise) next(order []int32) {
	for k := range t.own {
		t.own[k] = float64(k) + t.deviation*t.normal()
		order[k] = int32(k)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(t.own[a], t.own[b]) })
}

// against returns whether regret is against the best fixed ranking. With varying tastes, where that has no closed form, it is
// against the best ranking for each user.
func (e *Experiment) against() bool { return e.Scenario.AgainstFixed() && e.Tastes == 0 }
