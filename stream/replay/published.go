package replay

import (
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// published is what a partition has published with its checkpoints. They branch where its store goes back: others may have taken in those
// of any branch.
type published struct {
	source   int32
	learners []partition.LearnerConfig
	names    partition.Names
	from     stamp            // as of when its base was taken, if there is one
	at       map[stamp]*delta // by checkpoint
	begun    *delta           // nothing, or the base
	head     *delta           // the next one leads on from it
	over     bool             // there will be no more
	gap      bool             // its owner left out what it saw
}

// stamp names a checkpoint.
type stamp struct {
	writer uint32
	seq    int64
}

// delta is what a checkpoint has published: of a base all that it has.
type delta struct {
	stamp
	before *delta // nil: nothing
	fields []state.Field
}

func newPublished(source int32, learners []partition.LearnerConfig, names partition.Names) *published {
	p := &published{source: source, learners: learners, names: names, at: map[stamp]*delta{}, head: &delta{}}
	p.begun = p.head
	return p
}

// begin begins with a base.
func (p *published) begin(at stamp, fields []state.Field) {
	p.head = &delta{stamp: at, fields: fields}
	p.from, p.at[at], p.begun = at, p.head, p.head
}

// add takes what a checkpoint publishes.
func (p *published) add(at stamp, segments []sealed) *delta {
	d := &delta{stamp: at, before: p.head}
	for i := range segments {
		for _, w := range segments[i].changes.Writes {
			if w.Publish {
				d.fields = append(d.fields, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
			}
		}
	}
	p.at[at], p.head = d, d
	return d
}

// find is what a checkpoint has published; nil where that is not known.
func (p *published) find(at stamp) *delta {
	if at.seq == 0 && p.from.seq == 0 {
		return p.begun
	}
	return p.at[at]
}

// gone tells whether a checkpoint is older than the base.
func (p *published) gone(at stamp) bool { return at.seq <= p.from.seq && at != p.from }

// since are the deltas from one on, without it, or from the beginning on, up to d; ok is false where d does not lead on from it.
func (d *delta) since(from *delta) (all []*delta, ok bool) {
	for ; d != from; d = d.before {
		if d == nil {
			return nil, false
		}
		all = append(all, d)
	}
	slices.Reverse(all)
	return all, true
}

// whole is all that is published as of a delta.
func (p *published) whole(d *delta, hashes []string) []state.Field {
	type name struct{ hash, field string }
	all := map[name][]byte{}
	deltas, _ := d.since(nil)
	for _, d := range deltas {
		for _, f := range d.fields {
			if f.Value == nil {
				delete(all, name{f.Hash, string(f.Field)})
			} else {
				all[name{f.Hash, string(f.Field)}] = f.Value
			}
		}
	}
	fields := make([]state.Field, 0, len(all))
	for k := range maps.Keys(all) {
		if slices.Contains(hashes, k.hash) {
			fields = append(fields, state.Field{Hash: k.hash, Field: []byte(k.field), Value: all[k]})
		}
	}
	return fields
}

// publishedLearner is how far a machine, or a knowledge, has been told of a source.
type publishedLearner struct {
	partition.SourceAt
	told *delta // the last of it
	// anew is what it is being told anew, in parts, of which so many have been told.
	anew  []partition.Published
	parts int

	reader *partition.PublishedReader
	read   *delta // by the reader, last
}

// whole reads all that a source has published as of a delta.
func (l *publishedLearner) whole(p *published, d *delta) []partition.Published {
	l.reader, l.read = partition.NewPublishedReader(p.learners, p.names), d
	return l.reader.Read(p.source, p.whole(d, l.reader.Hashes()), func(error) {})
}

// delta reads a delta. Its fields name items by numbers, which only the items' own fields explain, here or in what was published before:
// the reader has to have read that. Numbers mean other items on another branch.
func (l *publishedLearner) delta(p *published, d *delta) []partition.Published {
	if l.reader == nil || l.read != d.before {
		l.whole(p, d.before)
	}
	l.read = d
	return l.reader.Read(p.source, d.fields, func(error) {})
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
