package delay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// HashLearner holds a learner's single values, such as estimates.
const HashLearner = "learner"

const hashLearner = HashLearner

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

func extend[T any](s []T, more int) []T {
	n := len(s)
	s = slices.Grow(s, more)[:n+more]
	clear(s[n:])
	return s
}

// parseItem reads the number of one of so many items.
func parseItem(text []byte, items int) (policy.Item, error) {
	n, err := parseInt(text)
	if err != nil {
		return 0, fmt.Errorf("the item is %w", err)
	}
	if n >= int64(items) {
		return 0, fmt.Errorf("there is no item %d among %d", n, items)
	}
	return policy.Item(n), nil
}

var errNumber = errors.New("not a number from 0 on in its shortest decimal form")

// parseInt reads a number from 0 on in its shortest decimal form, so that a field's name has one spelling.
func parseInt(text []byte) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || text[0] == '+' || text[0] == '-' || text[0] == '0' && len(text) > 1 {
		return 0, errNumber
	}
	return n, nil
}

// appendWords appends decimal numbers with blanks between.
func appendWords(dst []byte, numbers ...int64) []byte {
	for k, n := range numbers {
		if k > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return dst
}

// parseWords reads numbers from 0 on that appendWords wrote, at least one.
func parseWords(text []byte) (numbers []int64, err error) {
	for word := range bytes.SplitSeq(text, []byte{' '}) {
		n, err := parseInt(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func parseInt32(text []byte) (int32, error) {
	n, err := parseInt(text)
	if err != nil || n > math.MaxInt32 {
		return 0, errNumber
	}
	return int32(n), nil
}

// theirItem returns our number of the item that another source's field names.
func theirItem(field []byte, items Translate) (i policy.Item, known bool) {
	theirs, err := parseInt32(field)
	if err != nil {
		return 0, false
	}
	return items(theirs)
}

// appendNumbers appends each number behind a blank.
func appendNumbers(dst []byte, all []float64) []byte {
	for _, x := range all {
		dst = strconv.AppendFloat(append(dst, ' '), x, 'g', -1, 64)
	}
	return dst
}

// parsePass reads an event time within ±inflight.Never.
func parsePass(text []byte) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < inflight.Never || n > -inflight.Never {
		return 0, errPass
	}
	return n, nil
}

// resyncs are the keys read so far, by source under resync.
type resyncs[K comparable] map[int32]map[K]bool

func (r resyncs[K]) begin(source int32) { r[source] = map[K]bool{} }

func (r resyncs[K]) note(source int32, key K) {
	if r[source] != nil {
		r[source][key] = true
	}
}

// end returns the keys read.
func (r resyncs[K]) end(source int32) map[K]bool {
	read := r[source]
	delete(r, source)
	return read
}

var errPass = errors.New("the value is not a pass")
