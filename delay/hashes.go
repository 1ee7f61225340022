package delay

import "github.com/ranker-worker/ranker-worker/policy/preference"

// EveryHash names every hash that a learner of this package may have written, whatever it is configured as now.
func EveryHash() []string {
	return []string{hashQueue, hashQueues, hashFlights, hashLearner, hashInstances, hashRounds, hashVectors, hashWindows,
		(*preference.Sorted)(nil).Hash(), (*preference.Social)(nil).Hash()}
}
