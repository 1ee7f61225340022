package delay

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// hashAttraction maps "<item>" to "<with> <without>": impressions with the item on top that ended with and without a selection.
const hashAttraction = "attraction"

// attraction estimates the share of selections by the item on top. Payoff per impression is that share times payoff per selection, plus
// nothing times the rest. Shares are known within minutes and payoffs after days, so each is learned from its own sample. In the paper
// every impression brings a selection.
//
// An impression counts for the item on top, which every attentive user sees. It counts as selected if the selection is the item itself, or
// one shown before the next leader: by a user with another taste, or who went on. A selection further down shows that the user saw more
// than the item on top: the impression does not count, since windows are neither known nor assumed.
//
// The counts of an impression depend on its ranking and selection alone. So counts are exact integers, add up over partitions, and do not
// depend on the order of impressions.
type attraction struct {
	table   *policy.Table // Sums.R: impressions with a selection; Sums.N: all
	belief  policy.Belief
	nothing float64 // normalised payoff of an impression without a selection

	estimates, known policy.Known
}

func newAttraction(nothing float64) *attraction {
	a := &attraction{table: policy.NewTable(0), nothing: nothing, belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}}
	a.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		s := a.table.Pooled(i)
		return policy.Evidence{W: float64(s.N), R: s.R, Q: s.R}
	})
	return a
}

// LearnAttraction makes a learner without state maximise payoff per impression. nothing is the normalised payoff of an impression without a
// selection. Unselected then needs the ranking in its feedback. A policy that is not policy.Estimating ignores it.
func (d *Direct) LearnAttraction(nothing float64) {
	if _, ok := d.ranker().(policy.Estimating); ok {
		d.attraction = newAttraction(nothing)
	}
}

// LearnAttraction makes a learner without state maximise payoff per impression. nothing is the normalised payoff of an impression without a
// selection. Unselected then needs the ranking in its feedback.
func (r *Robust) LearnAttraction(nothing float64) { r.attraction = newAttraction(nothing) }

// ended counts an impression that ended, with or without the selection of fb.Item. Without its ranking it is not counted.
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

// differs reports whether payoff per impression can differ from payoff per selection: the mean share is neither 0 nor 1. For nil it is
// false.
func (a *attraction) differs() bool {
	if a == nil {
		return false
	}
	mean := a.table.Mean()
	return mean > 0 && mean < 1
}

// perImpression turns estimates of payoff per selection into estimates of payoff per impression, relative to the mean share.
func (a *attraction) perImpression(items []policy.Item, from *policy.Known) *policy.Known {
	mean := a.table.Mean()
	c := a.belief.Components(a.table)
	kappa := c.Kappa()
	k := &a.known
	k.Variance, k.Kappa, k.Candidates = from.Variance, from.Kappa, k.Candidates[:0]
	k.Factors, k.Share, k.Nothing, k.Fair = k.Factors[:0], mean, a.nothing, a.fair()
	for at, i := range items {
		x := from.Candidates[at]
		share := a.share(i, c.Mean, kappa)
		k.Factors = append(k.Factors, policy.Factors{Share: share, Payoff: x})
		if x.Weight > 0 {
			times, above := share.Mean/mean, x.Mean-a.nothing
			spread := max(share.Mean*(1-share.Mean), mean*(1-mean))
			variance := float64(from.Variance*times*times)/x.Weight + float64(above*above*spread)/(mean*mean*share.Weight)
			x = policy.Estimate{Mean: a.nothing + float64(times*above), Weight: from.Variance / variance}
		}
		k.Candidates = append(k.Candidates, x)
	}
	return k
}

// shares writes upper bounds of candidates' shares to s, relative to the mean share: estimate plus MOSS's bonus. It returns nil if payoff
// per impression cannot differ. Only the item on top counts, and robust seldom puts an item of high utility there. So an item that was
// never on top leads until its share is known.
func (a *attraction) shares(items []policy.Item, s *policy.Shares) *policy.Shares {
	if !a.differs() {
		return nil
	}
	s.Times, s.Nothing = s.Times[:0], a.nothing
	mean := a.table.Mean()
	c := a.belief.Components(a.table)
	kappa, fair := c.Kappa(), a.fair()
	for _, i := range items {
		s.Times = append(s.Times, policy.TimesAtMost(a.share(i, c.Mean, kappa), mean, fair))
	}
	return s
}

// fair returns the mean number of impressions per item.
func (a *attraction) fair() float64 { return float64(a.table.Fed()) / float64(a.table.Len()) }

// leastShare keeps estimated shares away from 0 and 1, for items without evidence of either.
const leastShare = 1e-6

// share returns an item's posterior mean share of selections; its weight is in impressions.
func (a *attraction) share(i policy.Item, prior, kappa float64) policy.Estimate {
	e := a.table.Evidence(i)
	weight := e.W + kappa
	return policy.Estimate{Mean: min(max((e.R+float64(kappa*prior))/weight, leastShare), 1-leastShare), Weight: weight}
}

func (b *base) ShareOnTop(i policy.Item) (share float64, ok bool) {
	a := b.attraction
	if a == nil || a.table.Fed() == 0 {
		return 0, false
	}
	c := a.belief.Components(a.table)
	return a.share(i, c.Mean, c.Kappa()).Mean, true
}

func (a *attraction) forget(i policy.Item) {
	if a.table.Own(i) != (policy.Sums{}) {
		a.table.Changes().Note(i, policy.SumsChanged)
	}
	a.table.Forget(i)
}

// takeOver adds another learner's counts.
func (a *attraction) takeOver(from *attraction, numbers []policy.Item) {
	for i, to := range numbers {
		if s := from.table.Own(policy.Item(i)); s != (policy.Sums{}) {
			a.table.AddOwn(to, s, policy.SumsChanged)
		}
	}
}

// harvest writes the changed counts of this partition.
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

// mostImpressions bounds counts that are read, so that their sums stay exact.
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

// setSource sets another source's counts of an item. Malformed or nil values remove them.
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

// AttractionStatus is the estimate of payoff per impression over all items. Payoffs are normalised.
type AttractionStatus struct {
	// Learned is set if the learner maximises payoff per impression.
	Learned bool
	// Impressions is the number of impressions, over all partitions, that Share is learned from. Share is 0 without impressions.
	Impressions int64
	Share       float64
	// PerSelection is the mean payoff of a selection, those in flight included at their present weight. PerImpression is that times Share,
	// plus the payoff without a selection.
	PerSelection, PerImpression float64
}

func (a *attraction) status(perSelection float64) AttractionStatus {
	share := a.table.Mean()
	return AttractionStatus{Learned: true, Impressions: a.table.Fed(), Share: share, PerSelection: perSelection,
		PerImpression: a.nothing + float64(share*(perSelection-a.nothing))}
}
