package replay

import (
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// published is what a partition has published with its checkpoints.
type published struct {
	source int32
	reader *partition.PublishedReader // of all partitions
	base   []state.Field              // all that it had when its base was taken, if there is one
	from   stamp                      // as of when
	deltas []delta
	at     map[stamp]int // which delta a checkpoint is
	over   bool          // there will be no more
	gap    bool          // its owner left out what it saw
}

// stamp names a checkpoint.
type stamp struct {
	writer uint32
	seq    int64
}

type delta struct {
	stamp
	fields []state.Field
}

func newPublished(source int32, reader *partition.PublishedReader) *published {
	return &published{source: source, reader: reader, at: map[stamp]int{}}
}

// begin begins with a base.
func (p *published) begin(at stamp, fields []state.Field) {
	p.from, p.base = at, fields
	p.read(p.whole(0))
}

// read parses fields. The reader has parsed all that the source published before them: fields name items by numbers, which only the items'
// own fields explain. An owner reads a checkpoint before it has read the source's whole state, in a process that read that earlier.
func (p *published) read(fields []state.Field) []partition.Published {
	return p.reader.Read(p.source, fields, func(error) {})
}

// add takes what a checkpoint publishes.
func (p *published) add(at stamp, segments []sealed) {
	d := delta{stamp: at}
	for i := range segments {
		for _, w := range segments[i].changes.Writes {
			if w.Publish {
				d.fields = append(d.fields, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
			}
		}
	}
	p.read(d.fields)
	p.at[at] = len(p.deltas)
	p.deltas = append(p.deltas, d)
}

// cut takes back what was published after a checkpoint, which was never stored.
func (p *published) cut(seq int64) {
	for n := len(p.deltas); n > 0 && p.deltas[n-1].seq > seq; n-- {
		delete(p.at, p.deltas[n-1].stamp)
		p.deltas = p.deltas[:n-1]
	}
}

// find is how many deltas there are up to a checkpoint.
func (p *published) find(at stamp) (n int, ok bool) {
	if at == p.from || at.seq == 0 && p.from.seq == 0 {
		return 0, true
	}
	if i, ok := p.at[at]; ok {
		return i + 1, true
	}
	return 0, false
}

// gone tells whether a checkpoint is older than the base.
func (p *published) gone(at stamp) bool { return at.seq <= p.from.seq && at != p.from }

// whole is all that is published by the first n deltas.
func (p *published) whole(n int) []state.Field {
	type name struct{ hash, field string }
	all := map[name][]byte{}
	for _, f := range p.base {
		all[name{f.Hash, string(f.Field)}] = f.Value
	}
	for i := range p.deltas[:n] {
		for _, f := range p.deltas[i].fields {
			if f.Value == nil {
				delete(all, name{f.Hash, string(f.Field)})
			} else {
				all[name{f.Hash, string(f.Field)}] = f.Value
			}
		}
	}
	fields := make([]state.Field, 0, len(all))
	for k := range maps.Keys(all) {
		if slices.Contains(p.reader.Hashes(), k.hash) {
			fields = append(fields, state.Field{Hash: k.hash, Field: []byte(k.field), Value: all[k]})
		}
	}
	return fields
}

// publishedLearner is how far a machine, or a knowledge, has been told of a source.
type publishedLearner struct {
	partition.SourceAt
	deltas int // of it
	// anew is what it is being told anew, in parts, of which so many have been told.
	anew  []partition.Published
	parts int
}

// part is the k-th part of what is told in parts of so many.
func part(all []partition.Published, k, atOnce int) []partition.Published {
	from := min(k*atOnce, len(all))
	return all[from:min(from+atOnce, len(all))]
}

// parts is how many parts it has.
func parts(all []partition.Published, atOnce int) int {
	return max(1, (len(all)+atOnce-1)/atOnce)
}
