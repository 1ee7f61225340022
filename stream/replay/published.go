package replay

import (
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// published holds the deltas of a partition's checkpoints. They branch where an owner's last one was not stored.
type published struct {
	source   int32
	learners []partition.LearnerConfig
	names    partition.Names
	from     stamp            // checkpoint of its base, if any
	at       map[stamp]*delta // by checkpoint
	begun    *delta           // empty, or the base
	head     *delta           // the next one continues it
	over     string           // why nothing follows; "" if something may
}

// stamp identifies a checkpoint.
type stamp struct {
	writer uint32
	seq    int64
}

// delta holds the fields that a checkpoint published; for a base, all of them.
type delta struct {
	stamp
	before  *delta // nil: none
	tainted bool   // likewise replayed.tainted
	fields  []state.Field
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

// add adds the fields that a checkpoint publishes.
func (p *published) add(at stamp, segments []sealed, tainted bool) *delta {
	d := &delta{stamp: at, before: p.head, tainted: tainted}
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

// find returns a checkpoint's delta, or nil.
func (p *published) find(at stamp) *delta {
	if at.seq == 0 && p.from.seq == 0 {
		return p.begun
	}
	return p.at[at]
}

// gone reports whether a checkpoint is older than the base.
func (p *published) gone(at stamp) bool { return at.seq <= p.from.seq && at != p.from }

// never is why a checkpoint is not there.
func (p *published) never(at stamp) string {
	switch {
	case p.over != "":
		return p.over
	case p.gone(at):
		return notInBase
	}
	return logEnds
}

// since returns the deltas after from (nil: all) up to d; ok is false if d does not continue from.
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

// whole returns the fields of hashes as of a delta.
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

// publishedLearner is the position up to which a pooled state has read a source.
type publishedLearner struct {
	partition.SourceAt
	last *delta // the last one read
	bad  string // why it cannot be reproduced; "" if it can
	// resync holds the fields of a resync under way, of which parts parts have been read.
	resync []partition.Published
	parts  int

	reader *partition.PublishedReader
	read   *delta // last delta of reader
}

// whole reads all fields that a source has published as of a delta.
func (l *publishedLearner) whole(p *published, d *delta) []partition.Published {
	l.reader, l.read = partition.NewPublishedReader(p.learners, p.names), d
	return l.reader.Read(p.source, p.whole(d, l.reader.Hashes()), func(error) {})
}

// delta reads a delta. Its fields have items' numbers, which only the items' own fields explain, in this delta or earlier ones, so the
// reader has to read those first. Another branch has other numbers.
func (l *publishedLearner) delta(p *published, d *delta) []partition.Published {
	if l.reader == nil || l.read != d.before {
		l.whole(p, d.before)
	}
	l.read = d
	return l.reader.Read(p.source, d.fields, func(error) {})
}

// part returns the k-th part of atOnce fields.
func part(all []partition.Published, k, atOnce int) []partition.Published {
	from := min(k*atOnce, len(all))
	return all[from:min(from+atOnce, len(all))]
}

func parts(all []partition.Published, atOnce int) int {
	return max(1, (len(all)+atOnce-1)/atOnce)
}
