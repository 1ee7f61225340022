package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Prior is what is believed of items' mean payoffs before they are paid. Mean and SD are in payoff ranges: 0 is the least
// payoff there can be, 1 the largest. They mean something with policy.FixedPrior only.
type Prior struct {
	Kind     policy.Prior
	Mean, SD float64
}

// Parameters are what the learner's policy is made with.
func (l *Learner) Parameters() (*policy.Parameters, error) {
	radius, err := policy.ParseRadius(string(l.Radius))
	return &policy.Parameters{
		Belief:     policy.Belief{Sigma: l.Sigma, EstimateSigma: l.EstimateSigma, Prior: l.Prior.Kind, Mean: l.Prior.Mean, SD: l.Prior.SD},
		Confidence: policy.Confidence{Radius: radius, Sigma: l.Sigma, Delta: l.Delta.Value, AutoDelta: l.Delta.Auto},
		Eta:        l.Eta.Value,
		ByRank:     l.LossIndex == ByRank,
	}, err
}

// believes tells whether a learner's policy has a prior.
func (l *Learner) believes() bool {
	k := l.Policy.Kind()
	return k != nil && k.Believes
}

// prior reads none, empirical, or a mapping of mean and sd.
func (s *section) prior(dst *Prior) {
	f, ok := s.ask("prior")
	if !ok {
		return
	}
	r, ok := s.d.resolve(s.join("prior"), f.value)
	if !ok {
		return
	}
	if r.Kind != yaml.MappingNode {
		set(s, "prior", dst, func(text string) (Prior, error) {
			for _, kind := range []policy.Prior{policy.NoPrior, policy.EmpiricalPrior} {
				if text == kind.String() {
					return Prior{Kind: kind}, nil
				}
			}
			return Prior{}, fmt.Errorf("%s is unknown; there are none, empirical and {mean: 0.5, sd: 0.2}", quote(text))
		})
		return
	}
	one := s.d.open(s.join("prior"), f.at, r)
	p := Prior{Kind: policy.FixedPrior}
	set(one, "mean", &p.Mean, func(text string) (float64, error) { return parseWithin(text, 0, 1) })
	set(one, "sd", &p.SD, func(text string) (float64, error) { return parseWithin(text, leastScale, 1) })
	for _, key := range []string{"mean", "sd"} {
		if !one.has(key) {
			one.missing(key, "is needed, such as prior: {mean: 0.5, sd: 0.2}; or write prior: empirical")
		}
	}
	one.close()
	*dst = p
}

// leastScale and mostScale bound σ, and leastScale the deviation of a prior: far from any use, and from where squares
// stop being numbers.
const (
	leastScale = 1e-9
	mostScale  = 1e9
)

func parseWithin(text string, least, most float64) (float64, error) {
	x, err := parseFloat(text)
	if err == nil && !(x >= least && x <= most) {
		err = fmt.Errorf("must be from %s to %s, not %s", formatFloat(least), formatFloat(most), text)
	}
	return x, err
}

// sigma reads σ: a number, or auto. Where the file says nothing, what learns a prior learns σ too.
func (s *section) sigma(l *Learner) {
	type scale struct {
		auto  bool
		value float64
	}
	x := scale{value: l.Sigma}
	x.auto = l.believes() && l.Prior.Kind == policy.EmpiricalPrior
	set(s, "sigma", &x, func(text string) (scale, error) {
		if text == "auto" {
			return scale{auto: true, value: l.Sigma}, nil
		}
		v, err := parseWithin(text, leastScale, mostScale)
		return scale{value: v}, err
	})
	l.Sigma, l.EstimateSigma = x.value, x.auto
	if x.auto && s.ok("policy") && l.Policy.Kind().Confident {
		s.fault("sigma", "auto does not go with policy %s: its radius needs a bound, and an estimate is none", l.Policy)
	}
}

func (p Prior) print() *yaml.Node {
	if p.Kind != policy.FixedPrior {
		return text(p.Kind.String())
	}
	var m mapping
	m.add("mean", plain(formatFloat(p.Mean)))
	m.add("sd", plain(formatFloat(p.SD)))
	return m.node(true)
}

func (l *Learner) printSigma() *yaml.Node {
	if l.EstimateSigma {
		return text("auto")
	}
	return plain(formatFloat(l.Sigma))
}
