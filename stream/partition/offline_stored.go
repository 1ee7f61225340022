package partition

import (
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
)

// StoredLearner is a learner in a partition's stored table, configured or not.
type StoredLearner struct {
	Name        string
	Fingerprint string // empty: only decisions named it, and it fits any configuration
	Pending     int64
}

// StoredLearners decodes the learner table from the fields of the hash "meta".
func StoredLearners(fields []state.Field) (all []StoredLearner, err error) {
	for _, f := range fields {
		name, ok := strings.CutPrefix(string(f.Field), learnerPrefix)
		if f.Hash != state.MetaHash || !ok {
			continue
		}
		s, err := parseLearner(f.Value)
		if err != nil {
			return nil, err
		}
		account := s.ledger.account()
		all = append(all, StoredLearner{name, s.fingerprint, account.Impressions.Pending})
	}
	return all, nil
}
