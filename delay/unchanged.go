package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
)

// unchanged decides for Robust where no candidate's mean has changed (policy.Whole). One half of the rankings are MOSS's, by the means of
// whole pasts, which explores items without payoffs better. The other half are drawn from policy.Robust.Known's point, which looks at
// every candidate again. Propensities are those of both halves together.
type unchanged struct {
	known     *policy.Robust
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
	in.Items, in.Key, in.Known = candidates, key, r.wholeEstimates()
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

// wholeEstimates returns estimates of payoff per selection from the whole past of the candidates that were read.
func (r *Robust) wholeEstimates() *policy.Known {
	c, k := r.estimate.Spread(), &r.unchanged.estimates
	k.Variance, k.Kappa, k.Candidates = c.Sigma*c.Sigma, c.Kappa(), k.Candidates[:0]
	prior := float64(k.Kappa * c.Mean)
	for i := range r.means {
		x := &r.means[i]
		e := policy.Estimate{Weight: x.Worth + k.Kappa}
		if e.Weight > 0 {
			e.Mean = (float64(x.Worth*x.Mean) + prior) / e.Weight
		}
		k.Candidates = append(k.Candidates, e)
	}
	return k
}
