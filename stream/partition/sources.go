package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// Published is one thing that another partition has published of its learner of the same name: the sums of an item, or a
// field of a hash that the learner pools. It is only read, so that any number of machines may take it in.
type Published struct {
	learner string
	hash    string // without the learner's name; itemsHash for an item
	field   []byte // of an item: its name
	value   []byte // nil: the field is gone; not used for an item
	number  policy.Item
	sums    policy.Sums
	gone    bool // an item that is not stored any more
}

// String shows it to people.
func (pub *Published) String() string {
	if pub.hash == ItemsHash {
		return fmt.Sprintf("%s:%s %q %v", pub.learner, pub.hash, pub.field, pub.sums)
	}
	return fmt.Sprintf("%s:%s %q %q", pub.learner, pub.hash, pub.field, pub.value)
}

// PublishedReader takes apart what other partitions publish, for one goroutine: it keeps its memory.
type PublishedReader struct {
	hashes []string
	byItem map[string]bool // learners that publish fields about items
	parser fastjson.Parser
}

// NewPublishedReader makes the reader for these learners.
func NewPublishedReader(learners []LearnerConfig) *PublishedReader {
	r := &PublishedReader{byItem: make(map[string]bool)}
	for i := range learners {
		c := &learners[i]
		r.hashes = append(r.hashes, c.Name+":"+ItemsHash)
		for _, p := range c.New().Pooled() {
			r.hashes = append(r.hashes, c.Name+":"+p.Hash)
			r.byItem[c.Name] = r.byItem[c.Name] || p.ByItem
		}
	}
	return r
}

// Hashes names the hashes that the learners publish from.
func (r *PublishedReader) Hashes() []string { return r.hashes }

// Read takes published fields apart, into an order in which they can be taken in: items before the fields that are about
// them. The result aliases their memory. What cannot be read is left out, and failed is told.
func (r *PublishedReader) Read(fields []state.Field, failed func(error)) []Published {
	all := make([]Published, 0, len(fields))
	for _, f := range fields {
		pub, err := r.read(f)
		if err != nil {
			failed(err)
			continue
		}
		all = append(all, pub)
	}
	slices.SortStableFunc(all, func(a, b Published) int {
		switch first, second := a.hash == ItemsHash, b.hash == ItemsHash; {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	return all
}

func (r *PublishedReader) read(f state.Field) (Published, error) {
	learner, hash, found := cutLast(f.Hash)
	if !found {
		return Published{}, fmt.Errorf("partition: hash %.64q is no learner's", f.Hash)
	}
	pub := Published{learner: learner, hash: hash, field: f.Field, value: f.Value}
	if hash != ItemsHash {
		return pub, nil
	}
	if f.Value == nil {
		pub.gone = true // it has no sums
		return pub, nil
	}
	var err error
	if pub.number, pub.sums, err = parseItem(&r.parser, f.Value); err != nil {
		return pub, fmt.Errorf("item %.64q: %w", f.Field, err)
	}
	return pub, nil
}

// Informative leaves out the items that have taught their partition nothing, and that no field is about. In a catalogue of
// which little has been selected these are most. A machine that has no sums of them yet does not need them.
func (r *PublishedReader) Informative(all []Published) []Published {
	return slices.DeleteFunc(slices.Clone(all), func(pub Published) bool {
		return pub.hash == ItemsHash && pub.sums == policy.Sums{} && !r.byItem[pub.learner]
	})
}

// cutLast splits a hash's name at its last colon: neither learners nor their hashes have one.
func cutLast(name string) (learner, hash string, found bool) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

// SetSource takes in what another partition has published, in place of what it had before. What cannot be anybody's, and
// learners that are not configured, are passed over: the sender may be older or newer than we are. Items must come
// before the fields that are about them.
func (m *Machine) SetSource(source int32, pub *Published) {
	l := m.byName[pub.learner]
	if l == nil || l.gone || len(pub.field) == 0 {
		return
	}
	if pub.hash == ItemsHash {
		m.setSourceItem(l, source, pub)
		return
	}
	at := slices.IndexFunc(l.pooled, func(p delay.Pooled) bool { return p.Hash == pub.hash })
	if at >= 0 {
		l.delay.SetSourceField(source, pub.hash, pub.field, pub.value, l.translator(source))
	}
}

func (m *Machine) setSourceItem(l *learner, source int32, pub *Published) {
	if pub.sums.Check() != nil {
		return
	}
	ours := m.intern(l, pub.field)
	l.grow()
	if l.poolsByItem && !pub.gone {
		l.noteSourceItem(source, pub.number, ours)
	}
	l.delay.SetSource(source, ours, pub.sums)
}

// noteSourceItem remembers which of our items a source means by a number. Numbers are dense, and a source's catalogue only grows.
func (l *learner) noteSourceItem(source int32, theirs, ours policy.Item) {
	const most = 1 << 26 // a bound on what a faulty number makes us allocate
	if theirs >= most {
		return
	}
	known := l.sourceItems[source]
	for len(known) <= int(theirs) {
		known = append(known, -1)
	}
	known[theirs] = ours
	if l.sourceItems == nil {
		l.sourceItems = make(map[int32][]policy.Item)
	}
	l.sourceItems[source] = known
}

// translator gives our own numbers of a source's items.
func (l *learner) translator(source int32) delay.Translate {
	known := l.sourceItems[source]
	return func(theirs policy.Item) (ours policy.Item, ok bool) {
		if theirs < 0 || int(theirs) >= len(known) || known[theirs] < 0 {
			return 0, false
		}
		return known[theirs], true
	}
}
