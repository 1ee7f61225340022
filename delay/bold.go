package delay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrBOLD says that the settings of BOLD make no sense.
var ErrBOLD = errors.New("delay: settings of bold are faulty")

// LossIndex is what losses belong to.
type LossIndex uint8

const (
	// ByItem: to items. The bounds hold where candidates and utilities stay as they are.
	ByItem LossIndex = iota
	// ByRank: to utility ranks, for each list length apart (the paper's section 4, changing utilities).
	ByRank
)

// BOLDConfig is what a BOLD is made from.
type BOLDConfig struct {
	// Base is the algorithm for immediate payoffs. An FTRL must be shifted exactly where Index is ByItem.
	Base policy.Adversarial
	// MaxInstances bounds the instances; 0 is no bound, the paper's BOLD, and 1 is one learner for delayed payoffs.
	MaxInstances int
	Index        LossIndex
	// Windows says where the distribution of windows comes from.
	Windows WindowsConfig
}

// BOLD is BOLD (the paper's appendix C.2; P. Joulani, A. György, C. Szepesvári, "Online learning under delayed feedback",
// ICML 2013): it runs instances of a learner made for immediate payoffs, BASE, so many that none of them has to wait.
// An impression is ranked by the lowest-numbered instance that waits for nothing, and that instance then waits for what
// becomes of the impression: its payoff, which it is fed, or its expiry, or that nothing was selected, which teach it
// nothing. With a delay of K impressions and a regret of B(T) without, the regret is at most (K+1)·B(T/(K+1)).
//
// The number of instances may be bounded. Then, when all wait, the impression is ranked by the one with the fewest
// outstanding (of several, the lowest-numbered). What an instance is fed is estimated with the propensity that was recorded
// with the decision, so that a single instance is one learner for delayed payoffs (Zimmert & Seldin, AISTATS 2020), and in
// practice by far the best one. For bounds between, and late payoffs, no regret bound is claimed.
//
// What an instance knows changes by payoffs alone, not by decisions: state is a function of what the impressions came to,
// whatever made their decisions. Memory: each instance that was ever needed at once takes about 100 bytes, and what it
// has been fed 9 bytes for each item (or list length and rank) it knows, in blocks of 32. So MaxInstances bounds it,
// or, without, the most impressions that were ever outstanding. An instance that knows nothing and waits for nothing is
// not stored; one that only waits for nothing is stored as what it knows.
//
// Its state is stored in hashes of its own, besides the sums of the payoffs taken in by item: "instances" maps "<number>"
// to the number of its outstanding decisions, where there are any; "rounds" maps "<number>", or "<number>:<length>" where
// losses belong to ranks, to the number of payoffs fed; "vectors" maps the same with ":<block>" behind to a block of what
// it knows (policy.Vector.AppendBlock); "windows" maps "<low>:<high>", or "<low>:" where there is no upper end, to the number
// of selections that said that the window was within; and "learner" maps "windows" to the period of the last estimate, the
// number of selections it was made from and the estimate, separated by blanks. Numbers are decimal.
type BOLD struct {
	base  policy.Adversarial
	index LossIndex
	pool  pool
	sums  []policy.Sums
	fed   int64
	unfed int64

	outstanding int64
	windows     windows

	nothing policy.Vector // what an instance that was never fed knows
	ranks   []int32       // 0, 1, 2, …
	p       []float64
	ws      policy.AdversarialWorkspace
	sampler admissible.Sampler

	changes policy.Changes
	writer
}

var _ Learner = (*BOLD)(nil)

// NewBOLD makes a learner that knows no items yet.
func NewBOLD(c BOLDConfig) (*BOLD, error) {
	switch {
	case c.Base == nil:
		return nil, fmt.Errorf("%w: it needs an algorithm", ErrBOLD)
	case c.MaxInstances < 0:
		return nil, fmt.Errorf("%w: at most %d instances", ErrBOLD, c.MaxInstances)
	case c.Index > ByRank:
		return nil, fmt.Errorf("%w: losses of index %d", ErrBOLD, c.Index)
	}
	if f, ok := c.Base.(*policy.FTRL); ok && f.Shifted() != (c.Index == ByItem) {
		return nil, fmt.Errorf("%w: ftrl is shifted where losses belong to items, and only there", ErrBOLD)
	}
	b := &BOLD{base: c.Base, index: c.Index, pool: newPool(c.MaxInstances)}
	b.ws.Solver = &admissible.Solver{}
	if err := b.windows.configure(c.Windows); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBOLD, err)
	}
	return b, nil
}

// Grow implements Learner.
func (b *BOLD) Grow(items int) {
	if more := items - len(b.sums); more > 0 {
		b.sums = extend(b.sums, more)
	}
}

// Decide implements Learner.
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

// length is the length under which an instance keeps what it learns from lists of n candidates.
func (b *BOLD) length(n int) int32 {
	if b.index == ByItem {
		return 0
	}
	return int32(n)
}

// coordinates are what the losses of the candidates belong to.
func (b *BOLD) coordinates(candidates []policy.Item) []int32 {
	if b.index == ByItem {
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

// Adopt implements Learner: the decision's instance waits for one more, even if it waits already.
func (b *BOLD) Adopt(_ int64, d *Decision) {
	if d.Instance >= 0 {
		b.occupy(b.pool.make(d.Instance))
	}
}

// Needs implements Learner: an update moves what is known of each candidate.
func (b *BOLD) Needs() Needs { return Needs{Candidates: true} }

// Selected implements Learner: the selection tells something about the user's window.
func (b *BOLD) Selected(fb Feedback) { b.windows.selected(&fb) }

// Partial implements Learner: instances are fed whole payoffs only.
func (b *BOLD) Partial(Feedback) {}

// Paid implements Learner: the instance is fed, and waits for one less. A decision whose record lacks what the update
// needs (one of another layout: without propensities, instance or, where it matters, the order of utilities) frees it
// only, and so does a propensity that has no estimate (policy.Loss); such payoffs are counted. The payoff of an only candidate
// teaches nothing of which is better: it is no round of the instance, whose rate stays as it is.
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

// needsOrder tells whether an update depends on the order of the candidates' utilities.
func (b *BOLD) needsOrder() bool {
	_, ftrl := b.base.(*policy.FTRL)
	return b.index == ByRank || !ftrl
}

// free ends one of an instance's outstanding decisions.
func (b *BOLD) free(number int32) {
	i := b.pool.get(number)
	if i == nil || i.outstanding == 0 {
		return
	}
	b.outstanding--
	b.pool.free(i)
}

// Expired implements Learner: nothing is learned.
func (b *BOLD) Expired(fb Feedback) { b.free(fb.Instance) }

// Unselected implements Learner: nothing is learned. Decisions without an instance are none of BOLD's.
func (b *BOLD) Unselected(fb Feedback) { b.free(fb.Instance) }

// Advance implements Learner: learned windows are estimated anew in each period of EstimateEvery in which it is called, if
// there is something new to estimate from. Where it is not called, they stay as they are.
func (b *BOLD) Advance(watermark int64) { b.windows.advance(watermark) }

// Pooled implements Learner: selections tell of windows wherever they were made.
func (b *BOLD) Pooled() []Pooled { return b.windows.pooled() }

// SetSourceField implements Learner.
func (b *BOLD) SetSourceField(source int32, hash string, field, value []byte, _ Translate) {
	b.windows.setSourceField(source, hash, field, value)
}

// Windows appends the distribution of windows that decisions are made for, from window 1 on, to dst, and tells how many
// selections, of all sources, it may be learned from.
func (b *BOLD) Windows(dst []float64) (q []float64, selections int64) { return b.windows.append(dst) }

// Sums implements Learner: the payoffs taken in. Decisions do not depend on them.
func (b *BOLD) Sums(i policy.Item) policy.Sums { return b.sums[i] }

// Evidence implements Learner. Decisions do not depend on it.
func (b *BOLD) Evidence(i policy.Item) policy.Evidence { return b.sums[i].Evidence() }

// SetSource implements Learner. Instances are this partition's own, so that other sources' sums change nothing.
func (b *BOLD) SetSource(int32, policy.Item, policy.Sums) {}

// Status implements Learner.
func (b *BOLD) Status() Status {
	s := Status{
		Fed: b.fed, Flights: b.outstanding, Instances: int64(b.pool.next) + int64(len(b.pool.beside)), Unfed: b.unfed,
	}
	s.Windows, s.Selections = b.windows.shown()
	return s
}
