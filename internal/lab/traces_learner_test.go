//go:build !race

package lab

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// binned is a selection whose bins have not all ended.
type binned struct {
	item  policy.Item
	began int64
	held  binVector
	ended int
}

// traces is a learner with the model; all but the model is as in delay.Direct. It plays only scenarios whose payoffs' range begins
// at 0.
type traces struct {
	delay.Learner // the methods that are not used
	policy        policy.Policy
	in            policy.Input
	space         policy.Workspace
	ends          []int64
	clock         int64
	all           []binned // by impression
	next          [mostBins]int
	items         []binSums
	selections    []float64
	products      [mostBins]binMatrix
	model         traceModel
	known         bool // the model is given
	ended, fitAt  float64
}

func newTraces(t *testing.T, s Scenario, ends []int64, given *traceModel) func() delay.Learner {
	p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true})
	require.NoError(t, err)
	return func() delay.Learner {
		x := &traces{Learner: delay.NewDirect(p, delay.Silence{}), policy: p, clock: int64(s.clock())}
		for _, end := range ends {
			x.ends = append(x.ends, end*x.clock)
		}
		x.model.bins = len(ends)
		if given != nil {
			x.model, x.known = *given, true
		}
		x.in.Table = policy.NewTable(0)
		return x
	}
}

func (x *traces) Grow(items int) {
	x.items, x.selections = make([]binSums, items), make([]float64, items)
	x.fit()
	x.in.Table.EvidenceBy(x.evidence)
	x.in.Table.Grow(items)
}

// evidence gives the policy the posterior mean as an item's mean, and counts each selection as one payoff.
func (x *traces) evidence(i policy.Item) policy.Evidence {
	m := &x.model
	means, _ := m.item(&x.items[i])
	var mean float64
	for k := range m.bins {
		mean += means[k]
	}
	e := policy.Evidence{W: max(x.items[i].ended[0], 1./(1<<20))}
	e.R = min(max(mean, 0), 1) * e.W
	e.Q = e.R*e.R/e.W + max(e.W-1, 0)*m.within.sum(m.bins)
	e.Open = x.selections[i] + m.kappa() - e.W
	return e
}

func (x *traces) Decide(candidates []policy.Item, _ *policy.Context, key policy.Key, d *delay.Decision) {
	d.Order = slices.Grow(d.Order[:0], len(candidates))[:len(candidates)]
	d.Propensities, d.Expected, d.Instance = nil, nil, -1
	x.in.Items, x.in.Key = candidates, key
	x.policy.Rank(&x.in, &x.space, d.Order)
}

func (x *traces) Selected(fb delay.Feedback) {
	x.selections[fb.Item]++
	x.all = append(x.all, binned{item: fb.Item, began: fb.Began})
	x.in.Table.Weigh(fb.Item)
}

func (x *traces) Partial(fb delay.Feedback) {
	s := &x.all[fb.Ref-1]
	k := s.ended
	for k < len(x.ends)-1 && fb.Age-x.clock >= x.ends[k] { // it is counted with the next impression
		k++
	}
	s.held[k] += fb.Payoff - fb.Before
}

func (x *traces) Paid(fb delay.Feedback) {
	for s := &x.all[fb.Ref-1]; s.ended < len(x.ends); {
		x.end(s)
	}
	x.in.Table.Weigh(fb.Item)
}

// end counts the next bin of a selection.
func (x *traces) end(s *binned) {
	k, of := s.ended, &x.items[s.item]
	s.ended++
	of.ended[k]++
	for j := 0; j <= k; j++ {
		of.held[k][j] += s.held[j]
		for l := 0; l <= k; l++ {
			x.products[k][j][l] += s.held[j] * s.held[l]
		}
	}
	x.ended++
}

func (x *traces) Advance(watermark int64) {
	for k := range len(x.ends) - 1 {
		for ; x.next[k] < len(x.all) && x.all[x.next[k]].began+x.ends[k] <= watermark; x.next[k]++ {
			x.end(&x.all[x.next[k]])
			x.in.Table.Weigh(x.all[x.next[k]].item)
		}
	}
	if x.ended >= x.fitAt {
		x.fit()
		for i := range x.items {
			x.in.Table.Weigh(policy.Item(i))
		}
	}
}

func (x *traces) Status() delay.Status { return delay.Status{} }

// fit finds the model of maximum likelihood, whenever an eighth more bins have ended. Its prior: a selection's sum has deviation a
// quarter, and items' means an eighth. Each bin has its share of these, and an item's bins have a correlation of 0.8. The prior is
// worth four selections and four items.
func (x *traces) fit() {
	x.fitAt = x.ended + max(1, x.ended/8)
	m := &x.model
	if x.known {
		m.ready()
		return
	}
	mean, length, last := x.profile()
	var share binVector
	var total float64
	for k := range m.bins {
		share[k] = max(mean[k], 1e-4)
		total += share[k]
	}
	var within, between binMatrix
	for i := range m.bins {
		share[i] /= total
		within[i][i] = share[i] / 16
	}
	for i := range m.bins {
		for j := range m.bins {
			between[i][j] = 0.8 * share[i] * share[j] / 64
		}
		between[i][i] /= 0.8
	}
	m.mean, m.between, m.within = mean, between, x.scatter(&within)
	for round := 0; round < 6 && x.ended > 0; round++ {
		m.ready()
		x.improve(length, last, &between)
	}
	m.ready()
}

// profile is the mean content of bins over all items, plus a prior of twenty selections in proportion to the bins' lengths. Bins of
// which none has ended continue the last one that has.
func (x *traces) profile() (mean, length binVector, last int) {
	last = -1
	rate, from := 1.0, int64(0)
	for k, end := range x.ends {
		length[k] = float64(end-from) / float64(x.ends[len(x.ends)-1])
		from = end
		var n, held float64
		for i := range x.items {
			n += x.items[i].ended[k]
			held += x.items[i].held[k][k]
		}
		if n > 0 {
			if last < 0 {
				rate = held / n / length[k]
			}
			mean[k] = (held + 20*max(rate, 0)*length[k]) / (n + 20)
			rate, last = mean[k]/length[k], k
		} else {
			mean[k] = rate * length[k]
		}
	}
	return mean, length, last
}

// scatter is the covariance within items of maximum likelihood. Missing bins are always the later ones, so that each is regressed
// on those before it, by all selections for which it has ended.
func (x *traces) scatter(assumed *binMatrix) (s binMatrix) {
	for k := range x.model.bins {
		w, freedom := x.products[k], 4.
		for i := range x.items {
			of := &x.items[i]
			if of.ended[k] == 0 {
				continue
			}
			freedom += of.ended[k] - 1
			for j := 0; j <= k; j++ {
				for l := 0; l <= k; l++ {
					w[j][l] -= of.held[k][j] * of.held[k][l] / of.ended[k]
				}
			}
		}
		for j := 0; j <= k; j++ {
			w[j][j] += 4 * assumed[j][j]
		}
		inverse, with := w.inverse(k), binVector{}
		for j := range k {
			with[j] = w[j][k]
		}
		slope := inverse.times(k, &with)
		rest := w[k][k]
		for j := range k {
			rest -= slope[j] * with[j]
		}
		covariance := s.times(k, &slope)
		s[k][k] = max(rest, 1e-12) / freedom
		for j := range k {
			s[j][k], s[k][j] = covariance[j], covariance[j]
			s[k][k] += slope[j] * covariance[j]
		}
	}
	return s
}

// improve is a step of expectation and maximisation for the distribution of items' means.
func (x *traces) improve(length binVector, last int, assumed *binMatrix) {
	m := &x.model
	var all []binVector
	var sum, mean binVector
	var spread binMatrix
	for a := range m.bins {
		for b := range m.bins {
			spread[a][b] = 4 * assumed[a][b]
		}
	}
	for i := range x.items {
		if x.items[i].ended[0] == 0 {
			continue
		}
		means, variance := m.item(&x.items[i])
		all = append(all, means)
		for a := range m.bins {
			sum[a] += means[a]
			for b := range m.bins {
				spread[a][b] += variance[a][b]
			}
		}
	}
	n := float64(len(all))
	var rate float64
	for k := range m.bins {
		if mean[k] = sum[k] / n; k > last {
			mean[k] = rate * length[k]
		}
		rate = mean[k] / length[k]
	}
	for a := range m.bins {
		for b := range m.bins {
			for _, x := range all {
				spread[a][b] += (x[a] - mean[a]) * (x[b] - mean[b])
			}
			m.between[a][b] = spread[a][b] / (n + 4)
		}
	}
	m.mean = mean
}
