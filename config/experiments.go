package config

import (
	"fmt"
	"math"
	"slices"
)

// leastShare is the least share of an arm: the bounds of experiments divide by it.
const leastShare = 1e-6

func parseShare(text string) (float64, error) {
	x, err := parseFloat(text)
	if err == nil && !(x >= leastShare && x <= 1) {
		err = fmt.Errorf("a share is between 0.000001 and 1, not %s", quote(text))
	}
	return x, err
}

// checkArms requires that the learners exist, can be compared, and are in one experiment each. in maps learners to earlier experiments.
func (d *decoder) checkArms(s *section, x *Experiment, c *Config, in map[string]string) {
	if !s.has("arms") || d.bad[s.join("arms")] && len(x.Arms) == 0 {
		return
	}
	arms := d.sections[s.join("arms")]
	var names []string
	sum, first := 0.0, (*Learner)(nil)
	for _, a := range x.Arms {
		names = append(names, a.Learner)
		sum += a.Share
		l := c.Learner(a.Learner)
		if l == nil && len(c.Learners) > 0 {
			arms.fault(a.Learner, "there is no learner %s", quote(a.Learner))
			continue
		}
		if other := in[a.Learner]; other != "" {
			arms.fault(a.Learner, "is in experiment %s already; a learner can be in one", other)
		}
		in[a.Learner] = x.Name
		if first == nil {
			first = l
			continue
		}
		if key := incomparable(first, l); key != "" {
			arms.fault(a.Learner, "has another %s than %s: their payoffs cannot be compared", key, first.Name)
		} else if l.SelectionTimeout != first.SelectionTimeout {
			arms.warn(a.Learner, "has another selection_timeout than %s: payoffs of selections in between count for one of them alone", first.Name)
		}
	}
	if l := c.Learner(x.Name); l != nil && first != nil && (l.Utilities == Given) != (first.Utilities == Given) {
		s.fault("arms", "learner %s has utilities: %s, and %s %s: impressions must suit all", x.Name, l.Utilities, first.Name, first.Utilities)
	}
	switch {
	case !s.ok("arms"):
	case len(x.Arms) < 2:
		s.fault("arms", "%s", noArms)
	case len(x.Arms) > mostArms:
		s.fault("arms", "there can be %d arms, not %d", mostArms, len(x.Arms))
	case math.Abs(sum-1) > 1e-9:
		s.fault("arms", "the shares add up to %s, not to 1", formatFloat(sum))
	}
	if !s.has("control") || !s.ok("control") {
		return
	}
	at := slices.Index(names, x.Control)
	switch {
	case at < 0:
		s.fault("control", "%s is none of the arms", quote(x.Control))
	case x.Arms[at].Share < 0.01:
		s.warn("control", "is given %s of units: with less than 1 %% it takes very long until anything is certain", formatFloat(x.Arms[at].Share))
	}
}

// incomparable returns a setting that makes the payoffs of two learners different, or "".
func incomparable(a, b *Learner) string {
	sameDefault := (a.OnExpiry.Default == nil) == (b.OnExpiry.Default == nil) &&
		(a.OnExpiry.Default == nil || *a.OnExpiry.Default == *b.OnExpiry.Default)
	switch {
	case a.PayoffRange != b.PayoffRange:
		return "payoff_range"
	case a.PayoffHorizon != b.PayoffHorizon:
		return "payoff_horizon"
	case !sameDefault:
		return "on_expiry"
	case a.Aggregate != b.Aggregate:
		return "aggregate"
	case a.OutOfRange != b.OutOfRange:
		return "out_of_range"
	case (a.Utilities == Given) != (b.Utilities == Given):
		return "utilities"
	}
	return ""
}

// checkShadow requires that arms and shadows that use the control's statistics can do so.
func (d *decoder) checkShadow(s *section, x *Experiment, c *Config, in map[string]string) {
	control := c.Learner(x.Control)
	if shadows := d.sections[s.join("shadow")]; s.has("shadow") && shadows != nil {
		for _, a := range x.Shadow {
			switch l := c.Learner(a.Learner); {
			case l == nil && len(c.Learners) > 0:
				shadows.fault(a.Learner, "there is no learner %s", quote(a.Learner))
			case in[a.Learner] != "":
				shadows.fault(a.Learner, "is an arm of experiment %s; a shadow is none", in[a.Learner])
			case l != nil && control != nil:
				if why := unreadable(control, l); why != "" {
					shadows.fault(a.Learner, "cannot use the statistics of %s: %s", x.Control, why)
				}
			}
		}
		if x.Learning != Shared && s.ok("learning") {
			s.fault("shadow", "needs learning: shared: a shadow has no statistics of its own")
		}
	}
	if x.Learning != Shared || !s.ok("arms", "control", "learning") || control == nil {
		return
	}
	for _, a := range x.Arms {
		if l := c.Learner(a.Learner); l != nil {
			if why := unreadable(control, l); why != "" {
				d.sections[s.join("arms")].fault(a.Learner, "cannot use the statistics of %s (learning: shared): %s", x.Control, why)
			}
		}
	}
}

// unreadable returns the reason that a learner cannot use the control's statistics, or "".
func unreadable(control, l *Learner) string {
	for _, one := range []*Learner{control, l} {
		switch k := one.Policy.Spec(); {
		case k == nil || k.Rank == nil:
			return fmt.Sprintf("%s has policy %s, which learns from its own decisions or explores", one.Name, one.Policy)
		case one.Delay != Direct:
			return fmt.Sprintf("%s has delay %s; payoffs that all learn from are fed directly", one.Name, one.Delay)
		case one.Utilities != Given:
			return fmt.Sprintf("%s has utilities: %s, and finds their order for itself", one.Name, one.Utilities)
		}
	}
	switch {
	case control.Silence != l.Silence:
		return fmt.Sprintf("its silence is %s, that of %s %s", l.Silence, control.Name, control.Silence)
	case control.contextFingerprint() != l.contextFingerprint() || control.Context.Missing != l.Context.Missing:
		return fmt.Sprintf("its context is another than that of %s", control.Name)
	case control.Drift != l.Drift:
		return fmt.Sprintf("its drift is %s, that of %s %s", formatFloat(l.Drift), control.Name, formatFloat(control.Drift))
	}
	if key := incomparable(control, l); key != "" {
		return fmt.Sprintf("it has another %s", key)
	}
	return ""
}

// checkWorth requires one payoff of unpaid selections for all arms, and warns of a range without that of impressions without a selection.
func (d *decoder) checkWorth(s *section, x *Experiment, c *Config) {
	var l *Learner
	for _, a := range x.Arms {
		if l == nil {
			l = c.Learner(a.Learner)
		}
	}
	if l == nil || !s.ok("arms", "unpaid") || d.bad["learners."+l.Name+".on_expiry"] || d.bad["learners."+l.Name+".payoff_range"] {
		return
	}
	switch {
	case l.OnExpiry.Default == nil && x.Unpaid == nil:
		s.missing("unpaid", "is needed: the arms have on_expiry: drop, and the comparison counts selections that were never paid as something")
	case l.OnExpiry.Default != nil && x.Unpaid != nil:
		s.fault("unpaid", "the arms' on_expiry says it already: %s", formatFloat(*l.OnExpiry.Default))
	case x.Unpaid != nil && (*x.Unpaid < l.PayoffRange.Min || *x.Unpaid > l.PayoffRange.Max):
		s.fault("unpaid", "%s is outside payoff_range [%s, %s]", formatFloat(*x.Unpaid), formatFloat(l.PayoffRange.Min), formatFloat(l.PayoffRange.Max))
	case l.PayoffRange.Min > 0 || l.PayoffRange.Max < 0:
		s.warn("arms", "an impression without a selection counts as %s, the end of payoff_range next to 0: if arms differ in selections, even the sign of a lift can be wrong",
			formatFloat(min(max(0, l.PayoffRange.Min), l.PayoffRange.Max)))
	}
}

// slowGuard is the payoff horizon from which lint warns of a slow guard.
const slowGuard = 7 * day

func (d *decoder) checkGuard(s *section, x *Experiment, c *Config) {
	g := d.sections[s.join("guard")]
	if g == nil || len(g.fields) == 0 {
		return
	}
	if !g.has("fallback") {
		g.missing("fallback", "is needed: the arm that ranks in place of one that is out of service")
		return
	}
	if !g.ok("fallback") || !s.ok("arms", "control", "by", "period") {
		return
	}
	if !slices.ContainsFunc(x.Arms, func(a Arm) bool { return a.Learner == x.Guard.Fallback }) {
		g.fault("fallback", "%s is none of the arms", quote(x.Guard.Fallback))
	} else if x.Guard.Fallback != x.Control && len(x.Arms) == 2 {
		g.fault("fallback", "%s is the arm that is guarded; another one must take its place, such as %s", x.Guard.Fallback, x.Control)
	}
	if x.By == ByUser && x.Period == Never {
		s.fault("guard", "period: never has no bounds to go by: users who keep their arm are not independent")
	}
	if l := c.Learner(x.Control); l != nil && l.PayoffHorizon > slowGuard {
		s.warn("guard", "stops no arm in the first %s: it needs units whose payoff_horizon is over", FormatDuration(l.PayoffHorizon))
	}
}

const noArms = "is needed: two learners or more and their shares, such as {feed: 0.9, control: 0.1}"

// mostArms bounds the arms of an experiment, since the bounds of each allow for all others.
const mostArms = 16
