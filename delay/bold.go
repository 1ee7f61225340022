package delay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrBOLD is wrapped by errors about BOLD's settings.
var ErrBOLD = errors.New("delay: settings of bold are faulty")

// LossIndex selects the key of losses.
type LossIndex uint8

const (
	// LossByItem keys losses by item. The regret bounds hold while candidates and utilities stay the same.
	LossByItem LossIndex = iota
	// LossByRank keys losses by utility rank, for each list length apart (paper, section 4, changing utilities).
	LossByRank
)

// BOLDConfig configures NewBOLD.
type BOLDConfig struct {
	// Base is the algorithm for immediate payoffs. An FTRL must be shifted with LossByItem, and must not be with LossByRank.
	Base policy.Adversarial
	// MaxInstances bounds the instances: 0 is no bound, as in the paper; 1 is one learner for delayed payoffs.
	MaxInstances int
	Index        LossIndex
	Windows      WindowsConfig
}

// BOLD is BOLD (paper, appendix C.2; P. Joulani, A. György, C. Szepesvári, "Online learning under delayed feedback", ICML 2013). It
// runs instances of BASE, a learner for immediate payoffs, as many as are needed so that none has to wait. The lowest-numbered free
// instance ranks an impression, and then waits until the impression ends. A payoff is fed to it; expiry, or no selection, teaches
// it nothing. With a delay of K impressions and a regret of B(T) without delay, the regret is at most (K+1)·B(T/(K+1)).
//
// With a bound on instances, and none free, the one with the fewest outstanding impressions ranks (lowest number first). Feeding
// uses the propensity recorded with the decision, so that a single instance is a learner for delayed payoffs (Zimmert & Seldin,
// AISTATS 2020), in practice by far the best. No regret bound is claimed for bounds between.
//
// State depends on the outcomes of impressions only, not on who decided them. An instance takes about 100 bytes, and 9 bytes for
// each item (or list length and rank) it was fed, in blocks of 32. Instances without state are not stored.
//
// Hashes besides the items' sums, all numbers decimal:
//   - "instances": "<number>" to the number of outstanding decisions, if any.
//   - "rounds": "<number>", or "<number>:<length>" with LossByRank, to the number of payoffs fed.
//   - "vectors": the same and ":<block>" to a block of the loss vector (policy.Vector.AppendBlock).
//   - "windows", and field "windows" of "learner": see hashWindows.
type BOLD struct {
	base  policy.Adversarial
	index LossIndex
	pool  pool
	sums  []policy.Sums
	fed   int64
	unfed int64

	outstanding int64
	onlyWindows
	Plain

	nothing policy.Vector // the vector of an instance that was never fed
	ranks   []int32       // 0, 1, 2, …
	p       []float64
	ws      policy.AdversarialWorkspace
	sampler admissible.Sampler

	changes policy.Changes
	writer
}

var _ Learner = (*BOLD)(nil)

// NewBOLD returns a learner without items. It fails with ErrBOLD.
func NewBOLD(c BOLDConfig) (*BOLD, error) {
	switch {
	case c.Base == nil:
		return nil, fmt.Errorf("%w: it needs an algorithm", ErrBOLD)
	case c.MaxInstances < 0:
		return nil, fmt.Errorf("%w: at most %d instances", ErrBOLD, c.MaxInstances)
	case c.Index > LossByRank:
		return nil, fmt.Errorf("%w: losses of index %d", ErrBOLD, c.Index)
	}
	if f, ok := c.Base.(*policy.FTRL); ok && f.Shifted() != (c.Index == LossByItem) {
		return nil, fmt.Errorf("%w: ftrl is shifted where losses belong to items, and only there", ErrBOLD)
	}
	b := &BOLD{base: c.Base, index: c.Index, pool: newPool(c.MaxInstances)}
	if err := b.windows.configure(c.Windows); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBOLD, err)
	}
	return b, nil
}

func (b *BOLD) Grow(items int) {
	if more := items - len(b.sums); more > 0 {
		b.sums = policy.Extend(b.sums, more)
	}
}

func (b *BOLD) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	n := len(candidates)
	i := b.pool.choose()
	v := &b.nothing
	if known := i.vector(b.length(n)); known != nil {
		v = &known.Vector
	}
	q, _ := b.windows.fold(n)
	b.p = slices.Grow(b.p[:0], n)[:n]
	b.base.Point(v, b.coordinates(candidates), q, b.p, &b.ws)
	d.Order = slices.Grow(d.Order[:0], n)[:n]
	b.sampler.Sample(b.p, q, key.Float64(0), d.Order)
	d.Propensities = slices.Grow(d.Propensities[:0], n)[:n]
	for k, rank := range d.Order {
		d.Propensities[k] = b.p[rank]
	}
	d.Expected = d.Expected[:0]
	d.Instance = i.number
	d.Explored = false
	b.occupy(i)
}

// length returns the list length that keys an instance's vector for n candidates; 0 with LossByItem.
func (b *BOLD) length(n int) int32 {
	if b.index == LossByItem {
		return 0
	}
	return int32(n)
}

// coordinates returns the keys of the candidates' losses.
func (b *BOLD) coordinates(candidates []policy.Item) []int32 {
	if b.index == LossByItem {
		return candidates
	}
	for len(b.ranks) < len(candidates) {
		b.ranks = append(b.ranks, int32(len(b.ranks)))
	}
	return b.ranks[:len(candidates)]
}

func (b *BOLD) occupy(i *instance) {
	b.outstanding++
	b.pool.occupy(i)
}

// Adopt implements Learner. The decision's instance waits for one more impression, even if it waits already.
func (b *BOLD) Adopt(_ int64, d *Decision) {
	if d.Instance >= 0 {
		b.occupy(b.pool.make(d.Instance))
	}
}

// Needs implements Learner. An update moves the losses of all candidates, by the windows of the epoch.
func (b *BOLD) Needs() Needs { return Needs{Candidates: true, Epoch: b.windows.counts != nil} }

// Selected implements Learner. A selection informs the estimate of windows.
func (b *BOLD) Selected(fb Feedback) { b.windows.selected(&fb) }

// Partial implements Learner. Instances are fed complete payoffs only.
func (b *BOLD) Partial(Feedback) {}

// Paid implements Learner. It feeds and frees the decision's instance. It only frees it, and counts the payoff as unfed, where the
// record lacks propensities, the instance or a needed order, or its propensity gives no estimate (policy.Loss). The payoff of an
// only candidate is no round.
func (b *BOLD) Paid(fb Feedback) {
	s := &b.sums[fb.Item]
	s.N++
	s.R += fb.Payoff
	s.Q += float64(fb.Payoff * fb.Payoff)
	b.fed++
	b.changes.Note(fb.Item, sumsChanged)
	if !b.feed(&fb) {
		b.unfed++
	}
	b.free(fb.Instance)
}

func (b *BOLD) feed(fb *Feedback) bool {
	i := b.pool.get(fb.Instance)
	n := len(fb.Candidates)
	selected := slices.Index(fb.Candidates, fb.Item)
	if i == nil || i.outstanding == 0 || selected < 0 || b.needsOrder() && len(fb.Order) != n {
		return false
	}
	if _, ok := policy.Loss(fb.Payoff, fb.Propensity); !ok {
		return false
	}
	if n == 1 {
		return true
	}
	q, _ := b.windows.fold(n)
	v := i.makeVector(b.length(n))
	return b.base.Feed(&v.Vector, b.coordinates(fb.Candidates), selected, fb.Payoff, fb.Propensity, q, &b.ws)
}

// needsOrder returns whether an update depends on the order of utilities.
func (b *BOLD) needsOrder() bool {
	_, ftrl := b.base.(*policy.FTRL)
	return b.index == LossByRank || !ftrl
}

func (b *BOLD) free(number int32) {
	i := b.pool.get(number)
	if i == nil || i.outstanding == 0 {
		return
	}
	b.outstanding--
	b.pool.free(i)
}

// Expired implements Learner. It frees the instance.
func (b *BOLD) Expired(fb Feedback) { b.free(fb.Instance) }

// Unselected implements Learner. It frees the instance; decisions without one are ignored.
func (b *BOLD) Unselected(fb Feedback) { b.free(fb.Instance) }

// Advance implements Learner. Windows are estimated again once per EstimateEvery, if there are new selections.
func (b *BOLD) Advance(watermark int64) { b.windows.advance(watermark) }

// Windows appends the distribution of windows in use, from window 1 on, and returns the number of selections of all sources behind it.
func (b *BOLD) Windows(dst []float64) (q []float64, selections int64) { return b.windows.append(dst) }

// Sums implements Learner. Decisions do not depend on them.
func (b *BOLD) Sums(i policy.Item) policy.Sums { return b.sums[i] }

// Evidence implements Learner. Decisions do not depend on it.
func (b *BOLD) Evidence(i policy.Item) policy.Evidence { return b.sums[i].Evidence() }

func (b *BOLD) Status() Status {
	s := Status{
		Fed: b.fed, Flights: b.outstanding, Instances: int64(b.pool.next) + int64(len(b.pool.beside)), Unfed: b.unfed,
	}
	s.Windows, s.Selections = b.windows.shown()
	return s
}
