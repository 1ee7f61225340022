package task

// Phase is what a task is doing.
type Phase uint8

// The phases of a task, in their order. A restart goes back to Acquiring.
const (
	Acquiring Phase = iota // taking the stored state over, fencing, checking, loading
	Replaying              // stepping what was read since the checkpoint; adopting decisions found in the log
	Running
	Draining // no new input; what was stepped is being made durable
	Done     // drained, or the generation is over; the task does nothing any more
	Stopped  // a check failed: assigned and idle, with a reason; where that can be mended outside it tries again
)

func (p Phase) String() string {
	return [...]string{"acquiring", "replaying", "running", "draining", "done", "stopped"}[p]
}

// StopReason says why a partition stopped: a short fixed word, which is also a metric label.
type StopReason string

// The reasons for which a partition stops loudly.
const (
	StopTorn        StopReason = "torn"        // a checkpoint was written in part, by a writer that is gone
	StopNoState     StopReason = "no_state"    // the group has run before, but nothing is stored
	StopTopic       StopReason = "topic"       // a topic is missing, recreated, truncated, or its settings do not fit
	StopWitness     StopReason = "witness"     // the log is not the one that was read before
	StopCluster     StopReason = "cluster"     // another Kafka cluster, other topic names
	StopPartitions  StopReason = "partitions"  // the partition count changed or differs between topics
	StopStore       StopReason = "store"       // the store is not fit to keep state
	StopLearner     StopReason = "learner"     // a learner's fingerprint is not the stored one
	StopState       StopReason = "state"       // stored bytes, or a decision in the log, that contradict the input
	StopFence       StopReason = "fence"       // earlier owners cannot be kept from producing
	StopUnsupported StopReason = "unsupported" // broker or store lack what is needed
	StopOffsets     StopReason = "offsets"     // the offset of our own ranking did not rise
)
