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
	// unsure is why the pooled state, or an estimate, cannot be reproduced; "" if all can. It ends at a snapshot that can be.
	unsure string
	loaded bool // the loaded estimates are unknown, which count until the pooled state has its own
}

func newPooledReplay(cfg *partition.Config, sources int) pooledReplay {
	return pooledReplay{of: cfg.Pooled, sources: make([]publishedLearner, sources)}
}

// nothing marks all sources as unknown: the owner of a base was running, and its pooled state is not in the base.
func (k *pooledReplay) nothing() {
	if k.of == nil {
		return
	}
	for i := range k.sources {
		k.sources[i].bad = notInBase
	}
	k.judge()
}

const (
	estimatesUnknown = "estimates from other partitions' state cannot be reproduced before the next snapshot"
	notInBase        = "its reader's next snapshot is not there yet"
	logEnds          = "the log ends, or its owner died, before a ranking recorded it"
)

// judge updates unsure after a change, and returns whether all sources are reproduced.
func (k *pooledReplay) judge() bool {
	for i := range k.sources {
		if bad := k.sources[i].bad; bad != "" {
			k.unsure = fmt.Sprintf("the state read of partition %d cannot be reproduced: %s", i, bad)
			return false
		}
	}
	if k.unsure != "" {
		k.unsure = estimatesUnknown
	}
	return true
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
		if d := of.find(at); d != nil || of.over != "" || of.gone(at) || source == p.number {
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
	k := &p.pooled
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
	t := &p.pooled.sources[source]
	of := p.published[source]
	d, err := p.await(source, stamp{at.Writer, at.Seq})
	switch {
	case err != nil:
		return err
	case d == nil && at.Known:
		t.bad, t.resync = of.never(stamp{at.Writer, at.Seq}), nil
	case p.reach(source, t, at, d):
		t.bad = ""
	case t.bad == "":
		t.bad = of.never(stamp{at.OverWriter, at.OverSeq})
	}
	p.tainted = p.tainted || d != nil && d.tainted
	t.SourceAt = at
	return nil
}

// stands reads the recorded positions of all sources, and takes the recorded estimates, which may complete the pooled state.
func (p *replayed) stands(s *partition.Observation) error {
	k := &p.pooled
	if k.of == nil || k.unsure == "" {
		return nil
	}
	known := map[int32]partition.SourceAt{}
	for _, c := range s.Sources {
		known[c.Source] = c.At
	}
	for source := range k.sources {
		if k.sources[source].bad != "" {
			if err := p.goTo(int32(source), known[int32(source)]); err != nil {
				return err
			}
		}
	}
	if !k.judge() {
		return nil
	}
	if err := k.of.AdvanceAs(nil); err != nil {
		return err
	}
	if all, err := k.of.TakeEstimates(s.Estimates); err == nil && (all || !k.loaded) {
		k.unsure, k.loaded = "", false
	}
	return nil
}

// reach publishes a source to the pooled state up to a position, with its last delta d. It returns false if the result is unknown.
func (p *replayed) reach(source int32, t *publishedLearner, at partition.SourceAt, d *delta) bool {
	k := &p.pooled
	if !at.Known {
		return !t.Known // its changes stay: no owner drops a source
	}
	fence := state.Fence{Seq: at.Seq}
	of := p.published[source]
	more, leadsOn := d.since(t.last)
	switch {
	case at.Whole && t.Whole && t.resync == nil && leadsOn && t.bad == "":
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
		sure := !begun || t.bad == ""
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
		p.pooled.of.BeginResync(source, state.Fence{Seq: at.Seq})
	}
}

// readParts reads the first n parts of a source's whole state, except those read before.
func (p *replayed) readParts(source int32, t *publishedLearner, n int) {
	for ; t.parts < n; t.parts++ {
		p.pooled.of.Update(source, part(t.resync, t.parts, p.cfg.AtOnce))
	}
}
