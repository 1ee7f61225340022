package replay

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// pooledReplay is what an owner's process knows of other partitions.
type pooledReplay struct {
	of      *partition.PooledState // nil: nothing, there is but one partition
	sources []publishedLearner     // what the knowledge is told, by source
	loop    []publishedLearner     // what the machine itself is told
	unsure  string                 // why what is known is not known here; "" where it is
	bad     map[int32]bool
	lacks   bool // something that is known is not known here
	apart   bool // likewise of what the machine itself is told
	// guessed is how many estimates each learner had made when all came to be known again, or an owner began with stored ones: what was
	// estimated by then is not known.
	guessed []uint64
}

func newKnows(cfg *partition.Config, sources int) pooledReplay {
	return pooledReplay{of: cfg.Pooled, sources: make([]publishedLearner, sources), loop: make([]publishedLearner, sources), bad: map[int32]bool{}}
}

// nothing makes nothing known of what is known: it is that of an owner in the middle of its life, of which a base does not tell.
func (k *pooledReplay) nothing() {
	if k.of == nil {
		return
	}
	k.apart = true
	for source := range int32(len(k.sources)) {
		k.bad[source] = true
	}
	k.judge()
}

// judge says whether what is known is known here, once it has changed.
func (k *pooledReplay) judge() {
	lacked := k.lacks
	k.lacks, k.unsure = false, ""
	for source := range int32(len(k.sources)) {
		if k.bad[source] {
			k.lacks, k.unsure = true, fmt.Sprintf("what was known of partition %d is not known here", source)
			return
		}
	}
	estimates := k.of.Estimates()
	if lacked {
		k.guessed = estimates
	}
	for i, n := range k.guessed {
		if n == estimates[i] {
			k.unsure = "what was estimated while not all was known is not known"
			return
		}
	}
	k.guessed = nil
}

// stand is how far sources are known, by source.
func (k *pooledReplay) stand() []partition.SourceAt {
	all := make([]partition.SourceAt, len(k.sources))
	for i := range all {
		if all[i] = k.sources[i].SourceAt; !all[i].Known {
			all[i] = k.loop[i].SourceAt
		}
	}
	return all
}

// await is what a source has published with a checkpoint, once it has; nil where that will not be.
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

// turn takes the knowledge to another epoch.
func (p *replayed) turn(s *partition.Observation) error {
	k := &p.knows
	if k.of == nil {
		return notTold(outside)
	}
	for i := range s.Sources {
		c := &s.Sources[i]
		if int(c.Source) >= len(k.sources) {
			return notTold(outside)
		}
		at := c.At
		if c.By > 0 {
			if at = k.sources[c.Source].SourceAt; !at.Known {
				continue // a base does not tell from where on
			}
			at.Seq += c.By
		}
		if err := p.goTo(c.Source, at); err != nil {
			return err
		}
	}
	if k.of.ToldAs(s.Made) != nil {
		return notTold(outside)
	}
	k.judge()
	return nil
}

// goTo tells the knowledge of a source up to where it came.
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
		k.bad[source], t.anew = true, nil
	}
	t.SourceAt = at
	return nil
}

// stands takes in how far all sources are known: what was not known here of what is known may be, now.
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
	if err := k.of.ToldAs(nil); err != nil {
		return err
	}
	k.judge()
	if !k.lacks && k.of.TakeEstimates(s.Estimates) == nil {
		k.guessed, k.unsure = nil, ""
	}
	return nil
}

// reach tells the knowledge of a source up to where it came, with a delta. It is false where that is not known.
func (p *replayed) reach(source int32, t *publishedLearner, at partition.SourceAt, d *delta) bool {
	k := &p.knows
	if !at.Known {
		return !t.Known // what it had told stays, and may be gone by now: nobody forgets a source
	}
	fence := state.Fence{Seq: at.Seq}
	of := p.published[source]
	more, leadsOn := d.since(t.told)
	switch {
	case at.Whole && t.Whole && t.anew == nil && leadsOn && !k.bad[source]:
		for _, d := range more {
			k.of.Tell(source, t.delta(of, d))
		}
		k.of.Reached(source, fence)
	case at.Whole:
		if t.anew == nil || t.Seq != at.Seq || t.Writer != at.Writer {
			t.anew, t.parts = t.whole(of, d), 0
			k.of.BeginResync(source, fence)
		}
		for ; t.parts < parts(t.anew, p.cfg.AtOnce); t.parts++ {
			k.of.Tell(source, part(t.anew, t.parts, p.cfg.AtOnce))
		}
		k.of.Whole(source, fence)
		t.anew = nil
	default:
		before := t.Over && t.OverWriter == at.OverWriter && t.OverSeq == at.OverSeq // it is being told over the same already
		begun := before && t.anew != nil
		sure := !begun || !k.bad[source]
		if over := (stamp{at.OverWriter, at.OverSeq}); at.Over && !begun {
			m := of.find(over)
			sure = m != nil && p.reach(source, t, partition.SourceAt{Known: true, Whole: true, Writer: over.writer, Seq: over.seq}, m)
		}
		if t.anew == nil || t.Seq != at.Seq || t.Writer != at.Writer {
			t.anew, t.parts = t.whole(of, d), 0
			k.of.BeginResync(source, fence)
		}
		for ; t.parts < at.Parts; t.parts++ {
			k.of.Tell(source, part(t.anew, t.parts, p.cfg.AtOnce))
		}
		t.told = d
		return sure
	}
	t.told = d
	return true
}

// imports tells the machine itself what a source has published.
func (p *replayed) imports(s *partition.Observation) error {
	i := &s.Import
	k := &p.knows
	if int(i.Source) >= len(k.loop) {
		return notTold(outside)
	}
	t := &k.loop[i.Source]
	times, at := int64(1), stamp{i.Writer, i.Seq}
	if i.Part < 0 {
		if !t.Known { // how far it was told is not known
			return nil
		}
		times, at = s.N, stamp{t.Writer, t.Seq}
	}
	for range times {
		if i.Part < 0 {
			at.seq++
		}
		d, err := p.await(i.Source, at)
		if err != nil {
			return err
		}
		if d == nil || i.Mode == partition.ImportDelta && d.before == nil { // a base has what its last checkpoint came to, and not which fields that changed
			t.Known, k.apart = false, true
			return nil
		}
		all := t.anew
		if i.Part <= 0 || all == nil || t.told != d {
			all = p.publishedTo(t, i, d)
		}
		t.anew, t.told = all, d
		if i.Part > 0 {
			all = part(all, i.Part, p.cfg.AtOnce)
		} else {
			all = part(all, 0, p.cfg.AtOnce)
		}
		for j := range all {
			p.machine.SetSource(i.Source, &all[j])
		}
	}
	t.SourceAt = partition.SourceAt{Known: true, Writer: at.writer, Seq: at.seq}
	return nil
}

// publishedTo is what an import takes in of what a source has published with a delta.
func (p *replayed) publishedTo(t *publishedLearner, i *partition.Import, d *delta) []partition.Published {
	switch of := p.published[i.Source]; {
	case i.Mode == partition.ImportDelta:
		return t.delta(of, d)
	case i.Mode == partition.ImportInformative:
		all := t.whole(of, d)
		return t.reader.Informative(all)
	default:
		return t.whole(of, d)
	}
}
