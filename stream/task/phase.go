package task

type Phase uint8

// The phases of a task, in order. A restart returns to Acquiring.
const (
	Acquiring Phase = iota // take-over, fence, checks, load
	Replaying              // stepping records read since the checkpoint; adopting logged decisions
	Running
	Draining // no new input; steps are being saved
	Done     // drained, or the generation is over
	Stopped  // a check failed: idle, with a reason; retried if the cause can be mended outside
)

func (p Phase) String() string {
	return [...]string{"acquiring", "replaying", "running", "draining", "done", "stopped"}[p]
}

// StopReason is the reason why a partition stopped: a short fixed word, also a metric label.
type StopReason string

const (
	StopTorn        StopReason = "torn"        // a checkpoint is half-written, by a writer that is gone
	StopNoState     StopReason = "no_state"    // the group has run before, but nothing is stored
	StopTopic       StopReason = "topic"       // a topic is missing, recreated, truncated, or its settings do not fit
	StopWitness     StopReason = "witness"     // the log is not the one that was read before
	StopCluster     StopReason = "cluster"     // another Kafka cluster, or other topic names
	StopPartitions  StopReason = "partitions"  // the partition count changed or differs between topics
	StopStore       StopReason = "store"       // the store is not fit to keep state
	StopLearner     StopReason = "learner"     // a learner's fingerprint is not the stored one
	StopState       StopReason = "state"       // stored bytes, or a logged decision, contradict the input
	StopFence       StopReason = "fence"       // earlier owners cannot be fenced
	StopUnsupported StopReason = "unsupported" // broker or store lack a required feature
	StopOffsets     StopReason = "offsets"     // the offset of our own ranking did not rise
)
