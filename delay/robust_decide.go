package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
)

// Random numbers of the decision's key. Smaller ones, which are positions, break ties.
const (
	coinNumber = 1<<32 + iota
	drawNumber
)

func (r *Robust) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	n := len(candidates)
	d.Order = slices.Grow(d.Order[:0], n)[:n]
	changed := r.read(candidates)
	q := r.point(candidates, changed)
	p, drawn := r.p, changed
	if !changed {
		p = r.rankUnchanged(candidates, q, key, d.Order)
		drawn = key.Float64(coinNumber) < 0.5
	}
	if drawn {
		r.sampler.SampleByWorth(r.p, q, r.worths.Values(), key.Float64(drawNumber), d.Order)
	}
	d.Propensities, d.Expected = slices.Grow(d.Propensities[:0], n)[:n], slices.Grow(d.Expected[:0], n)[:n]
	for k, at := range d.Order {
		d.Propensities[k], d.Expected[k] = p[at], r.scores[at]
	}
	r.windows.mix(q, d.Propensities)
	d.Instance, d.Explored = -1, false
}

// read reads the candidates, and returns whether the mean of any has changed.
func (r *Robust) read(candidates []policy.Item) (changed bool) {
	n := len(candidates)
	r.recent, r.means = slices.Grow(r.recent[:0], n)[:n], slices.Grow(r.means[:0], n)[:n]
	for k, i := range candidates {
		x := r.reading(i)
		r.recent[k], r.means[k] = x.Recent, x.allTime
		changed = changed || x.allTime.Changed
	}
	return changed
}

// point computes the scores and probabilities of the candidates that were read, and returns the windows for their number.
func (r *Robust) point(candidates []policy.Item, changed bool) (q []float64) {
	n := len(candidates)
	q, _ = r.windows.fold(n)
	decides := r.decides
	if !changed {
		decides = r.unchanged.lookAgain
	}
	r.scores, r.p = slices.Grow(r.scores[:0], n)[:n], slices.Grow(r.p[:0], n)[:n]
	shares := r.attraction.shares(candidates, &r.shares, changed)
	decides.PointPerImpression(r.recent, shares, r.now().Spread(), q, r.scores, r.p, &r.worths)
	return q
}

// rankUnchanged sets order to MOSS's ranking of the candidates that were read, and returns their selection probabilities over both halves.
func (r *Robust) rankUnchanged(candidates []policy.Item, q []float64, key policy.Key, order []int32) []float64 {
	u, in := &r.unchanged, &r.in
	in.Items, in.Key, in.Known = candidates, key, r.wholeEstimates(candidates)
	if r.attraction.differs() {
		in.Known = r.attraction.perImpression(candidates, in.Known, false)
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
		u.evidence = append(u.evidence, policy.Evidence{W: x.Worth, R: float64(x.Worth * x.Mean), Open: r.Evidence(i).Open})
	}
	r.now().Spread().Estimates(u.evidence, r.table, &u.estimates)
	return &u.estimates
}
