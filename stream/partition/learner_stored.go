package partition

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// storedItems is the part of a learner's line about items.
type storedItems struct {
	next  policy.Item  // least number of the next new item; 0: the items imply it
	keeps bool         // items are dropped
	kept  event.Millis // until when items are kept that were stored without retention; 0: there were none
}

// ErrLearner means that a configured learner does not fit its stored state.
var ErrLearner = errors.New("partition: learner does not fit the stored state")

// UnfitError is an ErrLearner: the configured fingerprint differs from the stored one.
type UnfitError struct {
	Learner, Configured string
	Stored              map[string]string // fingerprints of all stored learners that have one, by name
}

func (e *UnfitError) Error() string {
	return fmt.Sprintf("%v: %q: it is configured as %s, but was learned as %s: give it another name, or stop the workers "+
		"and run `ranker-worker state reset --learner`", ErrLearner, e.Learner, e.Configured, e.Stored[e.Learner])
}

func (e *UnfitError) Unwrap() error { return ErrLearner }

func fingerprints(table []storedLearner) map[string]string {
	all := map[string]string{}
	for _, s := range table {
		if s.fingerprint != "" {
			all[s.name] = s.fingerprint
		}
	}
	return all
}

// Unfit returns why a machine with these learners would refuse the stored state, given the fields of its hash "meta"; nil if all learners
// fit. It fails if the learner table cannot be decoded.
func Unfit(learners []LearnerConfig, fields []state.Field) (*UnfitError, error) {
	table, err := storedTable(fields)
	if err != nil {
		return nil, err
	}
	stored := fingerprints(table)
	for i := range learners {
		if l := &learners[i]; stored[l.Name] != "" && stored[l.Name] != l.Fingerprint {
			return &UnfitError{Learner: l.Name, Configured: l.Fingerprint, Stored: stored}, nil
		}
	}
	return nil, nil
}

// storedLearner is a learner's line in the learner table.
type storedLearner struct {
	name        string
	number      int32
	fingerprint string
	ledger      ledger
	stored      storedItems
}

// storedTable decodes the learner table from the fields of the hash "meta".
func storedTable(fields []state.Field) (all []storedLearner, err error) {
	for _, f := range fields {
		name, ok := strings.CutPrefix(string(f.Field), learnerPrefix)
		if f.Hash != state.MetaHash || !ok {
			continue
		}
		s, err := parseLearner(f.Value)
		if err != nil {
			return nil, err
		}
		s.name = name
		all = append(all, s)
	}
	return all, nil
}

const learnerPrefix = "learner." // of the learner table's fields in the hash "meta"

func appendLearner(dst []byte, l *storedLearner) []byte {
	dst = append(dst, `{"no":`...)
	dst = strconv.AppendInt(dst, int64(l.number), 10)
	dst = append(dst, `,"fingerprint":`...)
	var a fastjson.Arena
	dst = a.NewString(l.fingerprint).MarshalTo(dst)
	dst = append(dst, `,"account":{`...)
	for c, n := range l.ledger.now {
		if n == 0 {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(strconv.AppendQuote(dst, countNames[c]), ':'), n, 10)
	}
	dst = append(dst, '}')
	if l.stored.next > 0 {
		dst = strconv.AppendInt(append(dst, `,"next":`...), int64(l.stored.next), 10)
	}
	if l.stored.keeps {
		dst = strconv.AppendInt(append(dst, `,"kept":`...), l.stored.kept, 10)
	}
	return append(dst, '}')
}

func parseLearner(value []byte) (s storedLearner, err error) {
	v, err := fastjson.ParseBytes(value)
	if err == nil {
		var n int64
		if n, err = integer(v.Get("no")); err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("number %d", n)
		}
		s.number = int32(n)
	}
	if err == nil {
		s.stored, err = parseStoredItems(v)
	}
	if err == nil {
		s.fingerprint = string(v.GetStringBytes("fingerprint"))
		v.GetObject("account").Visit(func(name []byte, value *fastjson.Value) {
			var n int64
			if n, _ = value.Int64(); err == nil {
				err = s.ledger.load(string(name), strconv.FormatInt(n, 10))
			}
		})
	}
	if err != nil {
		return storedLearner{}, fmt.Errorf("partition: learner table %.64q: %w", value, err)
	}
	return s, nil
}

func parseStoredItems(v *fastjson.Value) (s storedItems, err error) {
	if next := v.Get("next"); next != nil {
		n, err := next.Int64()
		if err != nil || n < 0 || n > math.MaxInt32 {
			return s, fmt.Errorf("next item number %s", next)
		}
		s.next = policy.Item(n)
	}
	if kept := v.Get("kept"); kept != nil {
		if s.kept, err = kept.Int64(); err != nil || s.kept < 0 {
			return s, fmt.Errorf("kept until %s", kept)
		}
		s.keeps = true
	}
	return s, nil
}
