package lab

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// partitions are the learners of so many partitions, over which impressions are spread as keys are: each decides its own, hears
// what comes of them, and of the others' what they publish, at once for all, so often.
type partitions struct {
	delay.Learner // the first, for what is the same of all
	all           []delay.Learner
	every         int64 // impressions from one publication to the next
	decided       int64
}

// newPartitions makes them; of a single one it is the learner itself.
func newPartitions(e *Experiment, build func() delay.Learner) delay.Learner {
	if e.Partitions <= 1 {
		return build()
	}
	p := &partitions{every: max(1, e.ShareEvery)}
	for range e.Partitions {
		p.all = append(p.all, build())
	}
	p.Learner = p.all[0]
	return p
}

// of is the partition of impression t.
func (p *partitions) of(t int64) delay.Learner {
	return p.all[policy.Key(t).Uint64(0)%uint64(len(p.all))]
}

func (p *partitions) Grow(items int) {
	for _, l := range p.all {
		l.Grow(items)
	}
}

// Categorise implements delay.Categorising.
func (p *partitions) Categorise(i policy.Item, category string) {
	for _, l := range p.all {
		if c, ok := l.(delay.Categorising); ok {
			c.Categorise(i, category)
		}
	}
}

// Decide has the next impression decided.
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

// publish tells all learners what has changed of each.
func (p *partitions) publish() {
	for source, l := range p.all {
		l.Harvest(&publication{partitions: p, source: int32(source), from: l, pooled: l.Pooled()})
	}
}

// publication is what one learner publishes.
type publication struct {
	*partitions
	source int32
	from   delay.Learner
	pooled []delay.Pooled
}

var _ delay.Recorder = (*publication)(nil)

// Item implements delay.Recorder.
func (p *publication) Item(i policy.Item) {
	for _, to := range p.all {
		if to != p.from {
			to.SetSource(p.source, i, p.from.Sums(i))
		}
	}
}

// Field implements delay.Recorder.
func (p *publication) Field(hash string, field, value []byte) {
	if !slices.ContainsFunc(p.pooled, func(h delay.Pooled) bool { return h.Hash == hash }) {
		return
	}
	for _, to := range p.all {
		if to != p.from {
			to.SetSourceField(p.source, hash, field, value, func(i policy.Item) (policy.Item, bool) { return i, true })
		}
	}
}
