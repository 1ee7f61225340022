package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ShadowConfig is a learner that ranks as an arm would, and is not shown.
type ShadowConfig struct {
	Name   string // of a learner
	Share  float64
	Policy policy.Policy
}

type shadow struct {
	*ShadowConfig
	learner  *learner
	decision delay.Decision
}

type shadows struct {
	decided []event.Shadow
	place   []int32 // by candidate: its position in the ranking
}

// readers sets up the policies that use the control's statistics: arms under shared learning, and shadows.
func (x *trial) readers(learners map[string]*learner) error {
	for i := range x.Shadows {
		c := &x.Shadows[i]
		l := learners[c.Name]
		if l == nil {
			return errConfig
		}
		x.shadows, x.longestShadows = append(x.shadows, shadow{ShadowConfig: c, learner: l}), x.longestShadows+len(c.Name)
	}
	if len(x.Shadows) == 0 && !x.Shared {
		return nil
	}
	if _, ok := x.knowing().delay.(delay.Readable); !ok || x.Shared && len(x.Policies) != len(x.arms) {
		return errConfig
	}
	return nil
}

// knowing returns the learner whose statistics the arms share: the control.
func (x *trial) knowing() *learner { return x.arms[x.ControlArm()].learner }

// stateOf returns the learner that is fed the outcome of an adopted decision; nil if it is not known here.
func (t *learnerTable) stateOf(r *event.Ranking, of *trials) *learner {
	a := &r.Decision.Assignment
	if x := of.byName[a.Experiment]; x != nil && x.Shared && x.Run == a.Run && x.Index(string(r.Learner)) >= 0 {
		return x.knowing()
	}
	return t.byName[string(r.Learner)]
}

// decideAs decides with the statistics of l and, under shared learning, the policy of the arm that ranks.
func (g *assignment) decideAs(l *learner, candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	if x := g.trial; x != nil && x.Shared {
		l.delay.(delay.Readable).DecideBy(x.Policies[g.served], candidates, about, key, d)
		return
	}
	l.delay.Decide(candidates, about, key, d)
}

func (g *assignment) ranks(l *learner) *learner {
	if x := g.trial; x != nil && x.Shared {
		return x.arms[g.served].learner
	}
	return l
}

// shadow lets shadows decide, each on its share of impressions, and returns their part of the ranking.
func (dec *decider) shadow(g *assignment, about *policy.Context, offset int64) []event.Shadow {
	if g.trial == nil || len(g.trial.shadows) == 0 {
		return nil
	}
	s, shown := &dec.shadows, dec.decision.Order
	s.decided, s.place = s.decided[:0], slices.Grow(s.place[:0], len(shown))[:len(shown)]
	for at, k := range shown {
		s.place[k] = int32(at)
	}
	for i := range g.trial.shadows {
		x := &g.trial.shadows[i]
		seed := x.learner.cfg.Seed
		if u := policy.DecisionKey(^seed, dec.cfg.Salt, x.Name, dec.cfg.Partition, offset); float64(uint64(u)>>11)/(1<<53) >= x.Share {
			continue
		}
		key := policy.DecisionKey(seed, dec.cfg.Salt, x.Name, dec.cfg.Partition, offset)
		g.trial.knowing().delay.(delay.Readable).DecideBy(x.Policy, dec.candidates, about, key, &x.decision)
		for at, k := range x.decision.Order {
			x.decision.Order[at] = s.place[k]
		}
		s.decided = append(s.decided, event.Shadow{Name: x.Name, Order: x.decision.Order})
	}
	return s.decided
}
