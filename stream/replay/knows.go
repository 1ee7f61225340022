package replay

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// pooledReplay reproduces the pooled state of an owner's process.
type pooledReplay struct {
	of      *partition.PooledState // nil: the owner has none
	sources []publishedLearner     // read by the pooled state, by source
	unsure  string                 // why the pooled state cannot be reproduced; "" if it can
	bad     map[int32]bool
	lacks   bool // some source is in bad
	// guessed is each learner's number of estimates when all sources were reproduced again, or when an owner began with stored estimates.
	// Estimates up to it are unknown.
	guessed []uint64
}

func newKnows(cfg *partition.Config, sources int) pooledReplay {
	return pooledReplay{of: cfg.Pooled, sources: make([]publishedLearner, sources), bad: map[int32]bool{}}
}

// nothing marks all sources as unknown: the owner of a base was running, and its pooled state is not in the base.
func (k *pooledReplay) nothing() {
	if k.of == nil {
		return
	}
	for source := range int32(len(k.sources)) {
		k.bad[source] = true
	}
	k.judge()
}

// guess marks the stored estimates that an owner began with as unknown.
func (k *pooledReplay) guess() {
	if k.of == nil {
		k.unsure = estimatesUnknown
		return
	}
	k.guessed = k.of.Estimates()
	k.judge()
}

const estimatesUnknown = "estimates from other partitions' state cannot be reproduced"

// judge updates lacks, unsure and guessed after a change.
func (k *pooledReplay) judge() {
	lacked := k.lacks
	k.lacks, k.unsure = false, ""
	for source := range int32(len(k.sources)) {
		if k.bad[source] {
			k.lacks, k.unsure = true, fmt.Sprintf("the state read of partition %d cannot be reproduced", source)
			return
		}
	}
	estimates := k.of.Estimates()
	if lacked {
		k.guessed = estimates
	}
	for i, n := range k.guessed {
		if n == estimates[i] {
			k.unsure = estimatesUnknown
			return
		}
	}
	k.guessed = nil
}

// stand returns the positions read of all sources.
func (k *pooledReplay) stand() []partition.SourceAt {
	all := make([]partition.SourceAt, len(k.sources))
	for i := range all {
		all[i] = k.sources[i].SourceAt
	}
	return all
}

// await waits until a source has published a checkpoint, and returns it; nil if it never will.
func (p *replayed) await(source int32, at stamp) (*delta, error) {
	for {
		of := p.published[source]
		if d := of.find(at); d != nil || of.over || of.gone(at) || source == p.number {
			return d, nil
		}
		if p.without {
			p.without = false
			return nil, nil
		}
		if !p.yield(progress{waits: true}) {
			return nil, errStopped
		}
	}
}

// turn advances the pooled state to another epoch.
func (p *replayed) turn(s *partition.Observation) error {
	k := &p.knows
	if k.of == nil {
		return notExact(outside)
	}
	for i := range s.Sources {
		c := &s.Sources[i]
		if int(c.Source) >= len(k.sources) {
			return notExact(outside)
		}
		at := c.At
		if c.By > 0 {
			if at = k.sources[c.Source].SourceAt; !at.Known {
				continue // a base does not hold the starting position
			}
			at.Seq += c.By
		}
		if err := p.goTo(c.Source, at); err != nil {
			return err
		}
	}
	if k.of.AdvanceAs(s.Made) != nil {
		return notExact(outside)
	}
	k.judge()
	return nil
}

// goTo advances the pooled state to a source's position.
func (p *replayed) goTo(source int32, at partition.SourceAt) error {
	k := &p.knows
	t := &k.sources[source]
	d, err := p.await(source, stamp{at.Writer, at.Seq})
	if err != nil {
		return err
	}
	if d != nil || !at.Known {
		k.bad[source] = !p.reach(source, t, at, d)
	} else {
		k.bad[source], t.resync = true, nil
	}
	t.SourceAt = at
	return nil
}

// stands reads the recorded positions of all sources, which may complete the pooled state.
func (p *replayed) stands(s *partition.Observation) error {
	k := &p.knows
	if k.of == nil || k.unsure == "" {
		return nil
	}
	known := map[int32]partition.SourceAt{}
	for _, c := range s.Sources {
		known[c.Source] = c.At
	}
	for source := range int32(len(k.sources)) {
		if at := known[source]; k.bad[source] {
			if err := p.goTo(source, at); err != nil {
				return err
			}
		}
	}
	if err := k.of.AdvanceAs(nil); err != nil {
		return err
	}
	k.judge()
	if !k.lacks && k.of.TakeEstimates(s.Estimates) == nil {
		k.guessed, k.unsure = nil, ""
	}
	return nil
}

// reach publishes a source to the pooled state up to a position, with its last delta d. It returns false if the result is unknown.
func (p *replayed) reach(source int32, t *publishedLearner, at partition.SourceAt, d *delta) bool {
	k := &p.knows
	if !at.Known {
		return !t.Known // its changes stay: no owner drops a source
	}
	fence := state.Fence{Seq: at.Seq}
	of := p.published[source]
	more, leadsOn := d.since(t.last)
	switch {
	case at.Whole && t.Whole && t.resync == nil && leadsOn && !k.bad[source]:
		for _, d := range more {
			k.of.Update(source, t.delta(of, d))
		}
		k.of.Reached(source, fence)
	case at.Whole:
		p.beginResync(source, t, at, d)
		p.readParts(source, t, parts(t.resync, p.cfg.AtOnce))
		k.of.Whole(source, fence)
		t.resync = nil
	default:
		before := t.Over && t.OverWriter == at.OverWriter && t.OverSeq == at.OverSeq // the resync that was interrupted is the same
		begun := before && t.resync != nil
		sure := !begun || !k.bad[source]
		if over := (stamp{at.OverWriter, at.OverSeq}); at.Over && !begun {
			m := of.find(over)
			sure = m != nil && p.reach(source, t, partition.SourceAt{Known: true, Whole: true, Writer: over.writer, Seq: over.seq}, m)
		}
		p.beginResync(source, t, at, d)
		p.readParts(source, t, at.Parts)
		t.last = d
		return sure
	}
	t.last = d
	return true
}

// beginResync begins to read a source's whole state into the pooled state, unless that of the same checkpoint is being read.
func (p *replayed) beginResync(source int32, t *publishedLearner, at partition.SourceAt, d *delta) {
	if t.resync == nil || t.Seq != at.Seq || t.Writer != at.Writer {
		t.resync, t.parts = t.whole(p.published[source], d), 0
		p.knows.of.BeginResync(source, state.Fence{Seq: at.Seq})
	}
}

// readParts reads the first n parts of a source's whole state, except those read before.
func (p *replayed) readParts(source int32, t *publishedLearner, n int) {
	for ; t.parts < n; t.parts++ {
		p.knows.of.Update(source, part(t.resync, t.parts, p.cfg.AtOnce))
	}
}
