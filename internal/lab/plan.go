package lab

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Settings are the settings to compare, in the configuration file's syntax except Policies, Delays, MaxInstances and Eta. Empty
// ones have the configuration's default, sigma the scenario's.
type Settings struct {
	Policies     []string // empty: the default for stochastic payoffs
	Delays       []string // empty: each policy's default
	MaxInstances []int    // for BOLD, one combination each; empty: the default
	// Eta is a number, "known", with which osmd knows T, or "doubled"; empty or "auto" is known.
	Eta       string
	Prior     string
	Sigma     string
	Delta     string
	Radius    string
	LossIndex string
	// OnExpiry is the payoff assumed at expiry, or "drop"; empty is 0. It is unused if all selections are paid.
	OnExpiry  string
	Silences  []string // weights of a selection in flight; one combination each with delay direct; empty: the default
	Drifts    []string // drifts of means; likewise
	Utilities []string // one combination each; empty: given
	Clock     []string // levels of the clock, for learners that can use them, in scenarios without another context
	Age       bool     // likewise items' ages
}

type Combination struct {
	Learner config.Learner
	// Doubled says that osmd does not know the horizon.
	Doubled bool
	// Contexts says that the learner receives contexts.
	Contexts bool
	new      func() delay.Learner
}

func (c *Combination) instances() *int {
	if c.Learner.Delay != config.BOLD {
		return nil
	}
	return &c.Learner.MaxInstances
}

// ErrNothingToPlay is wrapped if no combination is left.
var ErrNothingToPlay = errors.New("no policy goes with a delay handling and the scenario")

// Combine returns each combination of a policy and a delay handling that fits the experiment, policies first. Notes name those left
// out, with the reason, and settings without effect. The error is a *config.SettingError, or wraps ErrNothingToPlay.
func Combine(e *Experiment, s *Settings) (all []*Combination, notes []string, err error) {
	policies := slices.Clone(s.Policies)
	if len(policies) == 0 {
		policies = []string{string(config.DefaultLearner("", config.Stochastic).Policy)}
	}
	note := func(format string, args ...any) {
		if n := fmt.Sprintf(format, args...); !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	idle := map[string]int{}
	if s.OnExpiry != "" && e.horizon() == 0 {
		note("on_expiry has no effect here")
	}
	for _, policy := range distinct(policies) {
		if _, _, err := s.learner(e, policy, "", variant{utilities: choices(s.Utilities, true, string(config.Given))[0]}); err != nil {
			return nil, nil, err // faults of the policy itself, or of a setting
		}
		if !fits(e, policy) {
			note("%s is left out: it needs payoffs within [0,1] and windows of one known distribution, which scenario %s does not have; %s",
				policy, e.Scenario, "those from stationary on do")
			continue
		}
		delays := s.Delays
		if len(delays) == 0 {
			delays = []string{string(config.Policy(policy).DefaultDelay())}
		}
		for _, d := range distinct(delays) {
			if err := config.Together(config.Policy(policy), config.Delay(d)); err != nil {
				note("%s with %s is left out: %v", policy, d, err)
				continue
			}
			for _, v := range s.variants(policy, d) {
				if v.utilities != string(config.Given) && e.Scenario.definition().reorders {
					note("utilities: %s is left out: in scenario %s each impression has an order of its own", v.utilities, e.Scenario)
					continue
				}
				c, warnings, err := s.learner(e, policy, d, v)
				if err != nil {
					return nil, nil, err
				}
				for _, w := range warnings {
					idle[w]++
				}
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return nil, notes, fmt.Errorf("%w %s: %s", ErrNothingToPlay, e.Scenario, strings.Join(notes, "; "))
	}
	for _, w := range slices.Sorted(maps.Keys(idle)) {
		if idle[w] == len(all) {
			note("%s has no effect here", w)
		}
	}
	return all, notes, nil
}

// fits returns whether a policy can be played: most adversarial ones need payoffs in [0,1] and one window distribution.
func fits(e *Experiment, name string) bool {
	k := policy.SpecOf(name)
	switch {
	case k == nil || !k.IsAdversarial():
		return true
	case k.Follow != nil:
		return e.Scenario.Ratio() > 0
	}
	return e.Scenario.FitsAdversarial()
}

func isAdversarial(name string) bool {
	k := policy.SpecOf(name)
	return k != nil && k.IsAdversarial()
}

func payoffsOf(policy string) config.Payoffs {
	if isAdversarial(policy) {
		return config.Adversarial
	}
	return config.Stochastic
}

// variant are the settings in which combinations of one policy and delay handling differ. Empty is the default.
type variant struct{ instances, utilities, silence, drift string }

// variants returns those that a policy and a delay handling have: instances are BOLD's, silence and drift direct's.
func (s *Settings) variants(name, delay string) (all []variant) {
	direct, robust := delay == string(config.Direct), name == string(config.Robust)
	var instances []string
	for _, m := range s.MaxInstances {
		instances = append(instances, strconv.Itoa(m))
	}
	silences := s.Silences
	if robust {
		silences = slices.DeleteFunc(slices.Clone(silences), func(law string) bool { return law == string(config.AtOnce) })
	}
	for _, m := range choices(instances, delay == string(config.BOLD), "") {
		for _, u := range choices(s.Utilities, true, string(config.Given)) {
			for _, silence := range choices(silences, direct, "") {
				for _, drift := range choices(s.Drifts, direct && !robust, "") {
					all = append(all, variant{m, u, silence, drift})
				}
			}
		}
	}
	return all
}

// choices returns distinct values of a setting, or its default if there are none or the setting does not apply.
func choices(values []string, applies bool, otherwise string) []string {
	if !applies || len(values) == 0 {
		return []string{otherwise}
	}
	return distinct(values)
}

// learner reads one combination as a configuration file is read. Warnings are settings without effect.
func (s *Settings) learner(e *Experiment, policy, delay string, v variant) (c *Combination, warnings []string, err error) {
	own := e.Scenario.definition()
	delay = cmp.Or(delay, string(config.Policy(policy).DefaultDelay()))
	eta, doubled := cmp.Or(s.Eta, "auto"), s.Eta == "doubled"
	if doubled || eta == "known" {
		eta = "auto"
	}
	// The configuration's default suits payoffs within [0,1].
	sigma := s.Sigma
	if sigma == "" && e.Scenario.Sigma() != config.DefaultLearner("", config.Stochastic).Sigma {
		sigma = strconv.FormatFloat(e.Scenario.Sigma(), 'g', -1, 64)
	}
	settings := []config.Setting{
		{"policy", policy}, {"delay", delay}, {"prior", s.Prior}, {"sigma", sigma}, {"delta", s.Delta}, {"radius", s.Radius},
		{"eta", eta}, {"loss_index", s.LossIndex}, {"payoffs", string(payoffsOf(policy))},
		{"max_instances", v.instances}, {"utilities", v.utilities}, {"silence", v.silence},
		{"drift", v.drift},
	}
	if k := config.Policy(policy).Spec(); (len(s.Clock) > 0 || s.Age) && k != nil && k.Contextual && delay == string(config.Direct) && own.contexts == nil {
		settings = append(settings, config.Setting{"context", fmt.Sprintf("{clock: [%s], age: %t}", strings.Join(s.Clock, ", "), s.Age)})
	}
	low, high := e.Scenario.payoffRange()
	if low != 0 || high != 1 {
		settings = append(settings, config.Setting{"payoff_range", fmt.Sprintf("[%v, %v]", low, high)})
	}
	if own.delays != nil && own.delays.sums {
		settings = append(settings, config.Setting{"aggregate", string(config.Sum)})
	}
	if e.horizon() > 0 || policy == string(config.Robust) { // robust requires it
		silence, err := s.onExpiry()
		if err != nil {
			return nil, nil, err
		}
		settings = append(settings, config.Setting{"on_expiry", silence})
	}
	l, warnings, err := config.ReadLearner("laboratory", true, settings)
	if err != nil {
		return nil, nil, err
	}
	if s.Sigma == "" {
		warnings = slices.DeleteFunc(warnings, func(key string) bool { return key == "sigma" })
	}
	if s.Eta == "" {
		warnings = slices.DeleteFunc(warnings, func(key string) bool { return key == "eta" })
	}
	if h := e.horizon(); h > 0 {
		l.PayoffHorizon = e.Scenario.clock().span(h)
	}
	if l.EstimateSigma { // estimated from payoffs, and at most the scenario's
		l.Sigma = e.Scenario.Sigma()
	}
	// The paper's policies are given the windows. Robust learns them, with noise, as by default.
	if k, ratio := l.Policy.Spec(), e.Scenario.Ratio(); ratio > 0 && k.NeedsWindows() && k.Follow == nil {
		l.Windows = config.Windows{Geometric: &ratio, Max: e.Scenario.Candidates(e.Items)}
	}
	if l.Policy == config.OSMD && l.Eta.Auto && !doubled {
		l.Eta = config.OrAuto{Value: math.Sqrt(2 / float64(e.perInstance(l.MaxInstances)))}
	}
	c = &Combination{Learner: l, Doubled: l.Policy == config.OSMD && doubled}
	if fits(e, policy) {
		if c.new, err = learners.New(&c.Learner); err != nil {
			return nil, nil, &config.SettingError{Key: "policy", Err: err}
		}
		if own.contexts != nil && !e.Blind {
			contextual, err := own.contexts.learner(c)
			if err != nil {
				return nil, nil, &config.SettingError{Key: "policy", Err: err}
			}
			if c.Contexts = contextual != nil; c.Contexts {
				c.new = contextual
			}
		}
	}
	return c, warnings, nil
}

func (s *Settings) onExpiry() (string, error) {
	switch s.OnExpiry {
	case "":
		return "{default: 0}", nil
	case "drop":
		return "drop", nil
	}
	if _, err := strconv.ParseFloat(s.OnExpiry, 64); err != nil {
		return "", &config.SettingError{Key: "on_expiry", Err: fmt.Errorf("must be drop or a payoff, not %q", s.OnExpiry)}
	}
	return "{default: " + s.OnExpiry + "}", nil
}

// perInstance returns the most payoffs that an instance of BOLD is fed.
func (e *Experiment) perInstance(limit int) int64 {
	instances, _ := e.longest()
	instances++
	if limit > 0 {
		instances = min(instances, int64(limit))
	}
	return max(1, (e.Horizon+instances-1)/instances)
}

func distinct[T comparable](s []T) []T {
	var out []T
	for _, x := range s {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
