// Package partition is the pure state machine of one partition number: impressions, selections, payoffs and ticks
// go in; rankings, dead letters and state changes come out. It does no I/O, reads no clock, starts no goroutine and
// draws no global randomness; what it does is a function of what it was given.
package partition

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Config is what a machine is made from. Times are in milliseconds.
type Config struct {
	Group      string
	Partition  int32
	TopicNames [event.Topics]string // for dead letters' headers
	// HasSelections is false where no selections topic is configured: a payoff's item is the selection then.
	HasSelections    bool
	ParkingTime      int64
	MaxParked        int   // records, per partition
	MaxParkedBytes   int64 // of their raw bytes, per partition
	MaxCandidates    int
	MaxRecordBytes   int
	MaxRankingBytes  int    // what one ranking record may take in its topic
	Salt             uint64 // for random keys; a stored one wins
	Learners         []LearnerConfig
	CheckCopartition func(key []byte) int32 // the partition a key belongs to by the default partitioner; nil: not checked
}

// LearnerConfig is one learner's part of the configuration that the join needs.
type LearnerConfig struct {
	Name             string
	Default          bool // takes records that name no learner
	PolicyName       string
	DelayName        string
	Fingerprint      string // settings that must match what is stored
	PayoffMin        float64
	PayoffMax        float64
	PayoffHorizon    int64
	SelectionTimeout int64 // 0 where there is no selections topic
	ExpiryDefault    *float64
	AggregateSum     bool
	Seed             uint64
	New              func() delay.Learner
}

// Record is one input record as it was read from Kafka.
type Record struct {
	Topic      event.Topic
	Offset     int64
	Timestamp  event.Millis // Kafka's
	Key, Value []byte
}

// Message is a record to be produced. Offset is that of the input record it answers.
type Message struct {
	Key, Value []byte
	Offset     int64
}

// DeadLetter is a refused input record.
type DeadLetter struct {
	Topic      event.Topic // where it came from
	Offset     int64
	Timestamp  event.Millis
	Key, Value []byte // original
	Reason     string // a short fixed word, also a metric label
	Detail     string // for people
}

// Output collects what steps produce. The caller resets and reuses it; its bytes are its own.
type Output struct {
	Rankings    []Message
	DeadLetters []DeadLetter
}
