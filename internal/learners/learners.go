// Package learners makes learners from their configuration: for the worker, the laboratory and the commands alike.
package learners

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// New gives what makes learners as l says: one for each partition, each without knowledge. What they share does not
// change. It fails where the configuration asks for what cannot be, which a loaded one does not.
func New(l *config.Learner) (func() delay.Learner, error) {
	build := stochastic
	if l.Payoffs == config.Adversarial {
		build = adversarial
	}
	given, err := build(l)
	if err != nil || l.Utilities == config.Given {
		return given, err
	}
	return repeatable(func() (delay.Learner, error) { return preferring(l, given()) })
}

// preferring makes a learner that finds the order of utilities of one that is given it.
func preferring(l *config.Learner, given delay.Learner) (delay.Learner, error) {
	inner, ok := given.(delay.Inspector)
	if !ok {
		return nil, fmt.Errorf("policy %q with delay %q does not show what it knows", l.Policy, l.Delay)
	}
	switch l.Utilities {
	case config.Sorted:
		return delay.NewPreferring(inner, preference.NewSorted()), nil
	case config.Social:
		s, err := preference.NewSocial(preference.SocialConfig{})
		return delay.NewPreferring(inner, s), err
	}
	return nil, fmt.Errorf("unknown utilities %q", l.Utilities)
}

func stochastic(l *config.Learner) (func() delay.Learner, error) {
	if l.Policy == config.EpsilonGreedy {
		return exploring(l)
	}
	p, err := newPolicy(l)
	if err != nil {
		return nil, err
	}
	switch {
	case l.Delay == config.QPMD:
		return func() delay.Learner { return delay.NewQPMD(p) }, nil
	case l.Delay == config.Direct && l.Policy != config.Elimination:
		return func() delay.Learner { return delay.NewDirect(p) }, nil
	}
	return nil, mismatch(l)
}

func mismatch(l *config.Learner) error {
	return fmt.Errorf("delay %q does not go with policy %q", l.Delay, l.Policy)
}

// exploring makes stochastic learners whose policy needs windows.
func exploring(l *config.Learner) (func() delay.Learner, error) {
	e := policy.NewEpsilonGreedy()
	c, err := windows(l)
	if err != nil {
		return nil, err
	}
	switch l.Delay {
	case config.QPMD:
		return repeatable(func() (delay.Learner, error) { return delay.NewExploringQPMD(e, c) })
	case config.Direct:
		return repeatable(func() (delay.Learner, error) { return delay.NewExploringDirect(e, c) })
	}
	return nil, mismatch(l)
}

func windows(l *config.Learner) (delay.WindowsConfig, error) {
	given, err := l.Windows.Distribution()
	return delay.WindowsConfig{Given: given, Max: l.Windows.Max}, err
}

// repeatable makes a constructor that cannot fail of one that depends on nothing but settings, by trying it.
func repeatable(construct func() (delay.Learner, error)) (func() delay.Learner, error) {
	if _, err := construct(); err != nil {
		return nil, err
	}
	return func() delay.Learner {
		l, err := construct()
		if err != nil {
			panic(fmt.Sprintf("learners: what could be made once cannot be made again: %v", err))
		}
		return l
	}, nil
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
	case config.MOSS:
		return policy.NewMOSS(l.Belief())
	case config.Optimistic:
		return policy.NewOptimistic(l.Belief())
	case config.Thompson:
		return policy.NewThompson(l.Belief())
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
		return nil, mismatch(l)
	}
	c := delay.BOLDConfig{Base: base, MaxInstances: l.MaxInstances}
	if c.Windows, err = windows(l); err != nil {
		return nil, err
	}
	if l.LossIndex == config.ByRank {
		c.Index = delay.ByRank
	}
	return repeatable(func() (delay.Learner, error) { return delay.NewBOLD(c) })
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
