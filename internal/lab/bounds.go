package lab

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
)

// Upper returns an upper bound on the regret after t impressions, if an explicit one holds for the combination, else nil.
//
// Elimination has 64·σ²·L·Σ1/Δ with L = log(4nt²/δ), and 32·L·Σ1/Δ with the paper's radius: with probability 1−δ, or with δ = 1/t
// in expectation (plus Δ_max·π²/12 for failing radii). The sum is Theorem 3.2's for fixed utilities and Theorem 3.1's for changing
// ones. σ must be at least the scenario's; the paper's radius, for σ = 1/√2, also gets its bound on N(μ,1), where its good event is
// less likely than 1−δ. QPM-D adds n·K for a constant delay K with lazy windows.
//
// osmd has B(T) = 2√(2nT) at a known T, and √2/(√2−1) times that at any time; ftrl with c = 1 has 4√(nT). BOLD with enough
// instances has (K+1)·B(T/(K+1)). They hold against fixed rankings of items, or of ranks for losses by rank. There is none if the
// order of utilities is unknown, users select at random or by their own tastes, or payoffs may never come. Several partitions have none:
// each learns at first from its own payoffs.
func (e *Experiment) Upper(c *Combination) func(t float64) float64 {
	if c.Learner.Utilities != config.Given || e.Noise > 0 || e.Tastes > 0 || e.horizon() > 0 || e.divisor() != 1 || e.Partitions > 1 {
		return nil
	}
	switch c.Learner.Policy {
	case config.Elimination:
		return e.upperElimination(&c.Learner)
	case config.OSMD, config.FTRL:
		return e.upperAdversarial(c)
	}
	return nil
}

func (e *Experiment) upperElimination(l *config.Learner) func(t float64) float64 {
	late, d := float64(e.lateness().Mean), e.Scenario.definition()
	switch {
	case l.Delay != config.QPMD || e.lateness().Random:
		return nil
	case !d.constant():
		return nil // drawn or changing means
	case d.blocks && late > 0:
		return nil
	case l.Radius == config.SubGaussian && l.Sigma < e.Scenario.Sigma():
		return nil
	}
	means := d.levels(e.Items)[0]
	inverse := inverseGaps(means)
	if d.reorders {
		inverse = inverseNeighbours(means)
	}
	factor := 32.0
	if l.Radius == config.SubGaussian {
		factor = 64 * l.Sigma * l.Sigma
	}
	n := float64(e.Items)
	largest := slices.Max(means) - slices.Min(means)
	return func(t float64) float64 {
		logarithm, failing := math.Log(4*n)+2*math.Log(t), 0.0
		if l.Delta.Auto {
			logarithm += math.Log(t)
			failing = largest * math.Pi * math.Pi / 12
		} else {
			logarithm -= math.Log(l.Delta.Value)
		}
		return factor*logarithm*inverse + n*late + failing
	}
}

func (e *Experiment) upperAdversarial(c *Combination) func(t float64) float64 {
	l := &c.Learner
	instances := e.lateness().Mean + 1
	switch {
	case !e.Scenario.AgainstFixed() || e.Scenario.definition().byRank && l.LossIndex != config.ByRank:
		return nil
	case l.MaxInstances > 0 && int64(l.MaxInstances) < instances, e.lateness().Random:
		return nil
	}
	n, k := float64(e.Items), float64(instances)
	switch {
	case l.Policy == config.FTRL && (l.Eta.Auto || l.Eta.Value == 1):
		return func(t float64) float64 { return k * 4 * math.Sqrt(n*t/k) }
	case l.Policy == config.OSMD && c.Doubled:
		return func(t float64) float64 { return k * 2 * math.Sqrt(2*n*t/k) * math.Sqrt2 / (math.Sqrt2 - 1) }
	case l.Policy == config.OSMD && e.knows(l):
		return func(float64) float64 { return k * 2 * math.Sqrt(2*n*float64(e.Horizon)/k) }
	}
	return nil
}

// knows returns whether osmd's learning rate is that for the number of payoffs per instance.
func (e *Experiment) knows(l *config.Learner) bool {
	return !l.Eta.Auto && math.Round(2/(l.Eta.Value*l.Eta.Value)) == float64(e.perInstance(l.MaxInstances))
}

// Lower returns the coefficient of log T in Theorem 3.5, Σ 2σ²/Δ, for the windows of Blocks. It is asymptotic: a finite run may lie
// below. (The divergence of two normal distributions is Δ²/2σ²; the paper's proof omits the half.)
func (e *Experiment) Lower() (coefficient float64, ok bool) {
	d := e.Scenario.definition()
	if !d.blocks || !d.constant() || e.Noise > 0 || e.Tastes > 0 {
		return 0, false
	}
	sigma := e.Scenario.Sigma()
	return 2 * sigma * sigma * inverseGaps(d.levels(e.Items)[0]), true
}

// inverseGaps returns Theorem 3.2's Σ 1/Δ for means in increasing utility: over consecutive undominated items, and each dominated
// item with the best that dominates it. Undominated items of equal means cost nothing against each other, and each has a gap to the
// next better one.
func inverseGaps(means []float64) (sum float64) {
	best, equals := 0.0, 0.0 // among the items of higher utility, and the number of undominated ones as good
	for i := len(means) - 1; i >= 0; i-- {
		switch mean := means[i]; {
		case equals == 0 || mean == best:
			best = mean
			equals++
		case mean < best:
			sum += 1 / (best - mean)
		default: // it precedes the best so far in falling mean, with none between
			sum += equals / (mean - best)
			best, equals = mean, 1
		}
	}
	return sum
}

// inverseNeighbours returns Theorem 3.1's Σ 1/Δ, over each item and the next better one in mean.
func inverseNeighbours(means []float64) float64 {
	falling := slices.Sorted(slices.Values(means))
	slices.Reverse(falling)
	return inverseGaps(falling) // none is dominated
}
