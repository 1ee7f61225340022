package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// Published is one published field of another partition's learner: an item's sums, a field of a pooled hash, or the number of items. It is
// read-only, so many machines may share it.
type Published struct {
	learner string
	hash    string // without the learner's name; ItemsHash for an item
	field   []byte // for an item: its name
	value   []byte // nil: the field was deleted; not used for an item
	sums    policy.Sums
	items   int  // for CatalogueHash: the number of items
	gone    bool // an item without a row any more
	about   about
}

// about holds the one or two items that a field is about, as far as known: by the source's numbers and the process's.
type about struct {
	theirs, process [2]int32
	n               int
}

func (a *about) add(theirs, process int32) {
	if a.n < len(a.theirs) {
		a.theirs[a.n], a.process[a.n] = theirs, process
		a.n++
	}
}

// PublishedReader parses published fields. It serves one goroutine, and keeps its memory.
type PublishedReader struct {
	hashes  []string
	names   Names
	byItem  map[string]bool // learners that publish fields about items, and the hashes with such fields
	numbers map[sourceOf]*policy.Pages[int32]
	parser  fastjson.Parser
	one     [1][]byte
	number  []int32
}

// sourceOf is a source (a partition) and a learner. For each, a reader keeps the process-wide number plus 1 by the source's number.
type sourceOf struct {
	source  int32
	learner string
}

// NewPublishedReader makes the reader for these learners, with the names of the machines that use its results.
func NewPublishedReader(learners []LearnerConfig, names Names) *PublishedReader {
	r := &PublishedReader{names: names, byItem: make(map[string]bool), numbers: make(map[sourceOf]*policy.Pages[int32])}
	r.hashes = append(r.hashes, ExperimentsHash)
	for i := range learners {
		c := &learners[i]
		r.hashes = append(r.hashes, c.Name+":"+ItemsHash, c.Name+":"+CatalogueHash)
		for _, p := range c.New().Pooled() {
			r.hashes = append(r.hashes, c.Name+":"+p.Hash)
			if p.ByItem {
				r.byItem[c.Name], r.byItem[c.Name+":"+p.Hash] = true, true
			}
		}
	}
	return r
}

// Hashes returns the names of the hashes from which the learners publish.
func (r *PublishedReader) Hashes() []string { return r.hashes }

// Read parses fields that a source has published, and sorts them into the order in which to take them in, the same for every reader. Items
// come first, then deletions, then the rest by name. It sorts fields too. The result aliases their memory. Each unreadable field is left out
// and passed to failed.
func (r *PublishedReader) Read(source int32, fields []state.Field, failed func(error)) []Published {
	if !slices.IsSortedFunc(fields, byName) {
		slices.SortStableFunc(fields, byName)
	}
	all := make([]Published, 0, len(fields))
	for turn := range 3 {
		for _, f := range fields {
			if turnOf(&f) != turn {
				continue
			}
			pub, err := r.read(source, f)
			if err != nil {
				failed(err)
				continue
			}
			all = append(all, pub)
		}
	}
	return all
}

// turnOf returns 0 for items, 1 for other deletions, else 2: an item that ends and is met again in one checkpoint has two numbers.
func turnOf(f *state.Field) int {
	switch {
	case strings.HasSuffix(f.Hash, ":"+ItemsHash):
		return 0
	case f.Value == nil:
		return 1
	}
	return 2
}

func (r *PublishedReader) read(source int32, f state.Field) (Published, error) {
	if f.Hash == ExperimentsHash {
		return Published{hash: f.Hash, field: f.Field, value: f.Value}, nil
	}
	learner, hash, found := cutLast(f.Hash)
	if !found {
		return Published{}, fmt.Errorf("partition: hash %.64q is no learner's", f.Hash)
	}
	pub := Published{learner: learner, hash: hash, field: f.Field, value: f.Value}
	if hash == CatalogueHash {
		if string(f.Field) != catalogueItems || f.Value == nil {
			return pub, fmt.Errorf("partition: field %.64q of hash %.64q", f.Field, f.Hash)
		}
		var err error
		pub.items, err = parseCount(f.Value)
		return pub, err
	}
	if hash != ItemsHash {
		if r.byItem[f.Hash] {
			r.translate(sourceOf{source, learner}, &pub)
		}
		return pub, nil
	}
	if len(f.Field) == 0 {
		return pub, errors.New("partition: an item without a name")
	}
	r.one[0] = f.Field
	r.number = r.names.Numbers(r.number[:0], r.one[:])
	process := r.number[0]
	if f.Value == nil {
		pub.about.add(-1, process)
		pub.gone = true // it has no sums
		return pub, nil
	}
	it, err := parseItem(&r.parser, f.Value)
	if err != nil {
		return pub, fmt.Errorf("item %.64q: %w", f.Field, err)
	}
	pub.sums = it.sums
	pub.about.add(it.number, process)
	if r.byItem[learner] {
		r.note(sourceOf{source, learner}, it.number, process)
	}
	return pub, nil
}

func (r *PublishedReader) note(of sourceOf, theirs, process int32) {
	const most = 1 << 26 // a bound on the allocation for a faulty number
	if theirs >= most {
		return
	}
	if r.numbers[of] == nil {
		r.numbers[of] = &policy.Pages[int32]{}
	}
	*r.numbers[of].At(theirs) = process + 1
}

// translate finds the one or two items that a field names by its source's numbers.
func (r *PublishedReader) translate(of sourceOf, pub *Published) {
	known := r.numbers[of]
	if known == nil {
		return
	}
	for theirs := range numbersIn(pub.field) {
		if process := known.Get(theirs); process > 0 {
			pub.about.add(theirs, process-1)
		}
	}
}

func cutLast(name string) (learner, hash string, found bool) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}
