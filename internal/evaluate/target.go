package evaluate

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/evaluate/usermodel"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Target is a policy to evaluate: the log's own, a learner on the log, a fixed exported state, or a shadow of the time.
type Target struct {
	name    string
	learner *config.Learner // nil for the log's own policy
	new     func() delay.Learner
	frozen  *partition.Offline
	shadow  string // its recorded decisions count; empty for none
	context *partition.Context
}

// LooksAtContexts returns whether the log must be read with contexts.
func (t *Target) LooksAtContexts() bool {
	return t.context != nil || t.learner != nil && len(t.learner.Caps) > 0
}

// Shadow returns the shadow with which the log must be read; empty for none.
func (t *Target) Shadow() string { return t.shadow }

// ParseTarget reads a target: `logging`, the log's own policy; `learner:NAME`, another configured learner; `state:FILE`, a fixed
// exported state of the learner; or `shadow:NAME`, its recorded decisions. Any other text is a policy with settings as in the
// configuration, `moss,prior=none`; the rest are the learner's. It fails if the target is unknown or its settings are faulty.
func ParseTarget(text string, of *config.Learner, cfg *config.Config) (*Target, error) {
	if text == Logging {
		return &Target{name: text}, nil
	}
	if name, ok := strings.CutPrefix(text, "shadow:"); ok {
		return &Target{name: text, learner: of, shadow: name}, nil
	}
	if file, ok := strings.CutPrefix(text, "state:"); ok {
		t := &Target{name: text, learner: of}
		err := t.load(file, of, cfg)
		if err != nil {
			err = fmt.Errorf("target %q: %w", text, err)
		}
		return t, err
	}
	l, err := targetLearner(text, of, cfg)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", text, err)
	}
	t := &Target{name: text, learner: l}
	if t.new, err = learners.New(l); err == nil {
		err = t.look(l)
	}
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", text, err)
	}
	return t, nil
}

// look sets the target's context. Missing features count as the middle of their range, since logs are of the past.
func (t *Target) look(l *config.Learner) (err error) {
	lenient := *l
	lenient.Context.Missing = config.MissingIsZero
	t.context, err = learners.Context(&lenient)
	return err
}

func (t *Target) load(file string, of *config.Learner, cfg *config.Config) error {
	if of.Utilities != config.Given {
		return fmt.Errorf("learner %q estimates the order of utilities itself, and cannot be evaluated without it", of.Name)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if t.frozen, err = admin.Exported(cfg, of.Name, f); err == nil {
		err = t.look(of)
	}
	return err
}

func targetLearner(text string, of *config.Learner, cfg *config.Config) (*config.Learner, error) {
	if name, ok := strings.CutPrefix(text, "learner:"); ok {
		l := cfg.Learner(name)
		if l == nil {
			return nil, fmt.Errorf("no learner of this name is configured, there are %s", strings.Join(cfg.LearnerNames(), ", "))
		}
		given := *l
		given.Utilities = config.Given // the log has the order
		return &given, nil
	}
	name, rest, _ := strings.Cut(text, ",")
	kind := policy.SpecOf(name)
	if kind == nil {
		var known []string
		for _, k := range policy.Specs {
			known = append(known, k.Name)
		}
		return nil, fmt.Errorf("there is no policy %q; there are %s, and %s, learner:NAME, shadow:NAME and state:FILE", name, strings.Join(known, ", "), Logging)
	}
	payoffs := config.Stochastic
	if kind.IsAdversarial() {
		payoffs = config.Adversarial
	}
	settings := []config.Setting{{"payoffs", string(payoffs)}, {"policy", name}}
	if kind.Name == "utility" { // which ignores feedback
		settings = append(settings, config.Setting{"silence", string(config.Waits)})
	}
	for _, s := range splitSettings(rest) {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form key=value", s)
		}
		settings = append(settings, config.Setting{key, value})
	}
	l, err := of.Variant("target", cfg.Kafka.Topics.HasSelections(), settings)
	if !slices.ContainsFunc(settings, func(s config.Setting) bool { return s[0] == "caps" }) {
		l.Caps = of.Caps // they are the page's, whatever ranks
	}
	return &l, err
}

func splitSettings(text string) (all []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				all = append(all, text[from:i])
				from = i + 1
			}
		}
	}
	if text != "" {
		all = append(all, text[from:])
	}
	return all
}

// player is a target that decides each impression before its outcome, and learns from the log's. Not safe for concurrent use.
type player struct {
	*Target
	est      *estimator
	per      *usermodel.Estimate // per impression; nil per selection
	learner  delay.Learner       // nil: it does not learn
	needs    delay.Needs
	grown    int32
	advanced event.Millis // time of the last Advance
	decision delay.Decision
	pi       []float64 // by utility rank
	flown    []flown   // by slot
	names    [][]byte  // scratch
	recorded int       // index among the log's shadows
	depths   depths
	reading  partition.Reading
	x        policy.Context
	rules    partition.Rules
	caps     []partition.Cap
}

func (p *player) own() bool { return p.learner == nil && p.frozen == nil && p.shadow == "" }

type flown struct {
	instance int32
	expected []float64 // by utility rank; nil: none
	x        []int8    // of the candidates by utility rank, then of the selected one only
	segment  int32     // of the user
}

func (t *Target) play(clip float64) *player {
	p := &player{Target: t, est: newEstimator(clip)}
	if t.learner != nil {
		p.caps = learners.Caps(t.learner)
	}
	if t.new != nil {
		p.learner = t.new()
		p.needs = p.learner.Needs()
	}
	return p
}

// advances is the number of calls of Advance per payoff horizon. A call costs as much as several decisions, and estimates change slowly.
const advances = 256

func (p *player) advance(at int64, items int32) {
	if p.learner == nil {
		return
	}
	if items > p.grown {
		p.grown = items
		p.learner.Grow(int(items))
	}
	if at >= p.advanced+max(1000, p.Target.learner.PayoffHorizon.Milliseconds()/advances) {
		p.advanced = at
		p.learner.Advance(at)
	}
}

// decide ranks a row's candidates, and keeps the data that feedback needs. The order is empty if a shadow did not rank them all.
func (p *player) decide(log *joinedlog.Log, e *joinedlog.Event, imp *event.Impression, slot int32) error {
	about, err := p.about(imp, e.Began)
	if err != nil {
		return err
	}
	key := policy.DecisionKey(p.Target.learner.Seed, 0, p.name, 0, int64(e.Row))
	p.decision.Ranks, p.decision.Undecided = p.decision.Ranks[:0], p.decision.Undecided[:0]
	if p.shadow != "" {
		p.decision.Order = p.decision.Order[:0]
		if len(e.Shadows) > 0 {
			p.decision.Order = append(p.decision.Order, e.Shadows[p.recorded]...)
		}
		return nil
	}
	if p.frozen != nil {
		p.names = p.names[:0]
		for _, i := range e.Items {
			p.names = append(p.names, []byte(log.Names[i]))
		}
		return p.frozen.Rank(p.Target.learner.Name, p.names, about, imp, key, &p.decision)
	}
	if about != nil {
		p.context.Categorise(p.learner, &p.reading, imp, e.Items)
		p.learner.Meet(e.Items, e.Began)
	}
	p.learner.Decide(e.Items, about, key, &p.decision)
	for int(slot) >= len(p.flown) {
		p.flown = append(p.flown, flown{})
	}
	f := &p.flown[slot]
	f.instance, f.expected, f.x, f.segment = p.decision.Instance, f.expected[:0], f.x[:0], 0
	if about != nil {
		f.x, f.segment = append(f.x, about.X...), about.Segment
	}
	if n := len(p.decision.Expected); n > 0 {
		f.expected = slices.Grow(f.expected, n)[:n]
		for k, rank := range p.decision.Order {
			f.expected[rank] = p.decision.Expected[k]
		}
	}
	return nil
}

// rule puts the target's decision under the pins of the impression, and the target's caps: it is judged as it would be shown. A shadow's was
// recorded under rules.
func (p *player) rule(imp *event.Impression) {
	if p.shadow == "" && p.rules.Read(imp, p.caps) {
		p.rules.Reorder(p.decision.Order, nil)
		p.decision.Propensities = p.decision.Propensities[:0]
	}
}

// about returns the target's context of an impression, candidates in increasing utility; nil if it uses items alone.
func (p *player) about(imp *event.Impression, began event.Millis) (*policy.Context, error) {
	if p.context == nil || p.shadow != "" {
		return nil, nil
	}
	if f := p.context.Read(&p.reading, imp, p.name); f != nil {
		return nil, f
	}
	p.context.Fill(&p.x, &p.reading, nil, began)
	return &p.x, nil
}

func (p *player) selected(x *flight, slot int32) {
	if f := &p.flown[slot]; len(f.x) > 0 {
		width := len(f.x) / len(x.candidates)
		f.x = append(f.x[:0], f.x[int(x.selected)*width:][:width]...)
	}
}

// feedback adds the player's own decision to the feedback.
func (p *player) feedback(fb delay.Feedback, x *flight, slot int32) delay.Feedback {
	f := &p.flown[slot]
	fb.Instance = f.instance
	if len(f.expected) > 0 && x.selected >= 0 {
		fb.Expected, fb.HasExpected = f.expected[x.selected], true
	}
	if len(f.x) > 0 && x.selected >= 0 {
		fb.X, fb.Segment = f.x, f.segment
	}
	return fb
}
