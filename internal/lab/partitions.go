package lab

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// partitions are the learners of several partitions. Each decides its share of impressions, by key, receives their feedback, and
// reads the others' published state every so many impressions.
type partitions struct {
	delay.Learner // the first, for calls that concern all alike
	all           []delay.Learner
	every         int64 // impressions between publications
	decided       int64
}

// newPartitions returns them, or a single learner itself.
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

// of returns the learner of impression t.
func (p *partitions) of(t int64) delay.Learner {
	return p.all[policy.Key(t).Uint64(0)%uint64(len(p.all))]
}

func (p *partitions) Grow(items int) {
	for _, l := range p.all {
		l.Grow(items)
	}
}

func (p *partitions) Categorise(i policy.Item, category string) {
	for _, l := range p.all {
		if c, ok := l.(delay.Categorising); ok {
			c.Categorise(i, category)
		}
	}
}

// Meet implements delay.Meeting for the learner of the next impression.
func (p *partitions) Meet(candidates []policy.Item, at int64) {
	if to, ok := p.of(p.decided + 1).(delay.Meeting); ok {
		to.Meet(candidates, at)
	}
}

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
		l.Harvest(&publication{partitions: p, source: int32(source), from: l, pooled: l.Pooled()})
	}
}

type publication struct {
	*partitions
	source int32
	from   delay.Learner
	pooled []delay.Pooled
}

var _ delay.Recorder = (*publication)(nil)

func (p *publication) Item(i policy.Item) {
	for _, to := range p.all {
		if to != p.from {
			to.SetSource(p.source, i, p.from.Sums(i))
		}
	}
}

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
