package partition

import (
	"bytes"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// observer collects facts about a learner for pages and metrics, since its state was loaded. No decision depends on it.
type observer struct {
	cfg           *LearnerConfig
	delay         delay.Learner
	items         *itemIndex
	drops         unattributed // used if on_expiry is drop
	userModel     UserModel
	countedBefore Counting // the weight of selections in flight as the state was loaded
	contexts      contexts
	filled        FilledStatus
	value         Value
	looking       sampling
}

// decided is called after a decision on an impression. The candidates are in the learner's order.
func (o *observer) decided(imp *event.Impression, candidates []policy.Item, d *delay.Decision, r *event.Ranking) {
	if n := len(imp.Filled); n > 0 && !o.cfg.FindsUtilities {
		o.filled.Candidates += int64(n)
		o.filled.Impressions++
	}
	favourite := favouriteOf(o.cfg.FindsUtilities, candidates, d)
	if len(r.Decision.Decided) > 0 { // ranking by utility would be under these rules, too
		o.value.Decisions++
		o.value.Ruled++
	} else {
		o.value.decided(o.delay, candidates, favourite, favourite == int(d.Order[0]))
	}
	o.sample(candidates, favourite, d, r)
}

// paid is called after a payoff, or a default, of an impression that ends; known means that the learner still has the item.
func (o *observer) paid(e *entry, i policy.Item, known bool, how outcome, r float64) {
	o.userModel.paid(r)
	o.value.paid(e, r)
	if known && how == paid && o.cfg.ExpiryDefault == nil {
		o.drops.paid(i, r)
	}
}

// FilledStatus counts candidates without a utility, which got the median of the others', and their impressions, since the state was loaded.
type FilledStatus struct{ Candidates, Impressions int64 }

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
	// Contextual and Coefficients describe a contextual learner's model.
	Contextual   delay.ContextualStatus
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

// sample samples a decision, whose candidates are in the learner's order; favourite is the position of the one with the highest utility,
// -1 if that is not known.
func (o *observer) sample(candidates []policy.Item, favourite int, d *delay.Decision, r *event.Ranking) {
	k := &o.looking
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
	case o.cfg.FindsUtilities && len(d.Undecided) > 0:
		ranks = nil
	case o.cfg.FindsUtilities:
		ranks = d.Ranks
	}
	shown := min(len(d.Order), lookCandidates)
	for at, position := range d.Order[:shown] {
		s := ShownSample{Name: o.items.name(candidates[position]), Rank: -1, Evidence: o.delay.Evidence(candidates[position]), Leader: at}
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
