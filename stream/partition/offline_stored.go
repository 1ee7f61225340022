package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// StoredLearner is a learner in a partition's stored table, configured or not.
type StoredLearner struct {
	Name        string
	Fingerprint string // empty: only decisions named it, and it fits any configuration
	Pending     int64
}

// StoredLearners decodes the learner table from the fields of the hash "meta", without the names of impressions from before resets.
func StoredLearners(fields []state.Field) (all []StoredLearner, err error) {
	table, err := storedTable(fields)
	for i := range table {
		s := &table[i]
		if _, reset := wasReset(s.name); !reset {
			all = append(all, StoredLearner{s.name, s.fingerprint, s.ledger.now[impressionsPending]})
		}
	}
	return all, err
}

// Rows returns a row of ItemsHash for each item in a learner's stored fields: its own, or an empty one for an item known by name only. It adds
// until when the item is kept.
// Unreadable names are left out, and err says why.
func Rows(learner string, fields []state.Field) (rows []state.Field, err error) {
	var p fastjson.Parser
	own := map[string]int{}
	for _, f := range fields {
		if f.Hash == learner+":"+ItemsHash {
			own[string(f.Field)] = len(rows)
			rows = append(rows, f)
		}
	}
	for _, f := range fields {
		if f.Hash != learner+":"+NamesHash {
			continue
		}
		items, wrong := parseNames(nil, f.Field, f.Value)
		err = errors.Join(err, wrong)
		for _, it := range items {
			if k, has := own[string(it.name)]; !has {
				rows = append(rows, state.Field{Hash: learner + ":" + ItemsHash, Field: it.name, Value: appendItem(nil, it.number, policy.Sums{}, it.until)})
			} else if row, err := parseItem(&p, rows[k].Value); err == nil {
				rows[k].Value = appendItem(nil, row.number, row.sums, it.until)
			}
		}
	}
	return rows, err
}

var ErrNotStored = errors.New("partition: nothing is stored of this learner")

// ResetLearner returns the changes that reset a learner, given the fields of the hash "meta": changes of "meta", and the hashes to empty.
// Number and account move to a name that no configuration can have. So pending impressions from before the reset expire, and their
// selections and payoffs are refused. The learner gets a new number, and new item numbers, at the next load. It fails with ErrNotStored.
func ResetLearner(fields []state.Field, name string) (changes state.Changes, drop []string, was string, err error) {
	field := []byte(learnerPrefix + name)
	for _, f := range fields {
		if f.Hash != state.MetaHash || string(f.Field) != string(field) {
			continue
		}
		stored, err := parseLearner(name, f.Value)
		if err != nil {
			return changes, nil, "", err
		}
		for n := int(stored.number); ; n++ { // a reshard has given learners other numbers
			was = name + resetMark + strconv.Itoa(n)
			if !slices.ContainsFunc(fields, func(f state.Field) bool { return string(f.Field) == learnerPrefix+was }) {
				break
			}
		}
		changes.Writes = []state.Write{
			{Hash: state.MetaHash, Field: field},
			{Hash: state.MetaHash, Field: []byte(learnerPrefix + was), Value: f.Value},
		}
		for _, h := range append(append(itemHashes(), ImportedHash), delay.EveryHash()...) {
			drop = append(drop, name+":"+h)
		}
		return changes, drop, was, nil
	}
	return changes, nil, "", fmt.Errorf("%w: %q", ErrNotStored, name)
}
