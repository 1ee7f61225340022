package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy"
)

func (d *decoder) learners(top *section, c *Config) {
	s := top.section("learners")
	s.known = s.order // any name is allowed
	seen := false
	for _, name := range s.order {
		f := s.fields[name]
		seen = true
		path := s.join(name)
		d.places[path] = f.at
		if err := checkLearnerName(name); err != nil {
			d.fault("learners", f.at, "%v", err)
		}
		one := d.open(path, f.at, f.value)
		c.Learners = append(c.Learners, d.learner(one, name, c))
	}
	if !seen {
		top.missing("learners", "at least one learner is needed, such as learners: {feed: {payoffs: stochastic}}")
		return
	}
	d.defaultLearner(c)
}

// defaultLearner selects the learner of records that name none.
func (d *decoder) defaultLearner(c *Config) {
	first, said := "", false
	for i := range c.Learners {
		l := &c.Learners[i]
		key := "learners." + l.Name + ".default"
		_, set := d.places[key]
		said = said || set
		switch {
		case len(c.Learners) == 1:
			if set && !l.Default && !d.bad[key] {
				d.warn(key, d.places[key], "has no effect: an only learner takes the records that name none")
			}
			l.Default = true
		case l.Default && first != "":
			d.fault(key, d.places[key], "learner %s is the default already; there can be one", first)
		case l.Default:
			first = l.Name
		}
	}
	if len(c.Learners) > 1 && !said {
		d.warn("learners", d.places["learners"], "none of %d is the default: an impression that names no learner becomes a dead letter (unknown_learner); "+
			"give one `default: true`, or `default: false` where producers name one in each", len(c.Learners))
	}
}

func (d *decoder) learner(s *section, name string, c *Config) Learner {
	l := standardOf(learnerSettings)
	l.Name = name
	readAll(s, learnerSettings, &l)
	s.close()
	l.fill(func(key string) bool { return s.has(key) && s.ok(key) })
	checkSigma(s, &l)
	checkPartners(s, &l)
	checkTimes(s, &l, c.Kafka.Topics)
	checkRetention(s, &l)
	checkDefault(s, &l, c.Kafka.Topics)
	checkSilence(s, &l, c.Kafka.Topics)
	checkDrift(s, &l)
	checkRobust(s, &l)
	checkContext(s, &l)
	checkCaps(s, &l)
	checkExploration(s, &l, c.Limits.MaxCandidates)
	warnLearner(s, &l, c.Kafka.Topics)
	warnDoubtful(s, &l, c.Kafka.Topics)
	return l
}

func Policies() []Policy {
	all := make([]Policy, 0, len(policy.Kinds))
	for _, k := range policy.Kinds {
		all = append(all, Policy(k.Name))
	}
	return all
}

func Delays() []Delay { return []Delay{QPMD, Direct, BOLD} }

func UtilityKinds() []Utilities { return []Utilities{Given, Sorted, Social} }

// maxInstances bounds a bounded pool: beyond it, an instance would learn next to nothing.
const maxInstances = 1_000_000

// whyNot returns the reason that a delay handling does not go with a policy, or "".
func whyNot(k *policy.Spec, d Delay) string {
	switch {
	case d == BOLD && !k.HasLosses():
		return "BOLD frees an instance with each payoff, of a policy that learns from losses"
	case d == QPMD && k.Follow != nil:
		return k.Name + " looks at payoffs as they come, in whatever order"
	case d != BOLD && k.HasLosses():
		return k.Name + " needs its payoff with the propensity of that very decision"
	case d == Direct:
		return k.NotDirect
	}
	return ""
}

// checkPartners checks the policy with the payoffs and with the delay handling. Later checks say nothing about a combination that is
// refused here.
func checkPartners(s *section, l *Learner) {
	if !s.ok("policy") {
		return
	}
	k, known := l.Policy.Kind(), s.ok("delay")
	if s.ok("payoffs") && k.IsAdversarial() != (l.Payoffs == Adversarial) {
		is := Stochastic
		if k.IsAdversarial() {
			is = Adversarial
		}
		s.fault("policy", "%s is for %s payoffs, and payoffs is %s", k.Name, is, l.Payoffs)
	}
	if err := Together(l.Policy, l.Delay); err != nil && known {
		s.fault("delay", "%v", err)
	}
}

// Together returns an error if a policy does not go with a delay handling; nil for unknown ones.
func Together(p Policy, d Delay) error {
	why, k := "", p.Kind()
	if k != nil && slices.Contains(Delays(), d) {
		why = whyNot(k, d)
	}
	if why == "" {
		return nil
	}
	var with []string
	for _, k := range policy.Kinds {
		if whyNot(k, d) == "" {
			with = append(with, k.Name)
		}
	}
	return fmt.Errorf("%s does not go with policy %s: %s; it goes with %s", d, p, why, strings.Join(with, ", "))
}

func checkTimes(s *section, l *Learner, topics Topics) {
	if !topics.HasSelections() {
		if l.Utilities == Social {
			s.fault("utilities", "social needs a selections topic (kafka.topics.selections is empty): users publish what they think of an item with its selection")
		}
		if s.has("selection_timeout") {
			s.fault("selection_timeout", "there is no selections topic (kafka.topics.selections is empty): the payoff's item is the selection")
		}
		l.SelectionTimeout = 0
		return
	}
	switch {
	case !s.ok("selection_timeout", "payoff_horizon"):
	case l.SelectionTimeout > l.PayoffHorizon:
		s.fault("selection_timeout", "%s is above payoff_horizon %s; both count from the impression",
			FormatDuration(l.SelectionTimeout), FormatDuration(l.PayoffHorizon))
	}
}

// checkRetention requires that an item is kept as long as it can be paid, and that the learner can remove items.
func checkRetention(s *section, l *Learner) {
	if l.ItemRetention == 0 || !s.has("item_retention") || !s.ok("item_retention", "payoff_horizon", "delay", "utilities") {
		return
	}
	switch why := l.neverForgets(); {
	case why != "":
		s.fault("item_retention", "items are kept for ever here: %s", why)
		l.ItemRetention = 0
	case l.ItemRetention < l.PayoffHorizon:
		s.fault("item_retention", "%s is below payoff_horizon %s: an item is kept as long as it can be paid", FormatDuration(l.ItemRetention),
			FormatDuration(l.PayoffHorizon))
	}
}

func checkDefault(s *section, l *Learner, topics Topics) {
	if !topics.HasSelections() && !s.has("on_expiry") { // unpaid selections are unknown
		l.OnExpiry.Default = nil
	}
	x := l.OnExpiry.Default
	if x == nil || !s.ok("on_expiry", "on_expiry.default", "payoff_range") {
		return
	}
	switch outside := *x < l.PayoffRange.Min || *x > l.PayoffRange.Max; {
	case !outside:
	case s.has("on_expiry"):
		s.fault("on_expiry", "default %s is outside payoff_range [%s, %s]", formatFloat(*x),
			formatFloat(l.PayoffRange.Min), formatFloat(l.PayoffRange.Max))
	default:
		s.missing("on_expiry", "is needed: 0, the default payoff of an unpaid selection, is outside payoff_range [%s, %s]; "+
			"{default: x} sets its payoff, and drop ignores it", formatFloat(l.PayoffRange.Min), formatFloat(l.PayoffRange.Max))
	}
}

func checkSilence(s *section, l *Learner, topics Topics) {
	if !s.has("silence") && !topics.HasSelections() {
		l.Silence = Waits
	}
	if l.Silence == Waits || !s.ok("silence", "delay", "policy", "on_expiry", "on_expiry.default") {
		return
	}
	why := l.silenceWaits()
	if !topics.HasSelections() {
		why = "there is no selections topic (kafka.topics.selections is empty), and nobody is known to wait"
	}
	if why != "" {
		s.fault("silence", "%s: %s", l.Silence, why)
	}
}

func checkDrift(s *section, l *Learner) {
	if l.Drift > 0 && l.Delay != Direct && s.ok("drift", "delay", "policy") {
		s.fault("drift", "%s: %s does not look at when a selection began; it goes with delay: direct alone", formatFloat(l.Drift), l.Delay)
	}
}

// checkRobust refuses settings that robust cannot use.
func checkRobust(s *section, l *Learner) {
	if !l.follows() || !s.ok("policy") {
		return
	}
	if l.Drift > 0 && s.ok("drift") {
		s.fault("drift", "%s: robust finds out from payoffs how far back to look", formatFloat(l.Drift))
	}
	if l.Silence == AtOnce && s.ok("silence") {
		s.fault("silence", "%s: robust counts silence as it ages, or waits", l.Silence)
	}
}

// checkExploration refuses windows with which a policy can never explore as intended. Learned ones may change.
func checkExploration(s *section, l *Learner, maxCandidates int) {
	if l.Policy.Kind().Explore == nil || maxCandidates < 2 || !s.ok("policy", "windows") {
		return
	}
	w, err := l.Windows.Distribution()
	if w == nil || err != nil || w.UniformFrom(maxCandidates) > 0 {
		return
	}
	s.fault("windows", "%s explores by having all n candidates selected equally often; for that the windows 1 to k must "+
		"have a probability of k/n or more together, for every k below n, and these do for no n from 2 to %d "+
		"(limits.max_candidates)", l.Policy, maxCandidates)
}

func warnLearner(s *section, l *Learner, topics Topics) {
	if !s.ok("policy", "delay", "on_expiry") {
		return
	}
	if l.Delay == QPMD {
		if !topics.HasSelections() {
			s.warn("delay", "qpmd without a selections topic is given selection and payoff at once: it never waits, and learns nothing of selections that were not paid")
		} else if l.OnExpiry.Default == nil && s.has("on_expiry") {
			s.warn("on_expiry", "qpmd with drop: an item that never pays is waited for again and again, and nothing is learned meanwhile; {default: x} ends that")
		}
	}
	if l.Delay == Direct && !topics.HasSelections() {
		s.warn("delay", "direct without a selections topic does not know of selections before they are paid: none are "+
			"counted as in flight, so that a wait may be spent on one item")
	}
	if l.Policy.Kind().NeedsWindows() && !topics.HasSelections() && l.Windows.Learned() {
		s.warn("windows", "learned without a selections topic: only paid impressions count")
	}
	if l.Utilities == Sorted && !topics.HasSelections() {
		s.warn("utilities", "sorted without a selections topic: only paid impressions count")
	}
	if l.Delay == BOLD {
		if l.MaxInstances == 0 {
			s.warn("max_instances", "0 is the paper's BOLD: one instance for every impression that is outstanding at once, "+
				"so that memory grows with the horizon and each learns little; 1 learns far faster")
		}
	}
	for _, t := range learnerSettings {
		if s.has(t.key) && s.ok(t.key) && !t.hasEffect(l.Policy.Kind()) {
			s.warn(t.key, "has no effect with policy %s", l.Policy)
		}
	}
	if l.Policy.Kind().Confident && l.Radius == Paper && s.has("sigma") {
		s.warn("sigma", "has no effect with radius: paper, which has σ = 1/√2")
	}
}
