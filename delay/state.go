package delay

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// HashLearner holds a learner's single values, such as estimates.
const HashLearner = "learner"

// everyHash has the names of all other hashes of this package. Only its initialisation appends to it.
var everyHash []string

// named declares a hash.
func named(hash string) string {
	everyHash = append(everyHash, hash)
	return hash
}

// ErrState is wrapped by errors about stored state that the learner cannot have written.
var ErrState = errors.New("delay: stored state is faulty")

var (
	errHash  = errors.New("no such hash")
	errField = errors.New("no such field")
)

// faulty adds the field to an error; nil stays nil.
func faulty(err error, hash string, field, value []byte) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: hash %q, field %q, value %.64q: %w", ErrState, hash, field, value, err)
}

type writer struct {
	field, value []byte
	recorded     *policy.Changes // of atRest
}

// writeCount writes field, and deletes it for 0.
func (w *writer) writeCount(r Recorder, hash string, n int64) {
	if n == 0 {
		r.Field(hash, w.field, nil)
		return
	}
	w.value = strconv.AppendInt(w.value[:0], n, 10)
	r.Field(hash, w.field, w.value)
}

// Changes of an item, as bits in its table's changes.
const (
	sumsChanged = policy.SumsChanged << iota
	queueChanged
)

var errItem = errors.New("the field is not an item's number")

// parseItem reads the number of one of so many items.
func parseItem(text []byte, items int) (policy.Item, error) {
	r := words.Of(text, ' ')
	i := readItem(&r, items)
	return i, r.End(errItem)
}

func readItem(r *words.Reader, items int) policy.Item { return policy.Item(r.Int(0, int64(items)-1)) }

// theirItem returns our number of the item that another source's field names.
func theirItem(field []byte, items Translate) (i policy.Item, known bool) {
	theirs, err := parseItem(field, math.MaxInt32)
	if err != nil {
		return 0, false
	}
	return items(theirs)
}

var errTime = errors.New("the value is not a time")

func parseTime(text []byte) (int64, error) { return words.Parse(text, ' ', readTime, errTime) }

// readTime reads an event time within ±inflight.Never.
func readTime(r *words.Reader) int64 { return r.Int(inflight.Never, -inflight.Never) }
