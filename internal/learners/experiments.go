package learners

import (
	"fmt"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// Experiment returns a configured experiment. Its payoffs are those of its control.
func Experiment(cfg *config.Config, x *config.Experiment) (*experiment.Experiment, error) {
	s := experiment.Settings{Name: x.Name, Run: int32(x.Run), Control: x.Control, ByUser: x.By == config.ByUser}
	for _, a := range x.Arms {
		s.Arms = append(s.Arms, experiment.Arm{Name: a.Learner, Share: a.Share})
	}
	if s.ByUser && x.Period != config.Never {
		s.Period = x.Period.Milliseconds()
	}
	if l := cfg.Learner(x.Control); l != nil {
		s.InParts = l.Aggregate == config.Sum
		s.Falls = l.PayoffRange.Min < 0 || Unpaid(cfg, x) > l.PayoffRange.Min
	}
	return experiment.New(s)
}

// Policy returns a learner's policy. It fails if the learner has none that ranks.
func Policy(l *config.Learner) (policy.Policy, error) {
	parameters, err := l.Parameters()
	if err != nil {
		return nil, err
	}
	if k := l.Policy.Spec(); k != nil && k.Rank != nil {
		return k.Rank(parameters)
	}
	return nil, fmt.Errorf("policy %s does not rank by another one's statistics", l.Policy)
}

// Unpaid returns an experiment's payoff of an unpaid selection, in raw units.
func Unpaid(cfg *config.Config, x *config.Experiment) float64 {
	if x.Unpaid != nil {
		return *x.Unpaid
	}
	if l := cfg.Learner(x.Control); l != nil && l.OnExpiry.Default != nil {
		return *l.OnExpiry.Default
	}
	return 0
}

// Definition describes the parts of an experiment that only a new run may change: assignment and payoffs.
func Definition(cfg *config.Config, x *config.Experiment) string {
	e, err := Experiment(cfg, x)
	if err != nil { // impossible in a loaded configuration
		return err.Error()
	}
	var b strings.Builder
	for _, a := range e.Arms {
		fmt.Fprintf(&b, "%s=%v ", a.Name, a.Share)
	}
	fmt.Fprintf(&b, "control=%s by=%s learning=%s", x.Control, x.By, x.Learning)
	if e.ByUser {
		fmt.Fprintf(&b, " period=%d", e.Period)
	}
	if l := cfg.Learner(x.Control); l != nil {
		fmt.Fprintf(&b, " range=%v..%v horizon=%d aggregate=%s", l.PayoffRange.Min, l.PayoffRange.Max, l.PayoffHorizon.Milliseconds(), l.Aggregate)
	}
	fmt.Fprintf(&b, " unpaid=%v", Unpaid(cfg, x))
	return b.String()
}
