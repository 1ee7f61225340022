package lab

import (
	"cmp"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hiddenUtilities hides the utilities from a learner that must find their order: the learner sees items under random numbers, and
// candidates in the order of these.
type hiddenUtilities struct {
	labels    []policy.Item // by item
	fixed     bool          // candidates are always the same
	seen      []policy.Item // candidates as the learner sees them
	positions []int32       // their positions in increasing utility
	ranked    []policy.Item // candidates in the order found
	crowd     *population   // nil for users who know their preferences
	burnIn    burnIn
}

// burnIn summarises the impressions of a run that were ranked to find the order.
type burnIn struct {
	impressions int64
	last        int64   // the last of them
	regret      float64 // in them; against a fixed ranking, up to the last of them
}

// newVeil returns a run's; nil for a learner that is given all utilities.
func newVeil(e *Experiment, u config.Utilities, run int) *hiddenUtilities {
	labels := shuffled(int(e.every()), newStream(e.Seed, run, forLabels))
	switch x := e.Scenario.definition().shop; {
	case u == config.Given && (x == nil || x.unscored == 0):
		return nil
	case u == config.Given:
		labels = scored(labels, x.unscored)
	}
	v := &hiddenUtilities{labels: labels, fixed: e.Scenario.definition().fixedOrder()}
	if u == config.Social {
		v.crowd = newCrowd(e, run)
	}
	return v
}

// scored returns labels in the order of given utilities. A share of the items, drawn by permutation, has none, and counts as the
// median of the others, ties by number.
func scored(permutation []policy.Item, unscored float64) []policy.Item {
	n := len(permutation)
	without := int(unscored * float64(n))
	var known, order []int
	utilities := make([]float64, n)
	for i, p := range permutation {
		if order = append(order, i); int(p) >= without {
			known = append(known, i)
			utilities[i] = float64(i)
		}
	}
	middle := float64(known[len(known)/2]+known[(len(known)-1)/2]) / 2
	for i, p := range permutation {
		if int(p) < without {
			utilities[i] = middle
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(utilities[a], utilities[b]) })
	labels := make([]policy.Item, n)
	for label, i := range order {
		labels[i] = policy.Item(label)
	}
	return labels
}

func (v *hiddenUtilities) hide(candidates []policy.Item) {
	if v.fixed && len(v.seen) > 0 {
		return
	}
	v.positions = v.positions[:0]
	for k := range candidates {
		v.positions = append(v.positions, int32(k))
	}
	slices.SortFunc(v.positions, func(a, b int32) int { return cmp.Compare(v.labels[candidates[a]], v.labels[candidates[b]]) })
	v.seen = v.seen[:0]
	for _, k := range v.positions {
		v.seen = append(v.seen, v.labels[candidates[k]])
	}
}

// shown converts a ranking of the candidates as the learner sees them to positions in increasing utility.
func (v *hiddenUtilities) shown(ranking, to []int32) []int32 {
	to = to[:0]
	for _, k := range ranking {
		to = append(to, v.positions[k])
	}
	return to
}

// complete adds to feedback on a selection of an item the order that the learner found and the user's rating.
func (v *hiddenUtilities) complete(fb *delay.Feedback, d *delay.Decision, item policy.Item) {
	v.ranked = append(v.ranked[:0], v.seen...)
	for k, rank := range d.Ranks {
		v.ranked[rank] = v.seen[d.Order[k]]
	}
	fb.Candidates, fb.Undecided = v.ranked, d.Undecided
	if len(d.Ranks) > 0 { // else utilities are given
		fb.Order = d.Ranks
	}
	if v.crowd != nil {
		fb.Utility, fb.HasUtility = v.crowd.estimates(item), true
	}
}

// population are users who learn utilities from each other (paper, appendix C.1). An item's utility is its number. A user's rating
// is that plus N(0, σ²), σ = 1 or Experiment.Tastes, and the interval of a mean of N ratings is ±σ·√(2·log(4nt²/δ)/N), δ = 0.05.
// Users take any value inside for the utility.
type population struct {
	known  []known
	t      int64 // number of ratings
	draws  *stream
	normal func() float64
	sigma  float64
}

type known struct {
	n   int64
	sum float64
}

func newCrowd(e *Experiment, run int) *population {
	s := newStream(e.Seed, run, forTastes)
	return &population{known: make([]known, int(e.every())), draws: s, normal: normalOf(s), sigma: cmp.Or(e.Tastes, 1)}
}

// perceives returns a user's value of an item's utility.
func (c *population) perceives(item policy.Item) float64 {
	k := &c.known[item]
	u := 2*c.draws.float64() - 1
	if k.n == 0 {
		return float64(len(c.known)) * (1 + u) / 2
	}
	n := float64(len(c.known))
	radius := math.Sqrt(2 * (math.Log(4*n/0.05) + 2*math.Log(float64(c.t))) / float64(k.n))
	return k.sum/float64(k.n) + u*c.sigma*radius
}

func (c *population) estimates(item policy.Item) float64 {
	x := float64(item) + c.sigma*c.normal()
	k := &c.known[item]
	k.n++
	k.sum += x
	c.t++
	return x
}
