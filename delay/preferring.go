package delay

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// Preferring is a learner for impressions without utilities (paper, appendix C.1). A finder learns the order of utilities from
// selections. Once the order of an impression's candidates is certain, the inner learner decides with them in increasing utility;
// before that the impression is in burn-in, and the finder ranks it. Beyond the finder's budget the inner learner decides by a guess.
//
// Candidates of Decide come in any order. Decision.Ranks and Decision.Undecided record the order as known at the decision; both
// must come back with the feedback.
//
// The inner learner receives feedback on burn-in impressions and guesses, too, without the order. For stochastic payoffs nothing is
// lost: a payoff samples its item whatever made the ranking. BOLD cannot be fed, since there is no propensity, or that of an order
// that may be wrong. The payoff is added to the items' sums and counted in Status.Unfed. Windows and shares of selections are not
// learned either.
//
// Its state is the inner learner's, and one hash of the finder.
type Preferring struct {
	Learner // the inner one
	finder  preference.Finder

	order     []int32       // position in the candidates, by rank
	items     []policy.Item // the candidates in increasing utility
	about     policy.Context
	chosen    Decision // the inner learner's
	selection preference.Selection
	burnIn    int64
}

// NewPreferring returns a learner without items. It owns both arguments from now on.
func NewPreferring(inner Learner, finder preference.Finder) *Preferring {
	return &Preferring{Learner: inner, finder: finder}
}

func (p *Preferring) Grow(items int) {
	p.finder.Grow(items)
	p.Learner.Grow(items)
}

// Decide implements Learner. Candidates come in any order.
func (p *Preferring) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	p.sort(candidates, key, d)
	if preference.Explores(d.Undecided) {
		p.burnIn++
		p.explore(key, d)
	} else {
		p.Learner.Decide(p.items, p.sorted(about), key, &p.chosen)
		d.take(&p.chosen)
	}
	d.show(p.order)
}

func (p *Preferring) sort(candidates []policy.Item, key policy.Key, d *Decision) {
	n := len(candidates)
	p.order = slices.Grow(p.order[:0], n)[:n]
	d.Undecided = p.finder.Sort(candidates, key, p.order, d.Undecided[:0])
	p.items = p.items[:0]
	for _, at := range p.order {
		p.items = append(p.items, candidates[at])
	}
}

// sorted returns the context with its rows in the order of p.items.
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

// take sets the decision to the inner learner's, whose order is of ranks.
func (d *Decision) take(inner *Decision) {
	d.Ranks = append(d.Ranks[:0], inner.Order...)
	d.Propensities = append(d.Propensities[:0], inner.Propensities...)
	d.Expected = append(d.Expected[:0], inner.Expected...)
	d.Instance, d.Explored = inner.Instance, inner.Explored
}

// Reweigh implements Optional, by the inner learner. In burn-in the order of utilities is not known.
func (p *Preferring) Reweigh(d *Decision) {
	if preference.Explores(d.Undecided) {
		return
	}
	p.chosen.Order, p.chosen.Propensities = append(p.chosen.Order[:0], d.Ranks...), p.chosen.Propensities[:0]
	p.Learner.Reweigh(&p.chosen)
	d.Propensities = append(d.Propensities[:0], p.chosen.Propensities...)
}

// show converts ranks to positions, by the positions in the order of ranks.
func (d *Decision) show(order []int32) {
	d.Order = d.Order[:0]
	for _, rank := range d.Ranks {
		d.Order = append(d.Order, order[rank])
	}
}

func (p *Preferring) Adopt(ref int64, d *Decision) {
	p.chosen.Order = append(p.chosen.Order[:0], d.Ranks...)
	p.chosen.Propensities = append(p.chosen.Propensities[:0], d.Propensities...)
	p.chosen.Expected = append(p.chosen.Expected[:0], d.Expected...)
	p.chosen.Instance, p.chosen.Explored = d.Instance, d.Explored
	p.Learner.Adopt(ref, &p.chosen)
}

// Selected implements Learner. The finder learns from the selection if the shown order is known.
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
	p.Learner.Selected(forInner(fb))
}

// forInner returns the feedback for the inner learner, without an order and its propensity if it was not certain.
func forInner(fb Feedback) Feedback {
	if len(fb.Undecided) > 0 {
		fb.Candidates, fb.Order, fb.Propensity = nil, nil, 0
	}
	return fb
}

func (p *Preferring) Partial(fb Feedback) { p.Learner.Partial(forInner(fb)) }

func (p *Preferring) Paid(fb Feedback) { p.Learner.Paid(forInner(fb)) }

func (p *Preferring) Expired(fb Feedback) { p.Learner.Expired(forInner(fb)) }

func (p *Preferring) Unselected(fb Feedback) { p.Learner.Unselected(forInner(fb)) }

// Share implements Pooling. Decisions read the global order of utilities.
func (p *Preferring) Share(global Learner, source int32, number func(policy.Item) policy.Item) {
	w := global.(*Preferring)
	p.finder.Share(w.finder, number)
	p.Learner.Share(w.Learner, source, number)
}

func (p *Preferring) BeGlobal(mark func(policy.Item) uint64) {
	p.finder.BeGlobal(mark)
	p.Learner.BeGlobal(mark)
}

func (p *Preferring) Commit(items int) (due Estimates) {
	p.finder.Commit(items)
	return p.Learner.Commit(items)
}

func (p *Preferring) BeginResync(source int32) {
	p.finder.BeginResync(source)
	p.Learner.BeginResync(source)
}

func (p *Preferring) EndResync(source int32, read func(hash string, i policy.Item) bool) {
	p.finder.EndResync(source, func(i policy.Item) bool { return read(p.finder.Hash(), i) })
	p.Learner.EndResync(source, read)
}

// Pooled implements Learner. Selections of all partitions inform the order.
func (p *Preferring) Pooled() []Pooled {
	return append(slices.Clone(p.Learner.Pooled()), Pooled{Hash: p.finder.Hash(), ByItem: true})
}

func (p *Preferring) SetSourceField(source int32, hash string, field, value []byte, items Translate) {
	if hash == p.finder.Hash() {
		p.finder.SetSource(source, field, value, items)
		return
	}
	p.Learner.SetSourceField(source, hash, field, value, items)
}

func (p *Preferring) Advance(watermark int64) {
	p.finder.Advance(watermark)
	p.Learner.Advance(watermark)
}

func (p *Preferring) Hashes() []string {
	return append(slices.Clone(p.Learner.Hashes()), p.finder.Hash())
}

func (p *Preferring) LoadField(hash string, field, value []byte) error {
	if hash != p.finder.Hash() {
		return p.Learner.LoadField(hash, field, value)
	}
	if err := p.finder.Load(field, value); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

func (p *Preferring) Loaded() error {
	p.finder.Loaded()
	return p.Learner.Loaded()
}

func (p *Preferring) Harvest(r Recorder) {
	p.Learner.Harvest(r)
	p.finder.Harvest(func(field, value []byte) { r.Field(p.finder.Hash(), field, value) })
}

func (p *Preferring) Status() Status {
	s, f := p.Learner.Status(), p.finder.Status()
	s.FindsUtilities = true
	s.BurnIn, s.UndecidedPairs, s.Contradictions, s.Unrated = p.burnIn, f.Undecided, f.Contradictions, f.Unused
	return s
}
