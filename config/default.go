package config

import (
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Defaults returns the configuration of an empty file, which is not valid: it has no brokers, no Redis and no learner.
func Defaults() Config {
	return standardOf(settings)
}

// DefaultLearner returns a learner with only the name and payoffs set.
func DefaultLearner(name string, payoffs Payoffs) Learner {
	l := standardOf(learnerSettings)
	l.Name, l.Payoffs = name, payoffs
	l.fill(func(string) bool { return false })
	return l
}

// fill sets the defaults of absent keys that depend on other settings.
func (l *Learner) fill(given func(key string) bool) {
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

// leastRetention is the least default for keeping an item without impressions: an item that is out of stock for some weeks is not new.
const leastRetention = 30 * 24 * time.Hour

// neverForgets returns the reason that items are kept for ever, or "".
func (l *Learner) neverForgets() string {
	switch {
	case l.Utilities == Sorted || l.Utilities == Social:
		return "the order of utilities that utilities: " + string(l.Utilities) + " finds is of all items"
	case l.Delay == BOLD:
		return "instances of bold have statistics of all items together"
	case l.Delay == QPMD:
		return "payoffs of any item may wait with qpmd"
	}
	return ""
}

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

// silenceWaits returns the reason that selections in flight cannot have a weight, or "".
func (l *Learner) silenceWaits() string {
	switch {
	case l.follows() && l.Aggregate == Sum:
		return string(l.Policy) + " learns from sums when they are whole"
	case l.Delay != Direct:
		return string(l.Delay) + " handles selections in flight itself; silence has an effect only with delay: direct"
	case l.OnExpiry.Default == nil:
		return "with on_expiry: drop an unpaid selection has no payoff; {default: x} sets it"
	}
	return ""
}

func (l *Learner) believes() bool {
	k := l.Policy.Kind()
	return k != nil && k.Believes
}

// follows reports whether a learner's policy is robust: without losses, for payoffs that may change.
func (l *Learner) follows() bool {
	k := l.Policy.Kind()
	return k != nil && k.Follow != nil
}

func (p Policy) DefaultDelay() Delay {
	switch k := p.Kind(); {
	case k == nil:
		return Direct
	case k.HasLosses():
		return BOLD
	case k.NotDirect != "":
		return QPMD
	}
	return Direct
}
