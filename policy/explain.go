package policy

import "math"

// Explainer is a policy that can explain its rankings. It changes neither in nor the policy.
type Explainer interface {
	// Rule describes in one sentence how a leader is chosen.
	Rule() string
	// Weigh sets Index, Lower and Upper of each candidate; why is in the order of in.Items. The other fields are set already,
	// except those that need a ranking.
	Weigh(in *Input, ws *Workspace, why []Reason)
}

// Reason explains a candidate's place. Payoffs are in normalised units.
type Reason struct {
	N        int64   // payoffs fed, pooled
	Worth    float64 // Evidence's W: the weight in payoffs, those in flight included
	Mean     float64 // mean payoff; 0 without payoffs
	InFlight int64   // selections in flight; 0 where the learner does not count them
	Open     float64 // samples in flight that Worth leaves out

	// Index is the number by which leaders are chosen: for elimination N, the least; else the largest. NaN if there is none.
	Index float64
	// Lower and Upper are the confidence interval of the mean; ±Inf if it is unbounded, both Mean for policies without intervals.
	Lower, Upper float64

	// Leader is the position of the leader with which the candidate was placed: its own, or that of the leader that blocks it.
	Leader int32
	// BeatenBy is the position of an unplaced candidate whose Lower is above this Upper, so that this cannot lead; or -1.
	BeatenBy int32
}

// Reasons explains a ranking of in by a policy or EpsilonGreedy: by position in in.Items, and as a rule. Without an Explainer the rule
// is empty, and Index, Lower and Upper are unset.
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

// Leaders calls f for each position of a ranking, in the order shown, with the position of its leader.
func Leaders(order []int32, f func(position, leader int32)) {
	leader := int32(-1)
	for _, position := range order {
		leader = max(leader, position)
		f(position, leader)
	}
}

// beatenBy returns the position, among those unplaced when k was, of the largest lower end above k's upper end; -1 if there is none.
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
	_ Explainer = (*Utility)(nil)
)

func (e *Elimination) Rule() string {
	return "of the candidates that no other beats with confidence, the one with the fewest payoffs leads"
}

func (e *Elimination) Weigh(in *Input, _ *Workspace, why []Reason) {
	spread := e.confidence.spread(in.Table.Len(), in.Table.Fed())
	for k, item := range in.Items {
		e := in.Table.Evidence(item)
		why[k].Lower, why[k].Upper = interval(&e, spread)
		why[k].Index = e.W
	}
}

func (*Utility) Rule() string {
	return "the candidate of the highest utility leads, whatever the payoffs"
}

func (*Utility) Weigh(_ *Input, _ *Workspace, why []Reason) {
	for k := range why {
		why[k].Index = float64(k)
	}
}
