package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
)

// unchanged decides for Robust where no candidate's mean has changed (policy.AllTime). One half of the rankings are MOSS's, by the means of
// whole pasts, which explores items without payoffs better. The other half are drawn from policy.Robust.LookingAgain's point, which looks at
// every candidate again. Propensities are those of both halves together.
type unchanged struct {
	lookAgain *policy.Robust
	evidence  []policy.Evidence
	estimates policy.Known
	shown, p  []float64
}

// Random numbers of the decision's key. Smaller ones, which are positions, break ties.
const (
	coinNumber = 1<<32 + iota
	drawNumber
)

// rankUnchanged sets order to MOSS's ranking of the candidates that were read, and returns their selection probabilities over both halves.
func (r *Robust) rankUnchanged(candidates []policy.Item, q []float64, key policy.Key, order []int32) []float64 {
	u, in := &r.unchanged, &r.in
	in.Items, in.Key, in.Known = candidates, key, r.wholeEstimates(candidates)
	if r.attraction.differs() {
		in.Known = r.attraction.perImpression(candidates, in.Known)
	}
	r.policy.Rank(in, &r.ws, order)
	in.Items = nil // they are the caller's
	u.shown = propensity.Of(slices.Grow(u.shown[:0], len(order)), order, q, 0)
	u.p = slices.Grow(u.p[:0], len(order))[:len(order)]
	for k, at := range order {
		u.p[at] = 0.5 * (u.shown[k] + r.p[at])
	}
	return u.p
}

// wholeEstimates returns estimates of payoff per selection from the whole past of the candidates, which were read. As with Direct, a
// selection in flight counts whole in their weights.
func (r *Robust) wholeEstimates(candidates []policy.Item) *policy.Known {
	u := &r.unchanged
	u.evidence = u.evidence[:0]
	for k, i := range candidates {
		x := &r.means[k]
		of, n := r, i
		if r.flights.pooled { // else our own count alone
			of, n = r.keeper(i)
		}
		u.evidence = append(u.evidence, policy.Evidence{W: x.Worth, R: float64(x.Worth * x.Mean), Open: of.flights.evidence(n).Open})
	}
	r.now().Spread().Estimates(u.evidence, r.table, &u.estimates)
	return &u.estimates
}
