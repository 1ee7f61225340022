// Package learners makes learners from their configuration: for the worker, the laboratory and the commands alike.
package learners

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// New gives what makes learners as l says: one for each partition, each without knowledge. What they share does not
// change. It fails where the configuration asks for what cannot be, which a loaded one does not.
func New(l *config.Learner) (func() delay.Learner, error) {
	if l.Payoffs == config.Adversarial {
		return adversarial(l)
	}
	return stochastic(l)
}

func stochastic(l *config.Learner) (func() delay.Learner, error) {
	p, err := newPolicy(l)
	if err != nil {
		return nil, err
	}
	if l.Delay != config.QPMD {
		return nil, fmt.Errorf("delay %q does not go with policy %q", l.Delay, l.Policy)
	}
	return func() delay.Learner { return delay.NewQPMD(p) }, nil
}

// newPolicy makes a stochastic policy. Policies hold no state and are shared by the partitions.
func newPolicy(l *config.Learner) (policy.Policy, error) {
	switch l.Policy {
	case config.Elimination:
		radius, err := policy.ParseRadius(string(l.Radius))
		if err != nil {
			return nil, err
		}
		return policy.NewElimination(policy.Confidence{Radius: radius, Sigma: l.Sigma, Delta: l.Delta.Value,
			AutoDelta: l.Delta.Auto})
	case config.Greedy:
		return policy.NewGreedy(), nil
	case config.Utility:
		return policy.NewUtility(), nil
	}
	return nil, fmt.Errorf("unknown policy %q", l.Policy)
}

func adversarial(l *config.Learner) (func() delay.Learner, error) {
	base, err := newAdversarial(l)
	if err != nil {
		return nil, err
	}
	if l.Delay != config.BOLD {
		return nil, fmt.Errorf("delay %q does not go with policy %q", l.Delay, l.Policy)
	}
	windows, err := l.Windows.Distribution()
	if err != nil {
		return nil, err
	}
	c := delay.BOLDConfig{Base: base, MaxInstances: l.MaxInstances,
		Windows: delay.WindowsConfig{Given: windows, Max: l.Windows.Max}}
	if l.LossIndex == config.ByRank {
		c.Index = delay.ByRank
	}
	if _, err := delay.NewBOLD(c); err != nil {
		return nil, err
	}
	return func() delay.Learner {
		b, err := delay.NewBOLD(c)
		if err != nil {
			panic(fmt.Sprintf("learners: what could be made once cannot be made again: %v", err))
		}
		return b
	}, nil
}

// newAdversarial makes an adversarial policy.
func newAdversarial(l *config.Learner) (policy.Adversarial, error) {
	switch l.Policy {
	case config.FTRL:
		scale := 1.0 // the one with a bound
		if !l.Eta.Auto {
			scale = l.Eta.Value
		}
		return policy.NewFTRL(scale, l.LossIndex == config.ByItem)
	case config.OSMD:
		if l.Eta.Auto {
			return policy.NewOSMD(0) // the horizon is doubled
		}
		// η = √(2/T) is that of a horizon of T payoffs.
		return policy.NewOSMD(max(1, int64(math.Round(2/(l.Eta.Value*l.Eta.Value)))))
	}
	return nil, fmt.Errorf("unknown policy %q", l.Policy)
}
