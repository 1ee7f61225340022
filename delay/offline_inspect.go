package delay

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// Inspector is a learner that shows its state to people. No decision uses it, and it does not change the learner.
type Inspector interface {
	Learner
	// Inspect returns the learner's state besides its items' sums.
	Inspect() Inspection
	// Rule describes in one sentence how rankings are made.
	Rule() string
	// Coming returns the share of payoffs that come at the greatest ages seen so far (inflight.Coming); 0 without SilenceAges. It takes a
	// millisecond with 64 sources.
	Coming() float64
	// Explain decides as Decide does, and adds the reasons.
	Explain(candidates []policy.Item, about *policy.Context, key policy.Key) Explanation
}

// Inspection is a learner's state besides its items' sums.
type Inspection struct {
	Items   []ItemInspection // by item; nil where selections in flight are not counted by item
	HoldRef int64            // offset of the impression whose selection began the hold; meaningless unless Status.OnHold

	Instances []InstanceInspection // of BOLD, by number; only those with payoffs or outstanding decisions
	Windows   []float64            // distribution of windows in use, from window 1 on; empty where none is
	Learned   int64                // selections of all partitions behind Windows; 0 where they are given
	Noise     float64              // share of users who select any item within their window, in [0,1); 0 where windows are given

	Beliefs *policy.Components // variance components in normalised units; nil for policies without

	Coefficients []Coefficient // of features; nil where payoffs do not depend on any

	Preferences *preference.Report // the order of utilities found so far; nil where they are given
}

// ItemInspection is an item's state in this partition besides its sums.
type ItemInspection struct {
	InFlight int64   `json:"in_flight"`
	Silent   float64 `json:"silent"`  // weight of these, in selections that were never paid
	Waiting  int64   `json:"waiting"` // payoffs in QPM-D's queue

	// OnTop counts impressions with the item on top, Selected those of them
	// with a selection; for learners that maximise payoff per impression.
	OnTop    int64 `json:"on_top,omitempty"`
	Selected int64 `json:"selected,omitempty"`
}

// InstanceInspection is a BASE instance of BOLD.
type InstanceInspection struct {
	Number      int32 `json:"instance"`
	Outstanding int32 `json:"outstanding"` // decisions whose impression has not ended
	Rounds      int64 `json:"payoffs"`     // payoffs fed
}

// Explanation is a decision with its reasons.
type Explanation struct {
	Decision Decision
	// Rule says in one sentence how rankings are made.
	Rule string
	// Why is by position in the candidates. For a learner with propensities, Index is the estimated cumulative loss (FTRL), the
	// probability before this list's windows apply (OSMD), or the score (Robust); NaN if unknown.
	Why []policy.Reason
	// Parts are the contributions to each candidate's expected payoff, by position; nil where payoffs depend on the item alone.
	Parts [][]Contribution
	// Attracts holds, likewise, the factors of payoffs per impression; nil where decisions go by payoff per selection.
	Attracts []Attracts
}

// Attracts holds the factors of a candidate's payoff per impression, as a learner estimates them. Payoffs are normalised.
type Attracts struct {
	PerSelection  float64 // NaN where nothing is expected of the candidate yet
	Share         float64 // of impressions with the item on top that end with a selection
	PerImpression float64 // NaN like PerSelection
}

var (
	_ Inspector = (*QPMD)(nil)
	_ Inspector = (*Direct)(nil)
	_ Inspector = (*BOLD)(nil)
	_ Inspector = (*Preferring)(nil)
	_ Inspector = (*Robust)(nil)
)

// Inspect implements Inspector.
func (b *base) Inspect() Inspection {
	i := Inspection{Items: make([]ItemInspection, b.flights.Len())}
	for k := range i.Items {
		x, item := &i.Items[k], policy.Item(k)
		x.InFlight, x.Silent = int64(b.flights.Own(item).N), b.flights.ownWeight(item)
		if b.attraction != nil {
			ended := b.attraction.table.Own(item)
			x.OnTop, x.Selected = ended.N, int64(ended.R)
		}
	}
	i.Windows, i.Learned = b.Windows(nil)
	i.Noise = b.windows.noise
	if b.contexts != nil {
		i.Beliefs, i.Coefficients = b.contexts.beliefs(), b.contexts.coefficients()
		return i
	}
	if p, ok := b.policy.(policy.Estimating); ok && p.Belief() != policy.Unbelieving {
		c := p.Belief().Components(b.table)
		i.Beliefs = &c
	}
	return i
}

func (q *QPMD) Inspect() Inspection {
	i := q.base.Inspect()
	i.HoldRef = q.hold.ref
	for k := range q.queues {
		i.Items[k].Waiting = q.queues[k].len()
	}
	return i
}

// Rule implements Inspector.
func (b *base) Rule() string {
	if e, ok := b.ranker().(policy.Explainer); ok {
		rule := e.Rule()
		if b.aimsPerImpression() {
			rule += "; payoffs count per impression: a selection's, times the share of impressions with the item on top that end with one"
		}
		return rule
	}
	return ""
}

// Coming implements Inspector.
func (b *base) Coming() float64 { return b.flights.coming() }

// Explain implements Inspector.
func (b *base) Explain(candidates []policy.Item, about *policy.Context, key policy.Key) Explanation {
	var x Explanation
	b.Decide(candidates, about, key, &x.Decision)
	in := b.in
	in.Items, in.Context, in.Key = candidates, about, key
	x.Why, _ = policy.Reasons(b.ranker(), &in, &b.ws, x.Decision.Order)
	x.Rule = b.Rule()
	if b.aimsPerImpression() {
		b.in.Items, b.in.Context = candidates, about
		x.Attracts = b.attraction.attracts(candidates, b.perSelection())
		b.in.Items, b.in.Context = nil, nil
	}
	if b.contexts != nil {
		x.Parts = b.contexts.parts(candidates, about)
	}
	return x
}

// attracts returns the factors of candidates' payoffs per impression.
func (a *attraction) attracts(items []policy.Item, from *policy.Known) []Attracts {
	c := a.belief.Components(a.table)
	all := make([]Attracts, len(items))
	for at, i := range items {
		x := &all[at]
		x.PerSelection, x.PerImpression = math.NaN(), math.NaN()
		x.Share = a.share(i, c.Mean, c.Kappa()).Mean
		if known := from.Candidates[at]; known.Weight > 0 {
			x.PerSelection, x.PerImpression = known.Mean, a.nothing+float64(x.Share*(known.Mean-a.nothing))
		}
	}
	return all
}

func (b *BOLD) Inspect() Inspection {
	i := Inspection{}
	i.Windows, i.Learned = b.Windows(nil)
	i.Noise = b.windows.noise
	for _, at := range b.pool.all() {
		if at.blank() {
			continue
		}
		one := InstanceInspection{Number: at.number, Outstanding: at.outstanding}
		for k := range at.vectors {
			one.Rounds += at.vectors[k].Rounds()
		}
		i.Instances = append(i.Instances, one)
	}
	return i
}

// Coming implements Inspector. Selections in flight do not count.
func (b *BOLD) Coming() float64 { return 0 }

func (b *BOLD) Rule() string {
	return "drawn, so that each candidate is selected with its propensity, from the probabilities that " + b.base.Name() + " gives them"
}

// Explain implements Inspector. Unlike after Decide, no instance waits.
func (b *BOLD) Explain(candidates []policy.Item, about *policy.Context, key policy.Key) Explanation {
	x := Explanation{Rule: b.Rule()}
	free := b.pool.choose()
	b.Decide(candidates, about, key, &x.Decision)
	b.free(x.Decision.Instance)
	v := free.vector(b.length(len(candidates)))
	x.Why = make([]policy.Reason, len(candidates))
	for k, c := range b.coordinates(candidates) {
		r := &x.Why[k]
		s := b.sums[candidates[k]]
		if r.N, r.BeatenBy, r.Index = s.N, -1, math.NaN(); s.N > 0 {
			r.Mean = s.R / float64(s.N)
		}
		r.Lower, r.Upper = r.Mean, r.Mean
		if v == nil {
			continue
		}
		if known, ok := v.Get(c); ok {
			r.Index = known
		}
	}
	policy.Leaders(x.Decision.Order, func(position, leader int32) { x.Why[position].Leader = leader })
	return x
}

func (r *Robust) Inspect() Inspection {
	i, beliefs := r.base.Inspect(), *r.now().Spread()
	i.Beliefs = &beliefs
	return i
}

func (r *Robust) Rule() string {
	rule := "drawn, so that each candidate is selected with its propensity: of those with high scores, which are mean payoffs lately, " +
		"less the level of all items at a time, and of those that could seldom be selected lately; candidates that it blocks follow in falling score; " +
		"while no candidate's mean has changed, half of the rankings are those of the largest MOSS index"
	if r.attraction.differs() {
		rule += "; scores count per impression: a selection's, times the most that the share of impressions with the item on top that end with one may be"
	}
	return rule
}

func (r *Robust) Explain(candidates []policy.Item, about *policy.Context, key policy.Key) Explanation {
	x := Explanation{Rule: r.Rule(), Why: make([]policy.Reason, len(candidates))}
	r.Decide(candidates, about, key, &x.Decision)
	for k, i := range candidates {
		y, known := &x.Why[k], r.reading(i)
		y.N, y.Worth, y.Mean, y.InFlight = r.table.Pooled(i).N, known.Worth, known.Mean, int64(r.flights.Pooled(i))
		y.Lower, y.Upper, y.Index, y.BeatenBy = known.Mean, known.Mean, r.worths.Values()[k], -1
	}
	if a := r.attraction; a.differs() {
		of := policy.Known{}
		for _, score := range r.scores {
			of.Candidates = append(of.Candidates, policy.Estimate{Mean: score, Weight: 1})
		}
		x.Attracts = a.attracts(candidates, &of)
	}
	policy.Leaders(x.Decision.Order, func(position, leader int32) { x.Why[position].Leader = leader })
	return x
}

// Inspect implements Inspector, by the inner learner.
func (p *Preferring) Inspect() Inspection {
	i := p.Learner.(Inspector).Inspect()
	i.Preferences = &preference.Report{}
	p.finder.Report(i.Preferences)
	return i
}

// Rule implements Inspector: the inner learner's rule, which applies once the order is certain.
func (p *Preferring) Rule() string { return p.Learner.(Inspector).Rule() }

// Coming implements Inspector, by the inner learner.
func (p *Preferring) Coming() float64 { return p.Learner.(Inspector).Coming() }

// Explain implements Inspector. During burn-in there is only a rule.
func (p *Preferring) Explain(candidates []policy.Item, about *policy.Context, key policy.Key) Explanation {
	d := Decision{}
	p.sort(candidates, key, &d)
	if !preference.Explores(d.Undecided) {
		x := p.Learner.(Inspector).Explain(p.items, p.sorted(about), key)
		p.chosen = x.Decision
		d.take(&p.chosen)
		d.show(p.order)
		x.Decision = d
		why, parts, attracts := slices.Clone(x.Why), slices.Clone(x.Parts), slices.Clone(x.Attracts)
		for rank, at := range p.order {
			x.Why[at] = why[rank]
			if parts != nil {
				x.Parts[at] = parts[rank]
			}
			if attracts != nil {
				x.Attracts[at] = attracts[rank]
			}
			if l := x.Why[at].Leader; l >= 0 {
				x.Why[at].Leader = p.order[l]
			}
			if b := x.Why[at].BeatenBy; b >= 0 {
				x.Why[at].BeatenBy = p.order[b]
			}
		}
		return x
	}
	x := Explanation{Rule: "so as to find the order of the candidates' utilities, which is not certain yet: a pair or more " +
		"that are undecided on top, the policy is not asked", Why: make([]policy.Reason, len(candidates))}
	p.explore(key, &d)
	d.show(p.order)
	for k, i := range candidates {
		r := &x.Why[k]
		s := p.Learner.Sums(i)
		if r.N, r.BeatenBy = s.N, -1; s.N > 0 {
			r.Mean = s.R / float64(s.N)
		}
		r.Lower, r.Upper, r.Index, r.Leader = r.Mean, r.Mean, r.Mean, int32(k)
	}
	x.Decision = d
	return x
}
