package partition

import (
	"bytes"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The bounds of a sample, for each learner.
const (
	lookItems      = 12 // of each kind: shown first, and favourites
	lookCandidates = 10 // of a ranking
)

// Sample shows a partition's learners while it works, for the dashboard. It takes constant time in the number of items, and is not changed
// later.
type Sample struct {
	Learners []LearnerSample // configured ones
}

// LearnerSample is a sample of one learner. First and Favourite count recent decisions; see ItemSample.
type LearnerSample struct {
	Name             string
	Rule             string // how rankings are made, in one sentence; may be empty
	First, Favourite int64
	Items            []ItemSample
	Ranking          *RankingSample // a recent one; nil: none since the state was loaded
	Coming           float64        // share of payoffs that come at the greatest ages seen so far
	// Personal and Coefficients describe a contextual learner's model.
	Personal     delay.ContextualStatus
	Coefficients []delay.Coefficient
}

// ItemSample is an item that was often shown first lately, or often had the highest utility.
type ItemSample struct {
	Name             string
	First, Favourite int64 // number of decisions, approximately
	Evidence         policy.Evidence
}

// RankingSample is a decision, with the estimates at that time.
type RankingSample struct {
	ID         string
	Offset     int64
	Time       event.Millis // event time
	Explored   bool
	Candidates int // in all; the first ones are shown
	Shown      []ShownSample
}

type ShownSample struct {
	Name       string
	Rank       int32 // 0 is the lowest; -1: not known
	Evidence   policy.Evidence
	Propensity float64 // of its selection; 0: not recorded
	// Leader is the position, in the order shown, of the candidate that this one follows. It is its own if it is a leader, else that of an
	// earlier leader with a higher utility.
	Leader int
}

type sampling struct {
	first, favourite frequent
	wanted           bool // keep the next decision
	ranking          *RankingSample
}

// Look returns a sample, and has each learner keep its next decision for the next one.
func (m *Machine) Look() *Sample {
	m.show()
	look := &Sample{}
	for _, l := range m.learners {
		if !l.gone {
			look.Learners = append(look.Learners, l.sample())
		}
	}
	return look
}

func (l *learner) sample() LearnerSample {
	k := &l.observer.looking
	one := LearnerSample{Name: l.name, First: k.first.total, Favourite: k.favourite.total, Ranking: k.ranking}
	if i, ok := l.delay.(delay.Inspector); ok {
		one.Rule, one.Coming = i.Rule(), i.Coming()
	}
	if d, ok := l.delay.(delay.ContextReporting); ok {
		if one.Coefficients = d.Coefficients(); one.Coefficients != nil {
			one.Personal = l.delay.Status().Personal
		}
	}
	items := append(k.first.top(lookItems), k.favourite.top(lookItems)...)
	for n, c := range items {
		if !l.items.has(c.item) || slices.ContainsFunc(items[:n], func(o itemCount) bool { return o.item == c.item }) {
			continue
		}
		one.Items = append(one.Items, ItemSample{Name: l.items.name(c.item), First: k.first.of(c.item),
			Favourite: k.favourite.of(c.item), Evidence: l.delay.Evidence(c.item)})
	}
	k.wanted = true
	return one
}

// decided samples a decision, whose candidates are in the learner's order; favourite is the position of the one with the highest utility,
// -1 if that is not known.
func (k *sampling) decided(l *learner, candidates []policy.Item, favourite int, d *delay.Decision, r *event.Ranking) {
	k.first.add(candidates[d.Order[0]])
	if favourite >= 0 {
		k.favourite.add(candidates[favourite])
	}
	if !k.wanted {
		return
	}
	k.wanted = false
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
