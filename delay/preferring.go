package delay

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// Preferring is a learner for impressions that carry no utilities (the paper's appendix C.1): it finds their order, and
// hands its inner learner the candidates in increasing utility once that is certain.
//
// Its Decide takes the candidates in any order. While the order of an impression's candidates is not certain it is in its
// burn-in: it is ranked so as to find the order, and the inner learner is not asked. Decision.Ranks and
// Decision.Undecided say what was known at the decision; both must come back with the feedback, since what a selection
// teaches depends on them.
//
// What becomes of an impression in its burn-in is told to the inner learner all the same. Learners for stochastic payoffs
// lose nothing: a payoff is a sample of its item's, whatever made the ranking, and QPM-D counts a selection as a step of
// BASE as always. BOLD can be fed nothing, for the selection had no propensity and no instance: such a payoff enters the
// items' sums and is counted among Status.Unfed. Windows are not learned from it either, for the selection of an item says
// how far its user looked only where it is known which of those shown below are liked better.
//
// Its state is that of the inner learner and a hash of the finder's beside it.
type Preferring struct {
	inner  Learner
	finder preference.Finder

	order     []int32       // by rank: the position in the candidates
	items     []policy.Item // the candidates in increasing utility
	about     policy.Context
	chosen    Decision // the inner learner's
	selection preference.Selection
	burnIn    int64
}

var _ Learner = (*Preferring)(nil)

// NewPreferring makes a learner of two that know no items yet, and are its own from now on.
func NewPreferring(inner Learner, finder preference.Finder) *Preferring {
	return &Preferring{inner: inner, finder: finder}
}

// Grow implements Learner.
func (p *Preferring) Grow(items int) {
	p.finder.Grow(items)
	p.inner.Grow(items)
}

// Decide implements Learner. The order of the candidates means nothing.
func (p *Preferring) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	p.sort(candidates, key, d)
	if len(d.Undecided) > 0 {
		p.burnIn++
		p.explore(key, d)
	} else {
		p.inner.Decide(p.items, p.sorted(about), key, &p.chosen)
		p.take(d)
	}
	p.show(d)
}

// sort finds the candidates' order.
func (p *Preferring) sort(candidates []policy.Item, key policy.Key, d *Decision) {
	n := len(candidates)
	p.order = slices.Grow(p.order[:0], n)[:n]
	d.Undecided = p.finder.Sort(candidates, key, p.order, d.Undecided[:0])
	p.items = p.items[:0]
	for _, at := range p.order {
		p.items = append(p.items, candidates[at])
	}
}

// sorted is the context with its rows in the order of p.items.
func (p *Preferring) sorted(about *policy.Context) *policy.Context {
	if about == nil {
		return nil
	}
	p.about.Segment, p.about.At, p.about.X = about.Segment, about.At, p.about.X[:0]
	for _, at := range p.order {
		p.about.X = append(p.about.X, about.Row(int(at), len(p.order))...)
	}
	return &p.about
}

func (p *Preferring) explore(key policy.Key, d *Decision) {
	n := len(p.items)
	d.Ranks = slices.Grow(d.Ranks[:0], n)[:n]
	p.finder.Explore(p.items, d.Undecided, key, d.Ranks)
	d.Propensities, d.Expected = d.Propensities[:0], d.Expected[:0]
	d.Instance, d.Explored = -1, true
}

// take makes the inner learner's decision ours.
func (p *Preferring) take(d *Decision) {
	d.Ranks = append(d.Ranks[:0], p.chosen.Order...)
	d.Propensities = append(d.Propensities[:0], p.chosen.Propensities...)
	d.Expected = append(d.Expected[:0], p.chosen.Expected...)
	d.Instance, d.Explored = p.chosen.Instance, p.chosen.Explored
}

// show turns ranks into positions.
func (p *Preferring) show(d *Decision) {
	d.Order = d.Order[:0]
	for _, rank := range d.Ranks {
		d.Order = append(d.Order, p.order[rank])
	}
}

// Adopt implements Learner.
func (p *Preferring) Adopt(ref int64, d *Decision) {
	p.chosen.Order = append(p.chosen.Order[:0], d.Ranks...)
	p.chosen.Propensities = append(p.chosen.Propensities[:0], d.Propensities...)
	p.chosen.Expected = append(p.chosen.Expected[:0], d.Expected...)
	p.chosen.Instance, p.chosen.Explored = d.Instance, d.Explored
	p.inner.Adopt(ref, &p.chosen)
}

// Needs implements Learner: selections tell of the order of utilities, payoffs do not.
func (p *Preferring) Needs() Needs { return p.inner.Needs() }

// Selected implements Learner: the selection tells of the order of utilities. It tells nothing where it is not known what
// was shown.
func (p *Preferring) Selected(fb Feedback) {
	at, ok := fb.shownAt()
	if len(fb.Order) == 0 {
		at = slices.Index(fb.Candidates, fb.Item) // they are in the order shown
		ok = at >= 0
	}
	if ok {
		p.selection = preference.Selection{
			Items: fb.Candidates, Order: fb.Order, Undecided: fb.Undecided, At: at, Utility: fb.Utility, HasUtility: fb.HasUtility,
		}
		p.finder.Selected(&p.selection)
		p.selection = preference.Selection{}
	}
	p.inner.Selected(forInner(fb))
}

// forInner is the feedback as a learner wants it that is given utilities. Of an impression in its burn-in it does not know
// the order.
func forInner(fb Feedback) Feedback {
	if len(fb.Undecided) > 0 {
		fb.Candidates, fb.Order = nil, nil
	}
	return fb
}

// Partial implements Learner.
func (p *Preferring) Partial(fb Feedback) { p.inner.Partial(forInner(fb)) }

// Paid implements Learner.
func (p *Preferring) Paid(fb Feedback) { p.inner.Paid(forInner(fb)) }

// Expired implements Learner.
func (p *Preferring) Expired(fb Feedback) { p.inner.Expired(forInner(fb)) }

// Unselected implements Learner.
func (p *Preferring) Unselected(fb Feedback) { p.inner.Unselected(forInner(fb)) }

// Categorise implements Categorising.
func (p *Preferring) Categorise(i policy.Item, category string) {
	if c, ok := p.inner.(Categorising); ok {
		c.Categorise(i, category)
	}
}

// Sums implements Learner.
func (p *Preferring) Sums(i policy.Item) policy.Sums { return p.inner.Sums(i) }

// Evidence implements Learner.
func (p *Preferring) Evidence(i policy.Item) policy.Evidence { return p.inner.Evidence(i) }

// SetSource implements Learner.
func (p *Preferring) SetSource(source int32, i policy.Item, s policy.Sums) {
	p.inner.SetSource(source, i, s)
}

// Pooled implements Learner: selections tell of the order wherever they were made.
func (p *Preferring) Pooled() []Pooled {
	return append(slices.Clone(p.inner.Pooled()), Pooled{Hash: p.finder.Hash(), ByItem: true})
}

// SetSourceField implements Learner.
func (p *Preferring) SetSourceField(source int32, hash string, field, value []byte, items Translate) {
	if hash == p.finder.Hash() {
		p.finder.SetSource(source, field, value, items)
		return
	}
	p.inner.SetSourceField(source, hash, field, value, items)
}

// Advance implements Learner.
func (p *Preferring) Advance(watermark int64) {
	p.finder.Advance(watermark)
	p.inner.Advance(watermark)
}

// Hashes implements Learner.
func (p *Preferring) Hashes() []string {
	return append(slices.Clone(p.inner.Hashes()), p.finder.Hash())
}

// Expects implements Expecting.
func (p *Preferring) Expects() bool {
	x, ok := p.inner.(Expecting)
	return ok && x.Expects()
}

// LoadSums implements Learner.
func (p *Preferring) LoadSums(i policy.Item, s policy.Sums) { p.inner.LoadSums(i, s) }

// LoadField implements Learner.
func (p *Preferring) LoadField(hash string, field, value []byte) error {
	if hash != p.finder.Hash() {
		return p.inner.LoadField(hash, field, value)
	}
	if err := p.finder.Load(field, value); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

// Loaded implements Learner.
func (p *Preferring) Loaded() error {
	p.finder.Loaded()
	return p.inner.Loaded()
}

// Harvest implements Learner.
func (p *Preferring) Harvest(r Recorder) {
	p.inner.Harvest(r)
	p.finder.Harvest(func(field, value []byte) { r.Field(p.finder.Hash(), field, value) })
}

// Status implements Learner.
func (p *Preferring) Status() Status {
	s, f := p.inner.Status(), p.finder.Status()
	s.FindsUtilities = true
	s.BurnIn, s.UndecidedPairs, s.Contradictions, s.Unrated = p.burnIn, f.Undecided, f.Contradictions, f.Unused
	return s
}
