package replay

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// knows is what an owner's process knows of other partitions.
type knows struct {
	of      *partition.Knowledge // nil: nothing, there is but one partition
	reader  *partition.PublishedReader
	sources []told // what the knowledge is told, by source
	loop    []told // what the machine itself is told
	unsure  string // why what is known is not known here; "" where it is
	bad     map[int32]bool
}

func newKnows(cfg *partition.Config, sources int) knows {
	return knows{of: cfg.Knowledge, reader: partition.NewPublishedReader(cfg.Learners, cfg.Names), sources: make([]told, sources),
		loop: make([]told, sources), bad: map[int32]bool{}}
}

// stand is how far sources are known, by source.
func (k *knows) stand() []partition.SourceAt {
	all := make([]partition.SourceAt, len(k.sources))
	for i := range all {
		if all[i] = k.sources[i].SourceAt; !all[i].Known {
			all[i] = k.loop[i].SourceAt
		}
	}
	return all
}

// await is how many deltas of a source there are up to a checkpoint, once there are; ok is false where that will not be.
func (p *replayed) await(source int32, at stamp) (n int, ok bool, err error) {
	for {
		of := p.published[source]
		if n, ok = of.find(at); ok || of.over || source == p.number {
			return n, ok, nil
		}
		if p.without {
			p.without = false
			return 0, false, nil
		}
		if !p.yield(progress{waits: true}) {
			return 0, false, errStopped
		}
	}
}

// turn takes the knowledge to another epoch.
func (p *replayed) turn(s *partition.Sight) error {
	k := &p.knows
	if k.of == nil {
		return notTold(misfit)
	}
	for i := range s.Sources {
		c := &s.Sources[i]
		if int(c.Source) >= len(k.sources) {
			return notTold(misfit)
		}
		t := &k.sources[c.Source]
		at := c.At
		if c.By > 0 {
			at = t.SourceAt
			at.Seq += c.By
		}
		n, ok, err := p.await(c.Source, stamp{at.Writer, at.Seq})
		if err != nil {
			return err
		}
		if ok || !at.Known {
			k.bad[c.Source] = !p.reach(c.Source, t, at, n)
		} else {
			k.bad[c.Source] = true
		}
		t.SourceAt = at
	}
	k.of.Told()
	k.unsure = ""
	for source := range int32(len(k.sources)) {
		if k.bad[source] && k.unsure == "" {
			k.unsure = fmt.Sprintf("what partition %d had published is not known", source)
		}
	}
	return nil
}

// reach tells the knowledge of a source up to where it came, after n deltas. It is false where that is not known.
func (p *replayed) reach(source int32, t *told, at partition.SourceAt, n int) bool {
	k := &p.knows
	fence := state.Fence{Seq: at.Seq}
	of := p.published[source]
	switch {
	case !at.Known:
		return !t.Known // what it had told stays, and may be gone by now: nobody forgets a source
	case at.Whole && t.Whole && t.anew == nil && n >= t.deltas && !k.bad[source]:
		for _, d := range of.deltas[t.deltas:n] {
			k.of.Tell(source, k.reader.Read(source, d.fields, func(error) {}))
		}
		k.of.Reached(source, fence)
	case at.Whole:
		if t.anew == nil || t.Seq != at.Seq || t.Writer != at.Writer {
			t.anew, t.parts = p.wholeOf(source, n), 0
			k.of.Anew(source, fence)
		}
		for ; t.parts < parts(t.anew); t.parts++ {
			k.of.Tell(source, part(t.anew, t.parts))
		}
		k.of.Whole(source, fence)
		t.anew = nil
	default:
		sure := true
		if over := (stamp{at.OverWriter, at.OverSeq}); at.Over && t.anew == nil {
			m, ok := of.find(over)
			sure = ok && p.reach(source, t, partition.SourceAt{Known: true, Whole: true, Writer: over.writer, Seq: over.seq}, m)
		}
		if t.anew == nil || t.Seq != at.Seq || t.Writer != at.Writer {
			t.anew, t.parts = p.wholeOf(source, n), 0
			k.of.Anew(source, fence)
		}
		for ; t.parts < at.Parts; t.parts++ {
			k.of.Tell(source, part(t.anew, t.parts))
		}
		t.deltas = n
		return sure
	}
	t.deltas = n
	return true
}

// wholeOf is all that a source has published by its first n deltas.
func (p *replayed) wholeOf(source int32, n int) []partition.Published {
	k := &p.knows
	return k.reader.Read(source, p.published[source].whole(n, k.reader.Hashes()), func(error) {})
}

// imports tells the machine itself what a source has published.
func (p *replayed) imports(s *partition.Sight) error {
	i := &s.Import
	k := &p.knows
	if int(i.Source) >= len(k.loop) {
		return notTold(misfit)
	}
	t := &k.loop[i.Source]
	times, at := int64(1), stamp{i.Writer, i.Seq}
	if i.Part < 0 {
		times, at = s.N, stamp{t.Writer, t.Seq}
	}
	for range times {
		if i.Part < 0 {
			at.seq++
		}
		n, ok, err := p.await(i.Source, at)
		if err != nil {
			return err
		}
		if !ok {
			return notTold("what partition %d had published is not known", i.Source)
		}
		all := t.anew
		if i.Part <= 0 || all == nil || t.parts != n {
			all = p.publishedTo(i, n)
		}
		t.anew, t.parts = all, n
		if i.Part > 0 {
			all = part(all, i.Part)
		} else {
			all = part(all, 0)
		}
		for j := range all {
			p.machine.SetSource(i.Source, &all[j])
		}
	}
	t.SourceAt = partition.SourceAt{Known: true, Writer: at.writer, Seq: at.seq}
	return nil
}

// publishedTo is what an import takes in of what a source has published by its first n deltas.
func (p *replayed) publishedTo(i *partition.Import, n int) []partition.Published {
	k := &p.knows
	switch {
	case i.Mode == partition.ImportDelta && n == 0:
		return nil
	case i.Mode == partition.ImportDelta:
		return k.reader.Read(i.Source, p.published[i.Source].deltas[n-1].fields, func(error) {})
	case i.Mode == partition.ImportInformative:
		return k.reader.Informative(p.wholeOf(i.Source, n))
	}
	return p.wholeOf(i.Source, n)
}
