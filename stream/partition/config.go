package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// Config is the configuration of a Machine. Times are in milliseconds.
type Config struct {
	Group      string
	Partition  int32
	TopicNames [event.Topics]string // for dead letters' headers
	// HasSelections is false without a selections topic: a payoff's item is then the selection.
	HasSelections   bool
	ParkingTime     int64
	Remember        int64 // how long an ended impression is remembered after the watermark at its end, or UntilHorizon
	MaxParked       int   // records, per partition
	MaxParkedBytes  int64 // of their raw bytes, per partition
	MaxCandidates   int
	MaxRecordBytes  int
	Formats         event.Formats // of the input topics
	MaxRankingBytes int           // the limit of one record in the rankings topic
	// OrderBytes bounds the steps, or observations, kept for the next ranking; see RecordOrder. 0: 4 KiB.
	OrderBytes  int
	Salt        uint64 // of the keys of decisions; a stored one wins
	HashKey     uint64 // secret of this process: keys the hashes of ids in memory
	Learners    []LearnerConfig
	Experiments []ExperimentConfig
	Partitions  int32 // of the input topics; experiments by user wait for all
	Names       Names // of items; may be shared with other machines; nil: the machine's own
	// Program names the program and the kind of processor. Settings lists the settings on which decisions depend. Both are only recorded.
	Program, Settings string
	Pooled            *PooledState           // shared with other machines, as are Names; nil: other partitions are not known
	CheckCopartition  func(key []byte) int32 // the default partitioner; nil: keys are not checked
}

// UntilHorizon keeps a tombstone until its payoff deadline and the parking time are over.
const UntilHorizon int64 = -1
