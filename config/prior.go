package config

import (
	"cmp"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

func (l *Learner) Parameters() (*policy.Parameters, error) {
	radius, err := policy.ParseRadius(string(l.Radius))
	return &policy.Parameters{
		Belief:     policy.Belief{Sigma: l.Sigma, EstimateSigma: l.EstimateSigma, Prior: l.Prior.Kind, Mean: l.Prior.Mean, SD: l.Prior.SD},
		Confidence: policy.Confidence{Radius: radius, Sigma: l.Sigma, Delta: l.Delta.Value, AutoDelta: l.Delta.Auto},
		Eta:        l.Eta.Value,
		ByRank:     l.LossIndex == ByRank,
		LookAgain:  cmp.Or(l.LookAgain, policy.DefaultLookAgain),
	}, err
}

var priorKind = wordOr(
	func(p Prior) string {
		if p.Kind == policy.FixedPrior {
			return ""
		}
		return p.Kind.String()
	},
	[]Prior{{Kind: policy.NoPrior}, {Kind: policy.EmpiricalPrior}}, Prior{Kind: policy.FixedPrior},
	[]setting[Prior]{
		value("mean", func(p *Prior) *float64 { return &p.Mean }, numberIn(0, 1), 0,
			"in payoff ranges: 0 is the least payoff, 1 the largest").orElse(noPrior),
		value("sd", func(p *Prior) *float64 { return &p.SD }, numberIn(leastScale, 1), 0,
			"standard deviation of items' means, in payoff ranges").orElse(noPrior),
	}, "{mean: 0.5, sd: 0.2}")

const noPrior = "is needed, such as prior: {mean: 0.5, sd: 0.2}; or write prior: empirical"

// leastScale and mostScale bound σ, and leastScale the deviation of a prior: far from any use, and from where squares overflow.
const (
	leastScale = 1e-9
	mostScale  = 1e9
)

// readSigma reads σ: a number, or auto. Without the key it is decided later.
func readSigma(s *section, l *Learner) {
	x := OrAuto{Value: l.Sigma}
	set(s, "sigma", &x, func(text string) (OrAuto, error) {
		if text == "auto" {
			return OrAuto{Auto: true, Value: l.Sigma}, nil
		}
		v, err := parseWithin(text, leastScale, mostScale)
		return OrAuto{Value: v}, err
	})
	l.Sigma, l.EstimateSigma = x.Value, x.Auto
}

func checkSigma(s *section, l *Learner) {
	if l.EstimateSigma && s.ok("policy") && l.Policy.Spec().Confident {
		s.fault("sigma", "auto does not go with policy %s: its radius needs a bound, and an estimate is none", l.Policy)
	}
}

func printSigma(l *Learner) *yaml.Node {
	if l.EstimateSigma {
		return text("auto")
	}
	return float(l.Sigma)
}
