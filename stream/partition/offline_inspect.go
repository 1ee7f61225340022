package partition

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// LearnerView is a learner's state in this partition, for people.
type LearnerView struct {
	LearnerStatus
	Fingerprint string
	Items       []ItemView // by number
	Learned     delay.Inspection
}

type ItemView struct {
	Name   string
	Number policy.Item
	Sums   policy.Sums // this partition's own
	delay.ItemInspection
}

// Inspect returns the view of a configured learner. It fails if there is none.
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
		if v.Learned.Items != nil {
			x.ItemInspection = v.Learned.Items[i]
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
	return l, nil
}

// LearnerExplanation is the ranking of a candidate list by a learner, with reasons.
type LearnerExplanation struct {
	delay.Explanation
	// Order holds positions in the given list, by increasing utility, or in the given order if the learner finds utilities itself. The
	// Explanation's positions are positions in Order.
	Order []int32
}

// Explain ranks candidates as an impression would be ranked now, with ties drawn by key. Items must differ and utilities be finite. imp, if
// not nil, gives the context; missing numbers count as the middle of their range. New items become known: the machine must not be used for
// anything else afterwards.
func (o *Offline) Explain(name string, items [][]byte, utilities []float64, imp *event.Impression, key policy.Key) (LearnerExplanation, error) {
	l, err := o.inspected(name)
	if err != nil {
		return LearnerExplanation{}, err
	}
	d := &o.decider
	d.utilities, d.names = append(d.utilities[:0], utilities...), append(d.names[:0], items...)
	d.numbers = d.intern(l, d.numbers[:0], items)
	d.sortCandidates(l)
	var about *policy.Context
	if l.cfg.Context != nil && imp != nil && d.readLeniently(l, imp, d.numbers) {
		about = d.about(l, o.time.watermark)
	}
	x := LearnerExplanation{Explanation: l.delay.(delay.Inspector).Explain(d.candidates, about, key), Order: slices.Clone(d.order)}
	x.Decision.Order = slices.Clone(x.Decision.Order)
	return x, nil
}

// Rank ranks candidates, given by increasing utility, as an impression would be ranked now, and forgets that it did. New items and the
// categories of imp, whose candidates are in the same order, become known. imp may be nil.
func (o *Offline) Rank(name string, items [][]byte, about *policy.Context, imp *event.Impression, key policy.Key, d *delay.Decision) error {
	l, err := o.inspected(name)
	if err != nil {
		return err
	}
	o.decider.numbers = o.decider.intern(l, o.decider.numbers[:0], items)
	if about != nil && imp != nil {
		l.cfg.Context.Categorise(l.delay, &o.decider.reading, imp, o.decider.numbers)
	}
	l.delay.Decide(o.decider.numbers, about, key, d)
	l.delay.Unselected(delay.Feedback{Instance: d.Instance})
	return nil
}

// Counts returns the account by stored name.
func (o *Offline) Counts() map[string]int64 {
	all := make(map[string]int64, counts)
	for c, name := range countNames {
		all[name] = o.ledger.now[c]
	}
	return all
}
