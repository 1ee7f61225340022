package delay

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// hashAttraction maps "<item>" to how many impressions that had the item on top ended with a selection and how many without one, with a
// blank between.
const hashAttraction = "attraction"

// attraction learns which share of impressions ends with a selection, by the item on top. Impressions without a selection pay nothing,
// so payoff per impression is that share times payoff per selection. The share is known within minutes, the payoff after days, so each
// is learned from a sample of its own. The paper has no such users: there every impression brings a selection.
//
// An impression counts for the item on top, which every user sees who looks at all. It counts as one with a selection where the item was
// selected, or another shown before the next leader: by a user whose taste deviates, or who went on down the list. Whoever selects
// further down has seen more than the item on top, and the impression does not count: windows are neither known nor assumed.
//
// What an impression counts is a function of its ranking and of its selection alone. So counts are exact integers, add up over
// partitions, and do not depend on the order of impressions.
type attraction struct {
	table   *policy.Table // Sums.R: impressions with a selection; Sums.N: all
	belief  policy.Belief
	nothing float64 // the payoff of an impression without a selection, normalised

	estimates, known policy.Known
}

// newAttraction makes one of no impressions. An impression without a selection pays nothing, normalised.
func newAttraction(nothing float64) *attraction {
	a := &attraction{table: policy.NewTable(0), nothing: nothing, belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}}
	a.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		s := a.table.Pooled(i)
		return policy.Evidence{W: float64(s.N), R: s.R, Q: s.R}
	})
	return a
}

// LearnAttraction makes payoff per impression the aim of a learner without state. An impression without a selection pays nothing,
// normalised. Unselected counts where its feedback has the ranking. With a policy that is not policy.Estimating nothing changes.
func (d *Direct) LearnAttraction(nothing float64) {
	if _, ok := d.ranker().(policy.Estimating); ok {
		d.attraction = newAttraction(nothing)
	}
}

// LearnAttraction makes payoff per impression the aim of a learner without state. An impression without a selection pays nothing,
// normalised. Unselected counts where its feedback has the ranking.
func (r *Robust) LearnAttraction(nothing float64) { r.attraction = newAttraction(nothing) }

// ended counts an impression that ended, with the selection of fb.Item or without one. One whose ranking is not known counts nothing.
func (a *attraction) ended(fb *Feedback, selected bool) {
	if len(fb.Order) == 0 || len(fb.Order) != len(fb.Candidates) {
		return
	}
	s := policy.Sums{N: 1}
	if selected {
		at, ok := fb.shownAt()
		if !ok || at >= policy.NextAbove(fb.Order, 0, len(fb.Order)) {
			return
		}
		s.R = 1
	}
	a.table.AddOwn(fb.Candidates[fb.Order[0]], s, policy.SumsChanged)
}

// differs returns whether payoff per impression can differ from payoff per selection: some impressions had a selection, and some had none.
// It is false of nil.
func (a *attraction) differs() bool {
	if a == nil {
		return false
	}
	mean := a.table.Mean()
	return mean > 0 && mean < 1
}

// perImpression makes of estimates of payoffs per selection those of payoffs per impression, in proportion to the mean of all shares.
func (a *attraction) perImpression(items []policy.Item, from *policy.Known) *policy.Known {
	mean := a.table.Mean()
	c := a.belief.Components(a.table)
	kappa := c.Kappa()
	k := &a.known
	k.Variance, k.Kappa, k.Candidates = from.Variance, from.Kappa, k.Candidates[:0]
	k.Factors, k.Share, k.Nothing, k.Fair = k.Factors[:0], mean, a.nothing, a.fair()
	for at, i := range items {
		x := from.Candidates[at]
		share, weight := a.share(i, c.Mean, kappa)
		k.Factors = append(k.Factors, policy.Factors{Share: policy.Estimate{Mean: share, Weight: weight}, Payoff: x})
		if x.Weight > 0 {
			times, above := share/mean, x.Mean-a.nothing
			spread := max(share*(1-share), mean*(1-mean))
			variance := float64(from.Variance*times*times)/x.Weight + float64(above*above*spread)/(mean*mean*weight)
			x = policy.Estimate{Mean: a.nothing + float64(times*above), Weight: from.Variance / variance}
		}
		k.Candidates = append(k.Candidates, x)
	}
	return k
}

// shares writes upper bounds of candidates' shares to s, in proportion to the mean of all: shares plus the bonus of MOSS. It returns s, or
// nil where payoff per impression cannot differ. A ranking of robust seldom has an item of high utility on top, and only the item on top
// counts. So an item that was never on top leads until its share is known.
func (a *attraction) shares(items []policy.Item, s *policy.Shares) *policy.Shares {
	if !a.differs() {
		return nil
	}
	s.Times, s.Nothing = s.Times[:0], a.nothing
	mean := a.table.Mean()
	c := a.belief.Components(a.table)
	kappa := c.Kappa()
	for _, i := range items {
		share, weight := a.share(i, c.Mean, kappa)
		s.Times = append(s.Times, policy.ShareAtMost(policy.Estimate{Mean: share, Weight: weight}, mean, a.fair())/mean)
	}
	return s
}

// fair is how many of the impressions each item would have had on top if all had as many.
func (a *attraction) fair() float64 { return float64(a.table.Fed()) / float64(a.table.Len()) }

// leastShare keeps shares within 0 and 1 where nothing speaks against either.
const leastShare = 1e-6

// share is which share of the impressions with an item on top ends with a selection, and of how many that is known.
func (a *attraction) share(i policy.Item, prior, kappa float64) (share, weight float64) {
	e := a.table.Evidence(i)
	weight = e.W + kappa
	return min(max((e.R+float64(kappa*prior))/weight, leastShare), 1-leastShare), weight
}

// ShareOnTop implements Attracting.
func (b *base) ShareOnTop(i policy.Item) (share float64, ok bool) {
	a := b.attraction
	if a == nil || a.table.Fed() == 0 {
		return 0, false
	}
	c := a.belief.Components(a.table)
	share, _ = a.share(i, c.Mean, c.Kappa())
	return share, true
}

// forget forgets an item.
func (a *attraction) forget(i policy.Item) {
	if a.table.Own(i) != (policy.Sums{}) {
		a.table.Changes().Note(i, policy.SumsChanged)
	}
	a.table.Forget(i)
}

// takeOver adds what another learner has counted.
func (a *attraction) takeOver(from *attraction, numbers []policy.Item) {
	for i, to := range numbers {
		if s := from.table.Own(policy.Item(i)); s != (policy.Sums{}) {
			a.table.AddOwn(to, s, policy.SumsChanged)
		}
	}
}

// harvest writes what has changed of our own.
func (a *attraction) harvest(r Recorder, to *writer) {
	for i := range a.table.Changes().All() {
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		s := a.table.Own(i)
		if s == (policy.Sums{}) {
			r.Field(hashAttraction, to.field, nil)
			continue
		}
		to.value = strconv.AppendInt(to.value[:0], int64(s.R), 10)
		to.value = strconv.AppendInt(append(to.value, ' '), s.N-int64(s.R), 10)
		r.Field(hashAttraction, to.field, to.value)
	}
	a.table.Changes().Clear()
}

var errAttraction = errors.New("the value is not two numbers of impressions, of which one is above 0")

// mostImpressions bounds what is read, so that sums of it stay exact.
const mostImpressions = 1 << 50

func parseAttraction(value []byte) (policy.Sums, error) {
	first, second, _ := bytes.Cut(value, []byte{' '})
	with, errWith := parseInt(first)
	without, errWithout := parseInt(second)
	if errWith != nil || errWithout != nil || with+without == 0 || max(with, without) > mostImpressions {
		return policy.Sums{}, errAttraction
	}
	return policy.Sums{N: with + without, R: float64(with)}, nil
}

// load restores what harvest writes.
func (a *attraction) load(field, value []byte) error {
	i, err := parseItem(field, a.table.Totals.Len())
	if err != nil {
		return err
	}
	s, err := parseAttraction(value)
	if err == nil {
		a.table.Set(i, s)
	}
	return err
}

// setSource takes in what another source has counted; nil where it has nothing.
func (a *attraction) setSource(source int32, field, value []byte, items Translate) {
	i, known := theirItem(field, items)
	if !known {
		return
	}
	if s, err := parseAttraction(value); err == nil {
		a.table.SetSource(source, i, s)
	} else {
		a.table.Drop(source, i)
	}
}

// AttractionStatus is the learner's estimate of payoff per impression, over all items. Payoffs are normalised.
type AttractionStatus struct {
	// Learned is true where the learner maximises payoff per impression.
	Learned bool
	// Impressions is the number of impressions of all partitions that the share is learned from, and Share is the share that ended
	// with a selection; 0 where there are none.
	Impressions int64
	Share       float64
	// PerSelection is the mean payoff of a selection. A selection in flight counts by its silence. PerImpression is the payoff of an
	// impression at that share.
	PerSelection, PerImpression float64
}

// status is for people and metrics. It takes the mean payoff per selection.
func (a *attraction) status(perSelection float64) AttractionStatus {
	share := a.table.Mean()
	return AttractionStatus{Learned: true, Impressions: a.table.Fed(), Share: share, PerSelection: perSelection,
		PerImpression: a.nothing + float64(share*(perSelection-a.nothing))}
}
