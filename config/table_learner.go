package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

var (
	confident  = func(k *policy.Spec) bool { return k.Confident }
	believing  = func(k *policy.Spec) bool { return k.Believes }
	scaled     = func(k *policy.Spec) bool { return k.Confident || k.Believes }
	lossy      = (*policy.Spec).HasLosses
	windowed   = (*policy.Spec).NeedsWindows
	contextual = func(k *policy.Spec) bool { return k.Contextual }
)

const leastEta, mostEta = 1e-6, 1e6

var learnerSettings = []setting[Learner]{
	value("default", func(l *Learner) *bool { return &l.Default }, yesOrNo, false,
		"ranks impressions that name no learner; a single learner always does"),
	value("payoffs", func(l *Learner) *Payoffs { return &l.Payoffs }, words(Stochastic, Adversarial), Adversarial,
		"assumption: each item has a mean payoff, or payoffs may drift, react or be chosen by an opponent. `stochastic` is the default "+
			"with a `policy` for it, `context`, `drift`, `aggregate: sum`, `silence: at_once` and `delay: qpmd`; `robust` takes only `aggregate: sum` of these"),
	value("policy", func(l *Learner) *Policy { return &l.Policy }, words(Policies()...), Robust,
		"how rankings are made: "+aboutPolicies()),
	value("delay", func(l *Learner) *Delay { return &l.Delay }, words(Delays()...), Direct,
		"handling of late payoffs: "+aboutDelays()),
	value("radius", func(l *Learner) *Radius { return &l.Radius }, words(SubGaussian, Paper), SubGaussian, "the confidence radius").
		with(confident),
	value("prior", func(l *Learner) *Prior { return &l.Prior }, priorKind, Prior{Kind: policy.EmpiricalPrior},
		"the assumed distribution of items' mean payoffs").with(believing),
	{key: "sigma", kind: "number or auto", span: numbers(leastScale, mostScale) + ", or `auto`: learned, 0.5 at most", effect: scaled,
		about: "sub-Gaussian scale of an item's payoffs, in payoff ranges. 0.5 is the default with policies " +
			"that have a `radius`, and without an empirical prior; without effect with `radius: paper`",
		editor: orReference(schema{"const": "auto"}, schema{"type": "number", "minimum": leastScale, "maximum": mostScale}, numeric),
		start:  func(l *Learner) { l.Sigma = 0.5 }, // payoffs in [0,1] are ½-sub-Gaussian whatever their distribution (Hoeffding)
		read:   readSigma, print: printSigma},
	value("delta", func(l *Learner) *OrAuto { return &l.Delta },
		orAuto("between 0 and 1", func(x float64) bool { return x > 0 && x < 1 }, schema{"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
		OrAuto{Value: 0.05}, "the probability that a confidence interval is wrong; auto: 1/t").with(confident),
	value("max_instances", func(l *Learner) *int { return &l.MaxInstances }, wholeNumber(0, maxInstances), 1,
		"instances that `bold` keeps; 0: as many as impressions are outstanding at once").with(lossy),
	value("loss_index", func(l *Learner) *LossIndex { return &l.LossIndex }, words(ByItem, ByRank), ByItem,
		"index of the losses: items, or utility ranks for each list length").with(lossy),
	value("eta", func(l *Learner) *OrAuto { return &l.Eta },
		orAuto("from "+numbers(leastEta, mostEta), func(x float64) bool { return x >= leastEta && x <= mostEta },
			schema{"minimum": leastEta, "maximum": mostEta}), OrAuto{Auto: true},
		"learning rate: c of c/√t for `ftrl` (auto: 1), η itself for `osmd` (auto: the horizon is doubled)").with(lossy),
	value("windows", func(l *Learner) *Windows { return &l.Windows }, windowsKind, standardOf(windowsSettings), "distribution of the number of results that users look at").
		with(windowed),
	value("payoff_range", func(l *Learner) *Range { return &l.PayoffRange }, rangeKind, Range{Min: 0, Max: 1},
		"of one payoff, or of the sum with `aggregate: sum`"),
	value("out_of_range", func(l *Learner) *OutOfRange { return &l.OutOfRange }, words(Clamp, Refuse), Clamp,
		"a payoff outside `payoff_range` counts as the nearer end, or is a dead letter and its selection ends "+
			"without a payoff; sums are always clamped"),
	value("payoff_horizon", func(l *Learner) *time.Duration { return &l.PayoffHorizon }, duration(time.Millisecond, longest),
		720*time.Hour, "time from the impression until which a payoff counts"),
	value("selection_timeout", func(l *Learner) *time.Duration { return &l.SelectionTimeout },
		unlessZero(duration(time.Millisecond, longest)), 30*time.Minute,
		"time from the impression until which a selection counts; by default at most the payoff horizon; not with an empty `kafka.topics.selections`").
		within("1ms to `payoff_horizon`"),
	value("item_retention", func(l *Learner) *time.Duration { return &l.ItemRetention }, duration(0, longest), 1440*time.Hour,
		"how long an item without impressions is kept; then its statistics are dropped, and if it returns it is new. "+
			"By default twice the payoff horizon, at least 30d. 0, for ever, with `bold` and `qpmd`, and where `utilities` are not given").
		within("0 or `payoff_horizon` to 3650d").unless(func(l *Learner) bool { return l.neverForgets() != "" }),
	value("on_expiry", func(l *Learner) *OnExpiry { return &l.OnExpiry }, onExpiryKind, OnExpiry{Default: new(float64)},
		"payoff assumed for a selection never paid. Payoffs sent only when something good happens need "+
			"`{default: 0}`; `drop` is for payoffs whose absence means nothing, such as a rating that few give. Needed if `payoff_range` does not contain 0"),
	value("silence", func(l *Learner) *Silence { return &l.Silence }, words(Waits, AtOnce, Ages), Ages,
		"weight of a selection not paid yet: none (`waits`); that of one never paid, by `on_expiry` "+
			"(`at_once`); or that times the probability, by its age, that it is never paid (`ages`), the default if "+
			"possible: with `direct`, a default at expiry and a selections topic"),
	value("drift", func(l *Learner) *float64 { return &l.Drift }, numberIn(0, 1), 0,
		"random-walk drift of items' means, in standard deviations of a payoff per day, by which old payoffs lose weight; "+
			"0: none. Only with `direct`; memory of each value: docs/understand/drift.md"),
	value("aggregate", func(l *Learner) *Aggregate { return &l.Aggregate }, words(First, Sum), First,
		"the first payoff counts, or the sum of all until the deadline; before that, a partial sum counts as `silence` says"),
	value("utilities", func(l *Learner) *Utilities { return &l.Utilities }, words(UtilityKinds()...), Given,
		"source of the candidates' order: the impressions' utilities; else an estimate from selections of "+
			"users who all like the items in the same order, or from the `utility` that users send with selections (needs a selections topic)"),
	value("context", func(l *Learner) *Context { return &l.Context }, contextKind, standardOf(contextSettings),
		"features of impressions that payoffs may depend on besides the item; only with `delay: direct`, and without `drift`").with(contextual),
	value("caps", func(l *Learner) *[]Cap { return &l.Caps }, capsKind, nil,
		"at most `most` candidates of a `category` in the `first` places; without `category`, of each category. Not with `bold`"),
	value("seed", func(l *Learner) *uint64 { return &l.Seed },
		scalar("whole number", "0 to 2⁶⁴−1", parseSeed, func(n uint64) *yaml.Node { return plain(strconv.FormatUint(n, 10)) },
			orReference(schema{"type": "integer", "minimum": 0, "maximum": uint64(1<<64 - 1)}, pattern("^[0-9]+$"))), 1,
		"of the random numbers that break ties"),
}

var onExpiryKind = wordOr(
	func(e OnExpiry) string {
		if e.Default == nil {
			return "drop"
		}
		return ""
	},
	[]OnExpiry{{}}, OnExpiry{Default: new(float64)},
	[]setting[OnExpiry]{
		value("default", func(e *OnExpiry) **float64 { return &e.Default }, maybe("within `payoff_range`", schema{}), nil,
			"it counts as this payoff").orElse("is needed, such as on_expiry: {default: 0}; or write on_expiry: drop"),
	}, "{default: payoff}")

func aboutDelays() string {
	var late []string
	for _, p := range Policies() {
		if p.DefaultDelay() == QPMD {
			late = append(late, "`"+string(p)+"`")
		}
	}
	return "stochastic policies have `direct` by default, or `qpmd`; " + strings.Join(late, ", ") +
		" only `qpmd`; adversarial ones only `bold`, but `robust`, which has only `direct`"
}

func (l *Learner) print() *yaml.Node {
	shown := slices.DeleteFunc(slices.Clone(learnerSettings), func(t setting[Learner]) bool {
		return !t.hasEffect(l.Policy.Spec()) // reading it again would warn
	})
	return printAll(shown, l).node(false)
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
	if l.Policy.Spec().NeedsWindows() && !topics.HasSelections() && l.Windows.Learned() {
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
		if s.has(t.key) && s.ok(t.key) && !t.hasEffect(l.Policy.Spec()) {
			s.warn(t.key, "has no effect with policy %s", l.Policy)
		}
	}
	if l.Policy.Spec().Confident && l.Radius == Paper && s.has("sigma") {
		s.warn("sigma", "has no effect with radius: paper, which has σ = 1/√2")
	}
}

// DefaultLearner returns a learner with only the name and payoffs set.
func DefaultLearner(name string, payoffs Payoffs) Learner {
	l := standardOf(learnerSettings)
	l.Name, l.Payoffs = name, payoffs
	l.fill(func(key string) bool { return key == "payoffs" })
	return l
}
