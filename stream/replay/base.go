package replay

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Base is a partition's state at a checkpoint. A replay begins with one, or goes on with one behind rankings that are not exact.
//
// Most of the state follows from the log. The owner's pooled state at that time, and estimates made from it, do not, until the log records
// the owner's positions and estimates again. Rankings before that are not exact (pooledReplay).
type Base struct {
	Seq    int64               // of the checkpoint
	Inputs [event.Inputs]int64 // up to which records had been processed
	// Rankings is an offset of the rankings topic. Earlier rankings are in the base, and some later ones may be.
	Rankings int64
	Fields   []state.Field // of all hashes, those of "meta" that are not the store's among them
	Pages    []state.PageOfEntries
}

// image returns the base as a store would hold it.
func (b *Base) image() *image {
	g := newImage()
	g.seq = b.Seq
	for _, f := range b.Fields {
		g.set(&state.Write{Hash: f.Hash, Field: f.Field, Value: f.Value})
	}
	for _, p := range b.Pages {
		g.pages[p.Number] = &page{p.Bucket, maps.Clone(p.Entries)}
	}
	return g
}

// bases is a partition's progress through its bases.
type bases struct {
	next    *Base  // goes on from here once the partition's state is lost
	good    int64  // offset of the last ranking before that
	from    int64  // offset of impressions: earlier ones are in the last base
	earlier string // why those are not exact; "" if they are not counted
}

// begin continues the owner of the next base.
func (p *replayed) begin() (err error) {
	b := p.bases.next
	if p.bases.next, err = p.log.Base(b.Rankings - 1); err != nil {
		return err
	}
	p.bases.from, p.bases.earlier = b.Inputs[event.Impressions], ""
	if p.result.Rankings > 0 {
		p.bases.earlier = cmp.Or(p.lost, beforeBase)
	}
	err = p.beginWith(b)
	var u *inexact
	if errors.As(err, &u) {
		return p.lose(u.why)
	}
	return err
}

// has reports whether there is a base to go on with from a ranking on.
func (b *bases) has(r *Ranking) bool { return b.next != nil && r.Offset >= b.next.Rankings }

func (p *replayed) beginWith(b *Base) error {
	cfg := p.cfg.Machine(p.number)
	p.image, p.sent, p.unsent, p.tainted = b.image(), nil, nil, false
	if err := p.load(&cfg, len(p.cfg.Logs) == 1); err != nil {
		return err
	}
	seen, ok := p.machine.SeenLoaded()
	counted, err := countObservations(seen.Tokens)
	if !ok || err != nil {
		return notExact("the base lacks its owner's observations: no owner had stored a checkpoint yet, or the state was changed outside the log")
	}
	if seen.MadeBy != partition.MadeBy(cfg.Program, cfg.Settings) {
		return notExact("the base is of a worker of another version, on another kind of processor, or with other settings")
	}
	p.image.seal, p.image.inputs = seal{seen.Writer, seen.Sealed}, b.Inputs
	p.orders, p.image.orders = p.machine.Orders(), p.machine.Orders()
	p.writer, p.seals, p.seq, p.pos = seen.Writer, seen.Sealed, b.Seq, b.Inputs
	p.acted, p.visited = p.machine.Watermark(), seen.Visited
	p.behind = counted
	p.behind.sealed, p.behind.unsent = int64(seen.Sealed), int64(seen.Unsent)
	p.published[p.number].begin(stamp{seen.Writer, b.Seq}, b.Fields)
	p.image.published, p.decided = p.published[p.number].head, nil
	for _, g := range p.image.pages {
		for id, v := range g.entries {
			if offset, ok := partition.PendingAt(v); ok {
				p.ids[offset] = id
			}
		}
	}
	p.pooled.nothing()
	return p.whereLoaded()
}

// behind is the part of the headers' observations that a base contains.
type behind struct {
	seals  int   // seals whose observations are in the base
	sealed int64 // segments sealed by all owners
	unsent int64 // segments whose sending later headers record
	// began: the base's owner, the last of writers, had not ranked since it began. It adopts the rankings before its first own one.
	began   bool
	writers []uint32 // owners that began
}

// countObservations counts the observations that the base's tokens will repeat in headers.
func countObservations(tokens []byte) (b behind, err error) {
	seen, err := partition.ReadSeen(tokens)
	for i := range seen {
		switch s := &seen[i]; s.Kind {
		case partition.SeenSealed:
			b.seals++
		case partition.SeenBegun:
			b.began, b.writers = true, append(b.writers, s.Begin.Writer)
		}
	}
	return b, err
}

// earlier reports whether a ranking's header shows that it was made before the base's owner ranked.
func (b *behind) earlier(seen []partition.Observation) bool {
	return b.began && !slices.ContainsFunc(seen, func(s partition.Observation) bool {
		return s.Kind == partition.SeenBegun && s.Begin.Writer == b.writers[len(b.writers)-1]
	})
}

// fresh drops observations that the base contains. A gap behind the base stays: the omitted part begins before it. So does another owner that
// began: the store went back to before the base.
func (b *behind) fresh(seen []partition.Observation) []partition.Observation {
	for b.seals > 0 && len(seen) > 0 {
		switch {
		case seen[0].Kind == partition.SeenSealed:
			b.seals--
		case seen[0].Kind == partition.SeenLost && seen[0].N >= b.sealed:
			b.seals = 0
			return seen
		case seen[0].Kind == partition.SeenBegun && !slices.Contains(b.writers, seen[0].Begin.Writer):
			b.seals = 0
			return seen
		}
		seen = seen[1:]
	}
	return seen
}

// beforeBase is the reason for a ranking by an earlier owner, which the base's owner was to adopt.
const beforeBase = "it was made by an earlier owner than the base's"
