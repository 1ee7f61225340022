package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

func Policies() []Policy {
	all := make([]Policy, 0, len(policy.Specs))
	for _, k := range policy.Specs {
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
	k, known := l.Policy.Spec(), s.ok("delay")
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
	why, k := "", p.Spec()
	if k != nil && slices.Contains(Delays(), d) {
		why = whyNot(k, d)
	}
	if why == "" {
		return nil
	}
	var with []string
	for _, k := range policy.Specs {
		if whyNot(k, d) == "" {
			with = append(with, k.Name)
		}
	}
	return fmt.Errorf("%s does not go with policy %s: %s; it goes with %s", d, p, why, strings.Join(with, ", "))
}

func checkTimes(s *section, l *Learner, topics Topics) {
	if !topics.HasSelections() {
		if l.Utilities == Social {
			s.fault("utilities", "social needs a selections topic (kafka.topics.selections is empty): users send their own estimate of an item with its selection")
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
	if l.Policy.Spec().Explore == nil || maxCandidates < 2 || !s.ok("policy", "windows") {
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

// Fingerprint names the settings that a learner's stored state depends on. State with another fingerprint is refused until it is reset or
// the learner renamed; all other settings may change freely.
func (l Learner) Fingerprint() string {
	f := fmt.Sprintf("%s range=%s..%s aggregate=%s delay=%s", l.Payoffs,
		formatFloat(l.PayoffRange.Min), formatFloat(l.PayoffRange.Max), l.Aggregate, l.Delay)
	if l.Payoffs == Adversarial {
		f += fmt.Sprintf(" policy=%s", l.Policy)
	}
	if l.Delay == BOLD {
		f += fmt.Sprintf(" loss_index=%s", l.LossIndex)
	}
	return f + l.contextFingerprint()
}

// fill sets the defaults of absent keys that depend on other settings.
func (l *Learner) fill(given func(key string) bool) {
	if !given("payoffs") {
		l.Payoffs = l.assumed(given("policy"))
	}
	if !given("policy") {
		var delay Delay
		if given("delay") {
			delay = l.Delay
		}
		l.Policy = defaultPolicy(l.Payoffs, delay)
	}
	if !given("delay") {
		l.Delay = l.Policy.DefaultDelay()
	}
	if !given("sigma") { // an estimated prior includes σ
		l.EstimateSigma = l.believes() && l.Prior.Kind == policy.EmpiricalPrior
	}
	if !given("silence") && l.silenceWaits() != "" {
		l.Silence = Waits
	}
	if !given("selection_timeout") {
		l.SelectionTimeout = min(l.SelectionTimeout, l.PayoffHorizon)
	}
	if !given("item_retention") {
		if l.ItemRetention = min(max(2*l.PayoffHorizon, leastRetention), longest); l.neverForgets() != "" {
			l.ItemRetention = 0
		}
	}
}

// assumed returns the assumption about payoffs of a file that sets none. Payoffs may change, unless a setting is for means that stay.
func (l *Learner) assumed(hasPolicy bool) Payoffs {
	stay := l.Context.On() || l.Drift > 0 || l.Aggregate == Sum || l.Silence == AtOnce || l.Delay == QPMD
	if hasPolicy {
		stay = !l.Policy.Spec().IsAdversarial()
	}
	if stay {
		return Stochastic
	}
	return Adversarial
}

// leastRetention is the least default for keeping an item without impressions: an item that is out of stock for some weeks is not new.
const leastRetention = 30 * 24 * time.Hour

// defaultPolicy is the policy for a delay handling that the file sets, or "".
func defaultPolicy(p Payoffs, written Delay) Policy {
	switch {
	case p != Adversarial:
		return MOSS
	case written == BOLD:
		return FTRL
	}
	return Robust
}
