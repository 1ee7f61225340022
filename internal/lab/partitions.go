package lab

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// partitions are the learners of several partitions. Each decides its share of impressions, by key, and receives their feedback. Every so
// many impressions a global learner reads their published state.
type partitions struct {
	delay.Learner // the first, for calls that concern all alike
	all           []delay.Learner
	whole         delay.Learner
	items         int
	every         int64 // impressions between publications
	decided       int64
}

// newPartitions returns them, or a single learner itself.
func newPartitions(e *Experiment, build func() delay.Learner) delay.Learner {
	if e.Partitions <= 1 {
		return build()
	}
	p := &partitions{whole: build(), every: max(1, e.ShareEvery)}
	same := func(i policy.Item) policy.Item { return i }
	p.whole.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for source := range e.Partitions {
		l := build()
		l.Share(p.whole, int32(source), same)
		if err := l.Loaded(); err != nil {
			panic(fmt.Sprintf("lab: loading nothing: %v", err))
		}
		p.all = append(p.all, l)
	}
	p.Learner = p.all[0]
	return p
}

// of returns the learner of impression t.
func (p *partitions) of(t int64) delay.Learner {
	return p.all[policy.Key(t).Uint64(0)%uint64(len(p.all))]
}

func (p *partitions) Grow(items int) {
	p.items = items
	p.whole.Grow(items)
	for _, l := range p.all {
		l.Grow(items)
	}
}

func (p *partitions) Categorise(i policy.Item, category string) {
	for _, l := range p.all {
		l.Categorise(i, category)
	}
}

// Meet implements delay.Learner, for the learner of the next impression.
func (p *partitions) Meet(candidates []policy.Item, at int64) { p.of(p.decided+1).Meet(candidates, at) }

func (p *partitions) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	if p.decided%p.every == 0 {
		p.publish()
	}
	p.decided++
	p.of(p.decided).Decide(candidates, about, key, d)
}

func (p *partitions) Selected(fb delay.Feedback)   { p.of(fb.Ref).Selected(fb) }
func (p *partitions) Partial(fb delay.Feedback)    { p.of(fb.Ref).Partial(fb) }
func (p *partitions) Paid(fb delay.Feedback)       { p.of(fb.Ref).Paid(fb) }
func (p *partitions) Expired(fb delay.Feedback)    { p.of(fb.Ref).Expired(fb) }
func (p *partitions) Unselected(fb delay.Feedback) { p.of(fb.Ref).Unselected(fb) }

func (p *partitions) Advance(watermark int64) {
	for _, l := range p.all {
		l.Advance(watermark)
	}
}

func (p *partitions) publish() {
	for source, l := range p.all {
		l.Harvest(&publication{to: p.whole, source: int32(source), from: l, pooled: l.Pooled()})
	}
	p.whole.Estimate(p.whole.Commit(p.items))
	for _, l := range p.all {
		l.Refresh(func(yield func(policy.Item) bool) {
			for i := range policy.Item(p.items) {
				if !yield(i) {
					return
				}
			}
		})
	}
}

// publication passes a learner's changes to the global one.
type publication struct {
	to     delay.Learner
	source int32
	from   delay.Learner
	pooled []delay.Pooled
}

var _ delay.Recorder = (*publication)(nil)

func (p *publication) Item(i policy.Item) { p.to.SetSource(p.source, i, p.from.Sums(i)) }

// Known implements delay.Recorder: the global learner reads at once.
func (p *publication) Known() bool { return true }

func (p *publication) Field(hash string, field, value []byte) {
	if slices.ContainsFunc(p.pooled, func(h delay.Pooled) bool { return h.Hash == hash }) {
		p.to.SetSourceField(p.source, hash, field, value, func(i policy.Item) (policy.Item, bool) { return i, true })
	}
}
