package partition

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
)

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
		stored, err := parseLearner(f.Value)
		if err != nil {
			return changes, nil, "", err
		}
		was = name + resetMark + strconv.Itoa(int(stored.number))
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
