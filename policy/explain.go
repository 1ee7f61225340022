package policy

import "math"

// Explainer is a policy that can say what it looks at in each candidate. Like ranking, explaining is pure: it leaves in
// and the policy as they are.
type Explainer interface {
	// Rule says in one sentence how a leader is chosen.
	Rule() string
	// Weigh fills of each element of why, which is as long as in.Items and in their order, what the policy compares:
	// Index, Lower and Upper. The other fields are filled already, those that need a ranking apart.
	Weigh(in *Input, ws *Workspace, why []Reason)
}

// Reason is why a candidate stands where it stands. Payoffs are in normalised units.
type Reason struct {
	N        int64   // payoffs that were fed of it, pooled
	Worth    float64 // what these and those that are awaited tell of its mean by now, in payoffs of now: Evidence's W
	Mean     float64 // as far as they tell; 0 where they do not
	InFlight int64   // selections whose payoff is awaited; 0 where the delay handling does not count them
	Open     float64 // what these count as in samples that are on their way

	// Index is what leaders are compared by. Elimination: N, the least leads; other policies: the largest leads. NaN
	// where the policy compares nothing.
	Index float64
	// Lower and Upper are the interval that the policy takes the item's mean to lie in; -Inf and +Inf where it may be
	// anything, both Mean where the policy does not think in intervals.
	Lower, Upper float64

	// Leader is the position of the candidate that brought this one to its place: its own where it leads itself, else
	// that of the leader which blocks it: a user who would select it prefers the leader, shown earlier.
	Leader int32
	// BeatenBy is the position of a candidate, of those that were not placed yet when this one was, whose Lower is above
	// this one's Upper: it rules this one out as a leader. -1 where there is none.
	BeatenBy int32
}

// Reasons says why a policy, or an Explorer, ranked in as order: why by position in in.Items, and the rule by which it
// chooses leaders. The rule is empty, and Index, Lower and Upper say nothing, where it is no Explainer.
func Reasons(ranker any, in *Input, ws *Workspace, order []int32) (why []Reason, rule string) {
	why = make([]Reason, len(in.Items))
	for k, item := range in.Items {
		s := in.Table.Evidence(item)
		r := &why[k]
		r.N, r.Mean, r.Index, r.BeatenBy = in.Table.Pooled(item).N, s.Mean(), math.NaN(), -1
		if in.InFlight != nil {
			r.InFlight = int64(in.InFlight.Pooled(item))
		}
		r.Worth, r.Open = s.W, s.Open
		if in.Known != nil {
			r.Mean, r.Worth = in.Known.Candidates[k].Mean, in.Known.Candidates[k].Weight
		}
		r.Lower, r.Upper = r.Mean, r.Mean
	}
	if e, ok := ranker.(Explainer); ok {
		rule = e.Rule()
		e.Weigh(in, ws, why)
	}
	Leaders(order, func(position, leader int32) { why[position].Leader = leader })
	for k := range why {
		why[k].BeatenBy = beatenBy(why, int32(k))
	}
	return why, rule
}

// Leaders takes a ranking apart: it calls f for each position of it, in the order shown, with the position that led when
// it was placed. Every ranking has this form: what stands behind something of higher utility is selected by no one.
func Leaders(order []int32, f func(position, leader int32)) {
	leader := int32(-1)
	for _, position := range order {
		leader = max(leader, position)
		f(position, leader)
	}
}

// beatenBy is the position, from the first that was still to be placed when k was, of the largest lower end above k's
// upper end. What was placed before k's leader has lower utility than anything of the rest.
func beatenBy(why []Reason, k int32) int32 {
	first := int32(0)
	for i := k - 1; i >= 0; i-- {
		if why[i].Leader < why[k].Leader {
			first = i + 1
			break
		}
	}
	best := int32(-1)
	for i := first; i < int32(len(why)); i++ {
		if why[i].Lower > why[k].Upper && (best < 0 || why[i].Lower > why[best].Lower) {
			best = i
		}
	}
	return best
}

var (
	_ Explainer = (*Elimination)(nil)
	_ Explainer = (*Greedy)(nil)
	_ Explainer = (*Utility)(nil)
	_ Explainer = (*EpsilonGreedy)(nil)
	_ Explainer = (*MOSS)(nil)
	_ Explainer = (*Optimistic)(nil)
	_ Explainer = (*Thompson)(nil)
)

// Rule implements Explainer.
func (e *Elimination) Rule() string {
	return "of the candidates that no other beats with confidence, the one with the fewest payoffs leads"
}

// Weigh implements Explainer.
func (e *Elimination) Weigh(in *Input, _ *Workspace, why []Reason) {
	spread := e.confidence.spread(in.Table.Len(), in.Table.Fed())
	for k, item := range in.Items {
		s := in.Table.Pooled(item)
		why[k].Lower, why[k].Upper = interval(&s, spread)
		why[k].Index = float64(s.N)
	}
}

// Rule implements Explainer.
func (*Greedy) Rule() string {
	return "the candidate with the highest mean payoff leads; unseen ones come first" + blockedInWords
}

// Weigh implements Explainer.
func (*Greedy) Weigh(in *Input, _ *Workspace, why []Reason) {
	for k := range in.Items {
		_, why[k].Index = greedily(in, int32(k))
	}
}

// Rule implements Explainer.
func (*Utility) Rule() string {
	return "the candidate of the highest utility leads, whatever the payoffs"
}

// Weigh implements Explainer.
func (*Utility) Weigh(_ *Input, _ *Workspace, why []Reason) {
	for k := range why {
		why[k].Index = float64(k)
	}
}

// Rule implements Explainer.
func (*EpsilonGreedy) Rule() string {
	return "some decisions, at random, are drawn so that each candidate is as likely to be selected, as near as windows " +
		"let it be; in all others the candidate with the highest mean payoff leads; unseen ones come first"
}

// Weigh implements Explainer.
func (e *EpsilonGreedy) Weigh(in *Input, ws *Workspace, why []Reason) { e.exploit.Weigh(in, ws, why) }
