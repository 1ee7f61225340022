package partition

import (
	"bytes"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The bounds of a Look, for each learner.
const (
	lookItems      = 12 // of each kind: shown first, and favourites
	lookCandidates = 10 // of a ranking
)

// Sample is what a partition shows people of its learners while it works. It takes no longer where there are more items, and is not
// changed once it is made.
type Sample struct {
	Learners []LearnerSample // those that are configured
}

// LearnerSample is a Look at one learner. First and Favourite count decisions lately; see ItemLook.
type LearnerSample struct {
	Name             string
	Rule             string // how rankings are made, in one sentence; empty where the learner does not say
	First, Favourite int64
	Items            []ItemSample
	Ranking          *RankingSample // one of the latest; nil: there is none since the state was loaded
	// Personal and Coefficients are what payoffs depend on, where that is more than the item.
	Personal     delay.ContextualStatus
	Coefficients []delay.Coefficient
}

// ItemSample is an item that was often shown first lately, or often a favourite, the candidate of the highest utility.
type ItemSample struct {
	Name             string
	First, Favourite int64 // in how many decisions, about
	Evidence         policy.Evidence
}

// RankingSample is a decision and what was known when it was made.
type RankingSample struct {
	ID         string
	Offset     int64
	Time       event.Millis // event time
	Explored   bool
	Candidates int // in all, of which the first are shown
	Shown      []ShownSample
}

// ShownSample is a candidate of a RankingLook.
type ShownSample struct {
	Name       string
	Rank       int32 // utility rank, 0 is the lowest; -1: not known
	Evidence   policy.Evidence
	Propensity float64 // of its selection; 0: not recorded
	// Leader is the position, in the order shown, of the candidate that brought this one to its place: its own where it leads itself,
	// else that of a leader shown before, which users like better.
	Leader int
}

// sampling is what a learner keeps to be looked at.
type sampling struct {
	first, favourite frequent
	wanted           bool // the next decision is kept
	ranking          *RankingSample
}

// Sample looks at the learners, and has each keep its next decision for the next look.
func (m *Machine) Look() *Sample {
	m.show()
	look := &Sample{}
	for _, l := range m.learners {
		if l.gone {
			continue
		}
		one := LearnerSample{Name: l.name, First: l.looking.first.total, Favourite: l.looking.favourite.total, Ranking: l.looking.ranking}
		if i, ok := l.delay.(delay.Inspector); ok {
			one.Rule = i.Rule()
		}
		if d, ok := l.delay.(delay.ContextReporting); ok {
			if one.Coefficients = d.Coefficients(); one.Coefficients != nil {
				one.Personal = l.delay.Status().Personal
			}
		}
		items := append(l.looking.first.top(lookItems), l.looking.favourite.top(lookItems)...)
		for k, c := range items {
			if !l.items.has(c.item) || slices.ContainsFunc(items[:k], func(o itemCount) bool { return o.item == c.item }) {
				continue
			}
			one.Items = append(one.Items, ItemSample{Name: l.items.name(c.item), First: l.looking.first.of(c.item),
				Favourite: l.looking.favourite.of(c.item), Evidence: l.delay.Evidence(c.item)})
		}
		l.looking.wanted = true
		look.Learners = append(look.Learners, one)
	}
	return look
}

// decided takes in a decision of m.ranking for candidates in the order that the learner was given them; favourite is the position of
// the one of the highest utility, -1 where it is not known.
func (k *sampling) decided(m *Machine, l *learner, candidates []policy.Item, favourite int) {
	d := &m.decision
	k.first.add(candidates[d.Order[0]])
	if favourite >= 0 {
		k.favourite.add(candidates[favourite])
	}
	if !k.wanted {
		return
	}
	k.wanted = false
	r := &m.ranking
	look := &RankingSample{ID: string(bytes.Clone(r.ID)), Offset: r.Decision.Offset, Time: r.Time, Explored: d.Explored, Candidates: len(d.Order)}
	ranks := d.Order
	switch {
	case l.cfg.FindsUtilities && len(d.Undecided) > 0:
		ranks = nil
	case l.cfg.FindsUtilities:
		ranks = d.Ranks
	}
	shown := min(len(d.Order), lookCandidates)
	for at, position := range d.Order[:shown] {
		s := ShownSample{Name: l.items.name(candidates[position]), Rank: -1, Evidence: l.delay.Evidence(candidates[position]), Leader: at}
		if len(d.Propensities) > 0 {
			s.Propensity = d.Propensities[at]
		}
		if ranks != nil {
			s.Rank = ranks[at]
			if at > 0 {
				if before := look.Shown[look.Shown[at-1].Leader]; before.Rank > s.Rank {
					s.Leader = look.Shown[at-1].Leader
				}
			}
		}
		look.Shown = append(look.Shown, s)
	}
	k.ranking = look
}
