package task

import (
	"errors"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Errors that a shell's replies carry, wrapped with what was being done. Anything else counts as passing: the task
// tries again with backoff until its deadline.
var (
	// ErrFenced: the broker refused our producer epoch, or the store our token: another owner is at work.
	ErrFenced = errors.New("fenced by a later owner")
	// ErrSequence: the broker refused our sequence number: the log is not the one we wrote.
	ErrSequence = errors.New("the broker refused our sequence number")
	// ErrOffsetOutOfRange: the log does not hold the offset asked for.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrTooLarge: the broker refused a batch for its size.
	ErrTooLarge = errors.New("batch too large")
	// ErrTimestamp: the broker refused a batch for its timestamp; nothing of it was appended.
	ErrTimestamp = errors.New("timestamp refused")
	// ErrInvalidRecord: the broker refused a record itself, such as one without a key for a compacted topic.
	ErrInvalidRecord = errors.New("record refused")
	// ErrNotReady: the coordinator of the group or of transactions is being made, loads, moves, or still carries out an earlier request.
	ErrNotReady = errors.New("the coordinator is not ready yet")
	// ErrUnsupported: the broker or the store lacks something that is needed; Error says what. Final.
	ErrUnsupported = errors.New("not supported")
	// ErrGenerationOver: our membership of the group has ended.
	ErrGenerationOver = errors.New("the generation is over")
)

// Effect is one of the types below: what a request wants done. What comes of each is what the Shell's method of its name
// returns.
type Effect interface{ effect() }

type (
	// Heartbeat asks the group's coordinator whether our generation still lives.
	Heartbeat struct{}

	// Acquire is state.Store.Acquire.
	Acquire struct {
		Force bool
		Fresh *state.Meta
	}
	// Load is state.Store.Load.
	Load struct{ Hashes []string }
	// LookUp is state.Store.LookUp.
	LookUp struct {
		Places []state.Place
		Room   int64 // bytes of values
	}
	// Due is state.Store.Due.
	Due struct {
		UpTo  int64
		Limit int
		Room  int64 // bytes of values
	}
	// KnownIDs is state.Store.KnownIDs.
	KnownIDs struct{ Cursor uint64 }
	// Checkpoint is state.Store.Checkpoint.
	Checkpoint struct{ Checkpoint *state.Checkpoint }
	// Probe is state.Store.Probe.
	Probe struct{}

	// InitProducer is Kafka's InitProducerID (version 3 or later) for the task's transactional id. ID and Epoch are
	// -1 for a first call.
	InitProducer struct{ Producer Producer }
	// AddPartition is AddPartitionsToTxn for rankings[p] and for the dead-letter topics of this partition number, so that
	// the abort's markers carry the epoch into all of them.
	AddPartition struct{ Producer Producer }
	// Retire makes the brokers refuse everything of a producer id that the transaction coordinator has forgotten, of
	// whatever epoch, in rankings[p] and the dead-letter topics of this partition number.
	Retire struct{ ProducerID int64 }
	// AbortTxn is EndTxn with abort.
	AbortTxn struct{ Producer Producer }

	// Describe asks for the facts that the protocol's checks need, with fresh metadata.
	Describe struct{}
	// Committed asks for the group's committed offsets of this partition number.
	Committed struct{}
	// Fetch reads from a topic of this partition number, waiting up to MaxWait for MinBytes=1. Input topics are read
	// committed, rankings as it stands.
	Fetch struct {
		Topic    event.Topic
		Offset   int64
		MaxBytes int
		MaxWait  time.Duration
	}
	// Produce appends one idempotent batch to Topic of this partition number (rankings, or the dead letters of an
	// input topic where DeadLetters is set), acks=all. A retry has the same messages and sequence, but the timestamp of its
	// own moment.
	Produce struct {
		Topic       event.Topic
		DeadLetters bool
		Producer    Producer
		Sequence    int32
		Timestamp   event.Millis
		Messages    []OutMessage
	}
	// Commit tells the group's coordinator our offsets. Lag tools read them, and Committed.
	Commit struct{ Offsets []int64 }
)

// Producer is an idempotent producer's identity; -1, -1 for none.
type Producer struct {
	ID    int64
	Epoch int16
}

// LookedUp answers LookUp: the fence as it stood, and the values (nil: nothing stored) in the order asked, at least one,
// and fewer than were asked for where these were as much as there was room for.
type LookedUp struct {
	Fence  state.Fence
	Values [][]byte
}

// DueEntries answers Due.
type DueEntries struct {
	Fence   state.Fence
	Entries []state.Entry
	More    bool // there are more, and at least one entry is given
}

// Known answers KnownIDs.
type Known struct {
	Pages []state.PageOfIDs
	Next  uint64
}

// Fetched answers Fetch. Records below the offset asked for have been dropped, and so have those of aborted
// transactions. Its memory is the receiver's.
type Fetched struct {
	Records  []partition.Record
	Origins  []Origin // of Records, one for each; of rankings only
	Traces   []Trace  // of input records that name one; only where a shell asks for them. A task does not look at them
	Markers  []Marker // control records, in order
	Next     int64    // where to go on; beyond trailing markers and compacted tails
	High     int64    // high watermark
	LastRead bool     // Next has reached High, with no transaction open: nothing was hidden from us
	LogStart int64
}

// Origin is the producer of a record, and what the record carries besides.
type Origin struct {
	Producer      Producer
	Transactional bool
	Steps         []byte // the value of its header StepsHeader; nil where it has none
	Seen          []byte // likewise of SeenHeader
}

// StepsHeader is the header of a ranking that says in which order its partition took in what it was made from.
const StepsHeader = "steps"

// SeenHeader is the header of a ranking that says what else it was made from that the topics do not hold; see partition.SeenReader. An
// adoption does not look at it.
const SeenHeader = "seen"

// Trace is what a record's headers say of the trace that it belongs to, in W3C's form.
type Trace struct {
	Record int    // index in Fetched.Records
	Parent []byte // of TraceParentHeader; not empty
	State  []byte // of TraceStateHeader; empty where there is none
}

// The headers of a record that name its trace.
const (
	TraceParentHeader = "traceparent"
	TraceStateHeader  = "tracestate"
)

// Marker is a transaction's control record.
type Marker struct {
	Offset    int64
	Timestamp event.Millis
	Producer  Producer
	Abort     bool
}

// OutMessage is a record to be produced.
type OutMessage struct {
	Key, Value []byte
	Headers    []Header
}

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// Produced answers Produce. BaseOffset is -1 where the broker recognised a copy and did not say.
type Produced struct {
	BaseOffset int64
	AppendTime event.Millis // by the broker's clock; -1 where it does not say
}

// Description answers Describe.
type Description struct {
	ClusterID string
	// Topics are by event.Topic; one that is not configured has Partitions 0 and no Missing.
	Topics []TopicFacts
	// StoreFault is why the store is not fit: a state.ErrUnfit, and state.ErrLost with it where keys are gone; nil where it is.
	StoreFault error
}

// TopicFacts are one topic's.
type TopicFacts struct {
	Missing          bool
	Partitions       int
	LogStart, End    int64 // of our partition number
	Compacted        bool
	LogAppendTime    bool
	MaxMessageBytes  int
	DeadLetters      bool // the topic's dead-letter topic exists, with at least as many partitions
	LettersCompacted bool // that one is compacted
	// How long and how much is kept: milliseconds, and bytes of a partition; -1 for ever, and where the broker does not say.
	RetentionMillis, RetentionBytes int64
}
