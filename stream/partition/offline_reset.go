package partition

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
)

// ErrNotStored says that nothing is stored of a learner.
var ErrNotStored = errors.New("partition: nothing is stored of this learner")

// ResetLearner gives what makes a learner begin anew: changes of the hash "meta", of which fields are the stored ones,
// and the hashes to be emptied. The learner's number and account stay with a name of the past, which no configuration has. So what
// was decided before the reset is treated like the impressions of a learner that is not configured any more: pending
// ones expire, and their selections and payoffs are refused. The learner gets a new number, and its items new ones, when
// a worker next loads the state. It fails with ErrNotStored.
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
