package policy

import (
	"fmt"
	"iter"
	"math"
)

// Prior is a kind of belief about items' means before there are payoffs of them.
type Prior uint8

const (
	// NoPrior believes payoffs alone: m̃_i is the empirical mean.
	NoPrior Prior = iota
	// EmpiricalPrior learns from all items what items are like, see Components.
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

// Belief says what MOSS, Optimistic and Thompson assume of payoffs, in normalised units: a payoff of item i is
// N(μ_i, σ²) or no wilder, and the means μ_i themselves are drawn from N(m, τ²). With N_i payoffs that add up to R_i,
//
//	m̃_i = (R_i + κ·m)/(N_i + κ),  κ = σ²/τ²,
//
// is then the expected mean of the item, and σ²/(N_i+κ) its variance. Without a prior κ is 0.
type Belief struct {
	// Sigma is σ. With EstimateSigma it is what is assumed until payoffs tell, and the most that is ever assumed; of an item with
	// few payoffs, see MOSS, also later.
	Sigma float64
	// EstimateSigma takes σ from how much payoffs of the same item differ.
	EstimateSigma bool
	Prior         Prior
	Mean, SD      float64 // FixedPrior's m and τ
}

// maxMean bounds a prior's mean: far beyond use.
const maxMean = 1e9

// check says what is wrong with b.
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

// expectation is a belief with its numbers filled in, all of them finite.
type expectation struct {
	variance float64 // σ² > 0
	kappa    float64 // κ ≥ 0; 0 is no prior
	pseudo   float64 // κ·m: the sum of so many payoffs, so to speak
}

// expect fills in the numbers from the table's statistics as they are now. It takes O(1).
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

// mean is m̃_i of an item, and the weight of what is known of it and what is on its way, W_i + κ + Open_i. Of an item of which
// nothing is known, neither payoffs nor a prior, it is the mean of all payoffs where some are on their way. Else it is infinite,
// with weight 0.
func (e *expectation) mean(in *Input, i Item) (mean, weight float64) {
	s := in.Table.Evidence(i)
	weight = max(s.W, 0) + e.kappa
	switch {
	case weight > 0:
		return (s.R + e.pseudo) / weight, weight + s.Open
	case s.Open > 0:
		return in.Table.Mean(), s.Open
	}
	return math.Inf(1), 0
}

// expected fills in the numbers for an impression.
func (b *Belief) expected(in *Input) expectation {
	if in.Known != nil {
		return expectation{variance: in.Known.Variance, kappa: in.Known.Kappa}
	}
	return b.expect(in.Table)
}

// at is the mean and the weight of the candidate at position k.
func (e *expectation) at(in *Input, k int32) (mean, weight float64) {
	if in.Known != nil {
		x := &in.Known.Candidates[k]
		return x.Mean, x.Weight
	}
	return e.mean(in, in.Items[k])
}

// believed is a candidate's mean payoff, and its weight, for policies without a belief; see expectation.mean.
func believed(in *Input, k int32) (mean, weight float64) {
	var nothing expectation
	return nothing.at(in, k)
}

// Estimating is a Policy or an Explorer that decides by estimates of candidates' payoffs (Known), its own where it is given none.
type Estimating interface {
	// Estimate fills known with its own.
	Estimate(in *Input, known *Known)
}

var (
	_ Estimating = (*MOSS)(nil)
	_ Estimating = (*Optimistic)(nil)
	_ Estimating = (*Thompson)(nil)
	_ Estimating = (*KLUCB)(nil)
	_ Estimating = (*Greedy)(nil)
	_ Estimating = (*EpsilonGreedy)(nil)
)

// Estimate implements Estimating.
func (m *MOSS) Estimate(in *Input, known *Known) { m.belief.estimate(in, known) }

// Estimate implements Estimating.
func (o *Optimistic) Estimate(in *Input, known *Known) { o.belief.estimate(in, known) }

// Estimate implements Estimating.
func (p *Thompson) Estimate(in *Input, known *Known) { p.belief.estimate(in, known) }

// Estimate implements Estimating.
func (*KLUCB) Estimate(in *Input, known *Known) { unbelieving.estimate(in, known) }

// Estimate implements Estimating.
func (*Greedy) Estimate(in *Input, known *Known) { unbelieving.estimate(in, known) }

// Estimate implements Estimating.
func (*EpsilonGreedy) Estimate(in *Input, known *Known) { unbelieving.estimate(in, known) }

// unbelieving is the belief of policies without one: means and weights are those of payoffs alone, as believed has them. Variances, which
// these policies do not look at, are as large as payoffs within [0,1] can have them.
var unbelieving = Belief{Sigma: 0.5}

// estimate fills known with what is believed of the candidates. Of one of which nothing is known the mean is infinite, with weight 0.
func (b *Belief) estimate(in *Input, known *Known) {
	e := b.expect(in.Table)
	known.Variance, known.Kappa, known.Candidates = e.variance, e.kappa, known.Candidates[:0]
	for _, i := range in.Items {
		mean, weight := e.mean(in, i)
		known.Candidates = append(known.Candidates, Estimate{Mean: mean, Weight: weight})
	}
}

// Believer is a policy with a Belief, which can show what the belief comes to.
type Believer interface {
	// Components are what payoffs are believed to be like, from the table's statistics.
	Components(t *Table) Components
}

// Components implements Believer.
func (m *MOSS) Components(t *Table) Components { return m.belief.Components(t) }

// Components implements Believer.
func (o *Optimistic) Components(t *Table) Components { return o.belief.Components(t) }

// Components implements Believer.
func (p *Thompson) Components(t *Table) Components { return p.belief.Components(t) }

var (
	_ Believer = (*MOSS)(nil)
	_ Believer = (*Optimistic)(nil)
	_ Believer = (*Thompson)(nil)
)

// inWords says what m̃_i is.
func (b *Belief) inWords() string {
	if b.Prior == NoPrior {
		return "its mean payoff (unseen ones come first)"
	}
	return "its mean payoff, drawn towards that of all items where there are few"
}

// Components are what the payoffs of all items together tell of payoffs: they vary by Sigma within an item, and items'
// means vary by Tau around Mean.
//
// The estimate of Mean and Tau is the likeliest under the model that a Belief assumes (restricted maximum likelihood, as
// in H. D. Patterson, R. Thompson, Biometrika 1971). Policies do not sample at random: what looks good is sampled again,
// what looks bad is left with few payoffs, and an analysis of variance, which takes items as they come, then finds means
// too high (weighed by payoffs) or too low (weighed by items). Likelihood does not depend on why an item was sampled.
type Components struct{ Mean, Sigma, Tau float64 }

// Components are those of the pooled sums, given a belief. They depend on what the sums are alone, not on how they came
// about, and take O(1) but for the first time, when the table begins to keep what they need. Tau is infinite without a
// prior.
func (b *Belief) Components(t *Table) Components {
	e := b.expect(t)
	c := Components{Sigma: math.Sqrt(e.variance), Tau: math.Inf(1)}
	if e.kappa > 0 {
		c.Mean, c.Tau = e.pseudo/e.kappa, math.Sqrt(e.variance/e.kappa)
	}
	return c
}

// ComponentsOf are those of the evidence of so many items, in any order. It goes through all of it.
func (b *Belief) ComponentsOf(evidence iter.Seq[Evidence]) Components {
	t := Table{moments: &moments{}}
	for e := range evidence {
		t.moments.replace(&Evidence{}, &e)
		t.weight += inUnits(max(0, e.W))
	}
	return b.Components(&t)
}

// assumedFreedom is how many items' worth of evidence the assumptions are, as which kappaAssumed and the assumed σ² enter
// estimates. Few items tell little of how much items differ, and to believe by mistake that they are all alike ends
// exploration: with 10 items in the laboratory, regret doubles and single runs never recover.
const (
	assumedFreedom = 4
	kappaAssumed   = 4 // τ = σ/2
)

// within estimates σ², given what is assumed of it, which is also the most that is believed. It is positive.
func (t *Table) within(assumed float64) float64 {
	m := t.keepMoments()
	freedom := float64(t.weightUnits()-m.items) / weightUnits
	if freedom <= 0 {
		return assumed
	}
	squares := max(0, m.within.float())
	return min(assumed, (squares+assumedFreedom*assumed)/(freedom+assumedFreedom))
}

// between estimates m and κ = σ²/τ² > 0, given σ².
//
// At each κ_j of the grid, likelihood gives a τ², and h_j = τ²·κ_j/σ² says where the likeliest κ is: below κ_j if h_j is
// above 1, else above. Between two of the grid 1/h is taken to be linear in 1/κ, which it is where all items have as many
// payoffs, and m with it. The assumption then counts as so many items more.
func (t *Table) between(variance float64) (mean, kappa float64) {
	moments := t.keepMoments()
	if moments.items == 0 {
		return 0, kappaAssumed
	}
	var m0, h0 float64 // m and h at the last κ
	last := len(kappas) - 1
	for j := range kappas {
		m, tau, ok := moments.at[j].solve()
		if !ok {
			return moments.at[0].only(), kappaAssumed
		}
		h := tau * kappas[j] / variance
		if h < 1 && j < last {
			m0, h0 = m, h
			continue
		}
		mean, kappa = m, kappas[j]
		if j > 0 && h > 1 {
			back := (1 - 1/h) / (1/h0 - 1/h) // how far to go back to the last κ; h0 may be 0
			mean += back * (m0 - m)
			kappa = 1 / (1/kappas[j] + back*(1/kappas[j-1]-1/kappas[j]))
		}
		break
	}
	// A part of an item, of which awaited payoffs alone are known, tells nothing of how much items differ.
	freedom := max(0, float64(moments.items-weightUnits)/weightUnits)
	return mean, (freedom + assumedFreedom) / (freedom/kappa + assumedFreedom/kappaAssumed)
}

// only is the mean where it takes no telling how much items differ.
func (c *credible) only() float64 {
	if w := c.w.float(); w > 0 {
		return c.v.float() / w
	}
	return 0
}
