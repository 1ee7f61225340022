package policy

import (
	"fmt"
	"iter"
	"math"
)

// Prior is a kind of prior for items' means.
type Prior uint8

const (
	// NoPrior uses payoffs alone: m̃_i is the empirical mean.
	NoPrior Prior = iota
	// EmpiricalPrior estimates the prior from all items, see Components.
	EmpiricalPrior
	// FixedPrior is N(Belief.Mean, Belief.SD²).
	FixedPrior
)

func (p Prior) String() string {
	switch p {
	case NoPrior:
		return "none"
	case EmpiricalPrior:
		return "empirical"
	case FixedPrior:
		return "fixed"
	}
	return fmt.Sprintf("Prior(%d)", uint8(p))
}

// Belief is the payoff model of MOSS, optimistic and Thompson sampling, in normalised units. Payoffs of item i are N(μ_i, σ²), or at least
// σ-sub-Gaussian, and means μ_i are drawn from N(m, τ²). With N_i payoffs that add up to R_i,
//
//	m̃_i = (R_i + κ·m)/(N_i + κ),  κ = σ²/τ²,
//
// is the item's posterior mean, and σ²/(N_i+κ) its variance. Without a prior κ is 0.
type Belief struct {
	// Sigma is σ; with EstimateSigma the initial value and upper bound, and later σ for items with few payoffs, see NewMOSS.
	Sigma float64
	// EstimateSigma estimates σ from the spread of payoffs within items.
	EstimateSigma bool
	Prior         Prior
	Mean, SD      float64 // FixedPrior's m and τ
}

// maxMean bounds a prior's mean, far beyond use.
const maxMean = 1e9

func (b *Belief) check() error {
	if !(b.Sigma >= 1/maxSigma && b.Sigma <= maxSigma) {
		return fmt.Errorf("policy: sigma must be from %g to %g payoff ranges, not %v", 1/maxSigma, maxSigma, b.Sigma)
	}
	switch b.Prior {
	case NoPrior, EmpiricalPrior:
		return nil
	case FixedPrior:
	default:
		return fmt.Errorf("policy: unknown prior %s", b.Prior)
	}
	if !(math.Abs(b.Mean) <= maxMean) {
		return fmt.Errorf("policy: the mean of the prior must be within ±%g payoff ranges, not %v", float64(maxMean), b.Mean)
	}
	if !(b.SD >= 1/maxSigma && b.SD <= maxSigma) {
		return fmt.Errorf("policy: the standard deviation of the prior must be from %g to %g payoff ranges, not %v",
			1/maxSigma, maxSigma, b.SD)
	}
	return nil
}

// expectation is a belief's parameters, all finite.
type expectation struct {
	variance float64 // σ² > 0
	kappa    float64 // κ ≥ 0; 0 without a prior
	pseudo   float64 // κ·m, the sum of κ prior payoffs
}

// expect returns the parameters for the table's present statistics. It takes O(1).
func (b *Belief) expect(t *Table) expectation {
	e := expectation{variance: b.Sigma * b.Sigma}
	if b.EstimateSigma {
		e.variance = t.within(e.variance)
	}
	switch b.Prior {
	case FixedPrior:
		e.kappa = e.variance / (b.SD * b.SD)
		e.pseudo = e.kappa * b.Mean
	case EmpiricalPrior:
		var m float64
		m, e.kappa = t.between(e.variance)
		e.pseudo = e.kappa * m
	}
	return e
}

// mean returns m̃_i and the weight W_i + κ + Open_i. For an item without payoffs and prior it is the mean of all payoffs if some
// are in flight, else infinite with weight 0.
func (e *expectation) mean(in *Input, i Item) (mean, weight float64) {
	return e.of(in.Table.Evidence(i), in.Table)
}

// of is mean for evidence of an item of t.
func (e *expectation) of(s Evidence, t *Table) (mean, weight float64) {
	weight = max(s.W, 0) + e.kappa
	switch {
	case weight > 0:
		return (s.R + e.pseudo) / weight, weight + s.Open
	case s.Open > 0:
		return t.Mean(), s.Open
	}
	return math.Inf(1), 0
}

// Estimates sets known to the estimates of items of t, by position, from evidence other than the table's.
func (c *Components) Estimates(evidence []Evidence, t *Table, known *Known) {
	e := expectation{variance: c.Sigma * c.Sigma, kappa: c.Kappa()}
	e.pseudo = e.kappa * c.Mean
	known.Variance, known.Kappa, known.Candidates = e.variance, e.kappa, known.Candidates[:0]
	for _, s := range evidence {
		mean, weight := e.of(s, t)
		known.Candidates = append(known.Candidates, Estimate{Mean: mean, Weight: weight})
	}
}

// expected returns the parameters for an impression.
func (b *Belief) expected(in *Input) expectation {
	if in.Known != nil {
		return expectation{variance: in.Known.Variance, kappa: in.Known.Kappa}
	}
	return b.expect(in.Table)
}

// at returns the mean and weight of the candidate at position k.
func (e *expectation) at(in *Input, k int32) (mean, weight float64) {
	if in.Known != nil {
		x := &in.Known.Candidates[k]
		return x.Mean, x.Weight
	}
	return e.mean(in, in.Items[k])
}

// Estimating is a Policy or EpsilonGreedy that decides by estimates of payoffs: Input.Known, or its belief's without one.
type Estimating interface {
	// Belief returns the policy's payoff model, Unbelieving if it has none.
	Belief() *Belief
}

// Unbelieving is the belief of policies without a prior: means and weights are those of the payoffs alone. Its variances, which these
// policies do not use, are the largest that payoffs within [0,1] can have.
var Unbelieving = &Belief{Sigma: 0.5}

// Estimate fills known with posterior means. An unknown candidate has an infinite mean and weight 0.
func (b *Belief) Estimate(in *Input, known *Known) {
	e := b.expect(in.Table)
	known.Variance, known.Kappa, known.Candidates = e.variance, e.kappa, sized(known.Candidates, len(in.Items))
	for k, i := range in.Items {
		x := &known.Candidates[k]
		x.Mean, x.Weight = e.mean(in, i)
	}
}

// inWords describes m̃_i.
func (b *Belief) inWords() string {
	if b.Prior == NoPrior {
		return "its mean payoff (unseen ones come first)"
	}
	return "its mean payoff, drawn towards that of all items where there are few"
}

// Components are the variance components of all items' payoffs: standard deviation Sigma within an item, and Tau of items' means around
// Mean.
//
// Mean and Tau are estimated by restricted maximum likelihood under Belief's model (H. D. Patterson, R. Thompson, Biometrika 1971).
// Policies sample good items more often, so an analysis of variance would bias means up (weighted by payoffs) or down (by items).
// Likelihood does not depend on the reason for a sample.
type Components struct{ Mean, Sigma, Tau float64 }

// Components returns those of the pooled sums. They are a function of the present sums, and take O(1), except for the first call,
// when the table begins to keep moments. Tau is infinite without a prior.
func (b *Belief) Components(t *Table) Components {
	e := b.expect(t)
	c := Components{Sigma: math.Sqrt(e.variance), Tau: math.Inf(1)}
	if e.kappa > 0 {
		c.Mean, c.Tau = e.pseudo/e.kappa, math.Sqrt(e.variance/e.kappa)
	}
	return c
}

// ComponentsOf returns those of some items' evidence, in any order. It takes O(items).
func (b *Belief) ComponentsOf(evidence iter.Seq[Evidence]) Components {
	t := Table{reading: reading{moments: &moments{}}}
	for e := range evidence {
		t.moments.replace(&Evidence{}, &e)
		t.weight += inUnits(max(0, e.W))
	}
	return b.Components(&t)
}

// assumedFreedom is the weight in items of the assumptions kappaAssumed and σ². Few items show little of how much items differ, and
// to take them for equal by mistake ends exploration. With 10 items in the laboratory regret doubles, and single runs never recover.
const (
	assumedFreedom = 4
	kappaAssumed   = 4 // τ = σ/2
)

// within estimates σ² > 0, at most the assumed value.
func (t *Table) within(assumed float64) float64 {
	m := t.keepMoments()
	freedom := float64(t.weightUnits()-m.items) / weightUnits
	if freedom <= 0 {
		return assumed
	}
	squares := max(0, m.within.float())
	return min(assumed, (squares+assumedFreedom*assumed)/(freedom+assumedFreedom))
}

// between estimates m and κ = σ²/τ² > 0, given σ². It computes once for the same moments.
func (t *Table) between(variance float64) (mean, kappa float64) {
	moments := t.keepMoments()
	if p := &moments.prior; p.variance != variance {
		p.variance = variance
		p.mean, p.kappa = moments.between(variance)
	}
	return moments.prior.mean, moments.prior.kappa
}

// between estimates m and κ, given σ².
//
// At each κ_j of the grid, likelihood gives a τ², and h_j = τ²·κ_j/σ²: the κ of maximum likelihood is below κ_j if h_j > 1, else
// above. Between grid points 1/h is taken as linear in 1/κ, which is exact for equal numbers of payoffs, and so is m. The
// assumption then counts as assumedFreedom items more.
func (m *moments) between(variance float64) (mean, kappa float64) {
	if m.items == 0 {
		return 0, kappaAssumed
	}
	var m0, h0 float64 // m and h at the previous κ
	last := len(kappas) - 1
	for j := range kappas {
		at, tau, ok := m.at[j].solve()
		if !ok {
			return m.at[0].only(), kappaAssumed
		}
		h := tau * kappas[j] / variance
		if h < 1 && j < last {
			m0, h0 = at, h
			continue
		}
		mean, kappa = at, kappas[j]
		if j > 0 && h > 1 {
			back := (1 - 1/h) / (1/h0 - 1/h) // fraction of the way back to the previous κ; h0 may be 0
			mean += back * (m0 - at)
			kappa = 1 / (1/kappas[j] + back*(1/kappas[j-1]-1/kappas[j]))
		}
		break
	}
	// An item of weight below 1, with payoffs in flight alone, shows nothing of the spread of items.
	freedom := max(0, float64(m.items-weightUnits)/weightUnits)
	return mean, (freedom + assumedFreedom) / (freedom/kappa + assumedFreedom/kappaAssumed)
}

// only returns the mean that needs no estimate of items' spread.
func (c *credible) only() float64 {
	if w := c.w.float(); w > 0 {
		return c.v.float() / w
	}
	return 0
}
