package delay

// EveryHash names every hash that a learner of this package may have written, whatever it is configured as now.
func EveryHash() []string {
	return []string{hashQueue, hashQueues, hashFlights, hashLearner, hashInstances, hashRounds, hashVectors, hashWindows}
}
