package partition

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// LearnerView is what one learner of this partition knows, for people.
type LearnerView struct {
	LearnerStatus
	Fingerprint string
	Items       []ItemView // by number
	Learned     delay.Inspection
}

// ItemView is what a learner of this partition knows of an item.
type ItemView struct {
	Name     string
	Number   policy.Item
	Sums     policy.Sums // this partition's own
	InFlight int64       // selections whose payoff is awaited, where they are counted by item
	Silent   float64     // what these count as, in selections that were never paid
	Waiting  int64       // payoffs in QPM-D's queue

	Impressions, Selected int64 // with the item on top, and those of them with a selection, where they are counted
}

// Inspect shows a learner that is configured.
func (o *Offline) Inspect(name string) (LearnerView, error) {
	l, err := o.inspected(name)
	if err != nil {
		return LearnerView{}, err
	}
	v := LearnerView{Fingerprint: l.fingerprint, Learned: l.delay.(delay.Inspector).Inspect()}
	for _, s := range o.Learners() {
		if s.Name == name {
			v.LearnerStatus = s
		}
	}
	v.Items = make([]ItemView, 0, l.items.len())
	for i := range l.items.all() {
		x := ItemView{Name: l.items.name(i), Number: i, Sums: l.delay.Sums(i)}
		if int(i) < len(v.Learned.InFlight) {
			x.InFlight, x.Silent = int64(v.Learned.InFlight[i]), v.Learned.Silent[i]
		}
		if int(i) < len(v.Learned.Waiting) {
			x.Waiting = v.Learned.Waiting[i]
		}
		if int(i) < len(v.Learned.Attraction) {
			x.Impressions, x.Selected = v.Learned.Attraction[i].N, int64(v.Learned.Attraction[i].R)
		}
		v.Items = append(v.Items, x)
	}
	return v, nil
}

func (o *Offline) inspected(name string) (*learner, error) {
	l := o.byName[name]
	if l == nil || l.gone {
		return nil, fmt.Errorf("partition: no learner %q is configured", name)
	}
	if _, ok := l.delay.(delay.Inspector); !ok {
		return nil, fmt.Errorf("partition: learner %q does not show what it knows", name)
	}
	return l, nil
}

// LearnerExplanation is the ranking that a learner would make of a candidate list, and why.
type LearnerExplanation struct {
	delay.Explanation
	// Order holds positions in the list as it was given, in increasing utility, or as they are where the learner finds the
	// order of utilities itself: what the Explanation's positions are positions in.
	Order []int32
}

// Explain ranks a candidate list, in which no item comes twice and utilities are finite, as an impression of it would be
// ranked now. Items that are new become known, as an impression's would: the machine is not to be used for anything else
// afterwards. Ties are drawn by key. The list may be that of an impression: then what it says of its user and items counts, where the
// learner looks at it. Else, and where that does not have the numbers declared, all lie in the middle of their ranges.
func (o *Offline) Explain(name string, items [][]byte, utilities []float64, imp *event.Impression, key policy.Key) (LearnerExplanation, error) {
	l, err := o.inspected(name)
	if err != nil {
		return LearnerExplanation{}, err
	}
	numbers := o.intern(l, nil, items)
	x := LearnerExplanation{Order: make([]int32, len(items))}
	if l.cfg.FindsUtilities {
		for k := range x.Order {
			x.Order[k] = int32(k)
		}
	} else {
		policy.SortByUtility(x.Order, utilities, items, &o.work)
	}
	candidates := make([]policy.Item, len(items))
	for k, at := range x.Order {
		candidates[k] = numbers[at]
	}
	x.Explanation = l.delay.(delay.Inspector).Explain(candidates, o.aboutIn(l, imp, numbers, x.Order), key)
	x.Decision.Order = slices.Clone(x.Decision.Order)
	return x, nil
}

// aboutIn is the context of an impression whose candidates have these numbers and are in that order; nil where there is none, or none that
// can be read. A rule of the day is not asked. The learner is told of categories, as by the impression.
func (o *Offline) aboutIn(l *learner, imp *event.Impression, numbers []policy.Item, order []int32) *policy.Context {
	if l.cfg.Context == nil || imp == nil {
		return nil
	}
	lenient := *l.cfg.Context
	lenient.missingZero = true
	if lenient.Read(&o.scratch.reading, imp, l.name) != nil {
		return nil
	}
	lenient.Categorise(l.delay, &o.scratch.reading, imp, numbers)
	o.scratch.order = append(o.scratch.order[:0], order...)
	return o.about(l, o.time.watermark)
}

// Rank ranks candidates in increasing utility, as an impression of them would be ranked now, of which that is known, and forgets that it did. Items that are new become
// known, and so do categories that the impression tells of, whose candidates are in the same order; nil: it is not known.
func (o *Offline) Rank(name string, items [][]byte, about *policy.Context, imp *event.Impression, key policy.Key, d *delay.Decision) error {
	l, err := o.inspected(name)
	if err != nil {
		return err
	}
	o.scratch.numbers = o.intern(l, o.scratch.numbers[:0], items)
	if about != nil && imp != nil {
		l.cfg.Context.Categorise(l.delay, &o.scratch.reading, imp, o.scratch.numbers)
	}
	l.delay.Decide(o.scratch.numbers, about, key, d)
	l.delay.Unselected(delay.Feedback{Instance: d.Instance})
	return nil
}

// Counts is the account as it is stored, by name.
func (o *Offline) Counts() map[string]int64 {
	all := make(map[string]int64, counts)
	for c, name := range countNames {
		all[name] = o.ledger.now[c]
	}
	return all
}
