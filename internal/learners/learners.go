// Package learners makes learners from their configuration, for worker, laboratory and commands: New returns a constructor.
package learners

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// New returns a constructor of a configuration's learners, one for each partition, without state. They share immutable parts only. It
// cannot fail for a loaded configuration.
func New(l *config.Learner) (func() delay.Learner, error) {
	given, err := ordered(l)
	if err != nil || l.Utilities == config.Given {
		return given, err
	}
	return repeatable(func() (delay.Learner, error) { return preferring(l, given()) })
}

// Context returns the context that a learner uses of impressions; nil for none.
func Context(l *config.Learner) (*partition.Context, error) {
	if !l.Context.On() {
		return nil, nil
	}
	s, err := features.New(l.Features())
	if err != nil {
		return nil, err
	}
	return partition.NewContext(s, l.Context.Missing == config.MissingIsZero), nil
}

// Caps returns the caps of a learner's rankings.
func Caps(l *config.Learner) (all []partition.Cap) {
	for _, c := range l.Caps {
		all = append(all, partition.Cap(c))
	}
	return all
}

// ordered makes learners for given utilities.
func ordered(l *config.Learner) (func() delay.Learner, error) {
	k := l.Policy.Spec()
	if k == nil {
		return nil, fmt.Errorf("unknown policy %q", l.Policy)
	}
	if err := config.Together(l.Policy, l.Delay); err != nil {
		return nil, err
	}
	parameters, err := l.Parameters()
	if err != nil {
		return nil, err
	}
	switch {
	case k.Rank != nil:
		return ranking(l, k, parameters)
	case k.Explore != nil:
		return exploring(l, k, parameters)
	}
	if k.Follow != nil {
		return robust(l, k, parameters)
	}
	return adversarial(l, k, parameters)
}

// preferring wraps an inner learner in one that estimates the order of utilities.
func preferring(l *config.Learner, inner delay.Learner) (delay.Learner, error) {
	switch l.Utilities {
	case config.Sorted:
		return delay.NewPreferring(inner, preference.NewSorted()), nil
	case config.Social:
		s, err := preference.NewSocial(preference.SocialConfig{Budget: preference.DefaultBudget})
		return delay.NewPreferring(inner, s), err
	}
	return nil, fmt.Errorf("unknown utilities %q", l.Utilities)
}

func ranking(l *config.Learner, k *policy.Spec, parameters *policy.Parameters) (func() delay.Learner, error) {
	p, err := k.Rank(parameters)
	if err != nil {
		return nil, err
	}
	switch {
	case l.Delay == config.QPMD:
		return func() delay.Learner { return delay.NewQPMD(p) }, nil
	case l.Context.On():
		s, err := features.New(l.Features())
		if err != nil {
			return nil, err
		}
		c := delay.ContextualConfig{Space: s, Silence: Silence(l), Belief: parameters.Belief, Expires: l.OnExpiry.Default != nil}
		return repeatable(func() (delay.Learner, error) {
			d, err := delay.NewContextual(p, c)
			return attracted(d, l), err
		})
	}
	return func() delay.Learner { return attracted(delay.NewDirect(p, Silence(l)), l) }, nil
}

// attracted makes a learner maximise payoff per impression.
func attracted(d *delay.Direct, l *config.Learner) *delay.Direct {
	if d != nil {
		d.LearnAttraction(nothing(l))
	}
	return d
}

// nothing returns the normalised payoff of an impression without a selection.
func nothing(l *config.Learner) float64 { return min(max(normalised(l, 0), 0), 1) }

func exploring(l *config.Learner, k *policy.Spec, parameters *policy.Parameters) (func() delay.Learner, error) {
	e, err := k.Explore(parameters)
	if err != nil {
		return nil, err
	}
	c, err := windows(l)
	if err != nil {
		return nil, err
	}
	if l.Delay == config.QPMD {
		return repeatable(func() (delay.Learner, error) { return delay.NewExploringQPMD(e, c) })
	}
	return repeatable(func() (delay.Learner, error) {
		d, err := delay.NewExploringDirect(e, c, Silence(l))
		return attracted(d, l), err
	})
}

// Silence returns the weight of a learner's selections in flight, and the drift of means.
func Silence(l *config.Learner) delay.Silence {
	s := delay.Silence{Horizon: max(1, l.PayoffHorizon.Milliseconds()), InParts: l.Aggregate == config.Sum,
		Drift: l.Drift}
	switch l.Silence {
	case config.AtOnce:
		s.Law = delay.SilenceAtOnce
	case config.Ages:
		s.Law = delay.SilenceAges
	}
	if d := l.OnExpiry.Default; d != nil {
		s.Default = normalised(l, *d)
	}
	return s
}

// normalised returns a payoff in units of the payoff range.
func normalised(l *config.Learner, payoff float64) float64 {
	return (payoff - l.PayoffRange.Min) / (l.PayoffRange.Max - l.PayoffRange.Min)
}

func adversarial(l *config.Learner, k *policy.Spec, parameters *policy.Parameters) (func() delay.Learner, error) {
	base, err := k.Oppose(parameters)
	if err != nil {
		return nil, err
	}
	c := delay.BOLDConfig{Base: base, MaxInstances: l.MaxInstances}
	if c.Windows, err = windows(l); err != nil {
		return nil, err
	}
	if l.LossIndex == config.ByRank {
		c.Index = delay.LossByRank
	}
	return repeatable(func() (delay.Learner, error) { return delay.NewBOLD(c) })
}

func robust(l *config.Learner, k *policy.Spec, parameters *policy.Parameters) (func() delay.Learner, error) {
	p, err := k.Follow(parameters)
	if err != nil {
		return nil, err
	}
	c := delay.RobustConfig{Policy: p, Belief: parameters.Belief, HalfLives: l.HalfLives, Horizon: max(1, l.PayoffHorizon.Milliseconds())}
	if c.HalfLives == nil {
		c.HalfLives = recency.DefaultHalfLives()
	}
	if l.Silence == config.Ages {
		c.Silence = Silence(l)
	}
	if c.Windows, err = windows(l); err != nil {
		return nil, err
	}
	return repeatable(func() (delay.Learner, error) {
		r, err := delay.NewRobust(c)
		if err == nil {
			r.LearnAttraction(nothing(l))
		}
		return r, err
	})
}

func windows(l *config.Learner) (delay.WindowsConfig, error) {
	given, err := l.Windows.Distribution()
	return delay.WindowsConfig{Given: given, Max: l.Windows.Max}, err
}

// repeatable tries construct once and returns a constructor that cannot fail, since construct depends on settings alone.
func repeatable(construct func() (delay.Learner, error)) (func() delay.Learner, error) {
	if _, err := construct(); err != nil {
		return nil, err
	}
	return func() delay.Learner {
		l, err := construct()
		if err != nil {
			panic(fmt.Sprintf("learners: a learner could be made once, and not again: %v", err))
		}
		return l
	}, nil
}
