package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
		s, err := parseLearner(name, f.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

const learnerPrefix = "learner." // of the learner table's fields in the hash "meta"

// learnerLine is the stored form of a storedLearner, without its name.
type learnerLine struct {
	Number      *int32           `json:"no"`
	Fingerprint string           `json:"fingerprint"`
	Account     map[string]int64 `json:"account"`
	Next        policy.Item      `json:"next,omitempty"`
	Kept        *event.Millis    `json:"kept,omitempty"`
}

func (s *storedLearner) line() []byte {
	l := learnerLine{Number: &s.number, Fingerprint: s.fingerprint, Account: map[string]int64{}, Next: s.stored.next}
	for c, n := range s.ledger.now {
		if n != 0 {
			l.Account[countNames[c]] = n
		}
	}
	if s.stored.keeps {
		l.Kept = &s.stored.kept
	}
	line, _ := json.Marshal(l) // cannot fail for strings and integers
	return line
}

func parseLearner(name string, value []byte) (s storedLearner, err error) {
	var l learnerLine
	err = json.Unmarshal(value, &l)
	if err == nil && (l.Number == nil || *l.Number < 0 || l.Next < 0 || l.Kept != nil && *l.Kept < 0) {
		err = strconv.ErrRange
	}
	for name, n := range l.Account {
		if err == nil {
			err = s.ledger.load(name, strconv.FormatInt(n, 10))
		}
	}
	if err != nil {
		return storedLearner{}, fmt.Errorf("partition: learner table %.64q: %w", value, err)
	}
	s.name, s.number, s.fingerprint, s.stored.next = name, *l.Number, l.Fingerprint, l.Next
	if l.Kept != nil {
		s.stored.keeps, s.stored.kept = true, *l.Kept
	}
	return s, nil
}
