package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Errors of a shell's replies, wrapped with the call. Any other error is transient: the task retries with backoff until its deadline.
var (
	// ErrFenced: the broker refused our producer epoch, or the store our token: there is another owner.
	ErrFenced = errors.New("fenced by a later owner")
	// ErrSequence: the broker refused our sequence number: the log is not the one we wrote.
	ErrSequence         = errors.New("the broker refused our sequence number")
	ErrOffsetOutOfRange = errors.New("offset out of range")
	ErrTooLarge         = errors.New("batch too large")
	ErrTimestamp        = errors.New("timestamp refused")
	// ErrInvalidRecord: the broker refused a record, such as one without a key for a compacted topic.
	ErrInvalidRecord = errors.New("record refused")
	// ErrNotReady: the coordinator of the group or of transactions loads, moves, or still executes an earlier request.
	ErrNotReady = errors.New("the coordinator is not ready yet")
	// ErrUnsupported: broker or store lack a required feature, which Error names. It is final.
	ErrUnsupported    = errors.New("not supported")
	ErrGenerationOver = errors.New("the generation is over")
)

// Throttled is the error of a fetch over the client's quota: the broker sends no records, and asks for this pause.
type Throttled time.Duration

func (d Throttled) Error() string {
	return fmt.Sprintf("over the client's quota: the broker asks for a pause of %v", time.Duration(d))
}

// Effect is the content of a request: one of the types below. The Shell's method of its name returns the reply.
type Effect any

type (
	// Heartbeat asks the group's coordinator whether our generation lives.
	Heartbeat struct{}

	Acquire struct {
		Force bool
		Fresh *state.Meta
	}
	Load   struct{ Hashes []string }
	LookUp struct {
		Places []state.Place
		Room   int64 // bytes of values
	}
	Due struct {
		UpTo  int64
		Limit int
		Room  int64 // bytes of values
	}
	KnownIDs   struct{ Cursor uint64 }
	Checkpoint struct{ Checkpoint *state.Checkpoint }
	Probe      struct{}

	// InitProducer is Kafka's InitProducerID (version 3 or later) for the task's transactional id. ID and Epoch are -1 in a first call.
	InitProducer struct{ Producer Producer }
	// AddPartition is AddPartitionsToTxn for rankings[p] and the partition's
	// dead-letter topics, so that the abort's markers carry the epoch into all.
	AddPartition struct{ Producer Producer }
	// Retire makes brokers refuse a producer id that the transaction coordinator
	// has forgotten, in rankings[p] and the partition's dead-letter topics.
	Retire   struct{ ProducerID int64 }
	AbortTxn struct{ Producer Producer }

	// Describe asks for the facts behind the protocol's checks, with fresh metadata.
	Describe  struct{}
	Committed struct{}
	// Fetch reads a topic of this partition, waiting up to MaxWait for MinBytes=1: inputs read-committed, rankings read-uncommitted.
	Fetch struct {
		Topic    event.Topic
		Offset   int64
		MaxBytes int
		MaxWait  time.Duration
	}
	// Produce appends one idempotent batch, acks=all, to rankings, or with DeadLetters to the dead
	// letters of an input topic. A retry has the same messages and sequence, and a new timestamp.
	Produce struct {
		Topic       event.Topic
		DeadLetters bool
		Producer    Producer
		Sequence    int32
		Timestamp   event.Millis
		Messages    []OutMessage
	}
	// Commit sends our offsets to the group's coordinator, for lag tools and Committed.
	Commit struct{ Offsets []int64 }
)

type Producer struct {
	ID    int64
	Epoch int16
}

// LookedUp answers LookUp: the fence, and values (nil: nothing stored) in the order
// asked. It has at least one value, and fewer than asked if Room was used up.
type LookedUp struct {
	Fence  state.Fence
	Values [][]byte
}

type DueEntries struct {
	Fence   state.Fence
	Entries []state.Entry
	More    bool // there are more
}

type Known struct {
	Pages []state.PageOfIDs
	Next  uint64
}

// Fetched answers Fetch, without records below the offset and of aborted transactions. The receiver owns its memory.
type Fetched struct {
	Records  []partition.Record
	Origins  []Origin // one for each of Records; of rankings only
	Traces   []Trace  // of input records that have one, if the shell asks for them; tasks ignore them
	Markers  []Marker // control records, in order
	Next     int64    // offset to continue at, beyond trailing markers and compacted tails
	High     int64    // high watermark
	Readable int64    // end of the readable records: High, or the first open transaction of an input topic
	LastRead bool     // Next has reached High, with no transaction open
	LogStart int64
}

// Origin is a record's producer, and its headers.
type Origin struct {
	Producer      Producer
	Transactional bool
	Steps         []byte // value of StepsHeader; nil: none
	Seen          []byte // value of SeenHeader; nil: none
}

// StepsHeader is the header of a ranking with its input order; see partition.ParseSteps.
const StepsHeader = "steps"

// SeenHeader is the header of a ranking with the other inputs of its decisions; see partition.ObservationReader. Adoption ignores it.
const SeenHeader = "seen"

// Trace is a record's trace context, in W3C's form.
type Trace struct {
	Record int    // index in Fetched.Records
	Parent []byte // of TraceParentHeader; not empty
	State  []byte // of TraceStateHeader; may be empty
}

const (
	TraceParentHeader = "traceparent"
	TraceStateHeader  = "tracestate"
)

type Marker struct {
	Offset    int64
	Timestamp event.Millis
	Producer  Producer
	Abort     bool
}

type OutMessage struct {
	Key, Value []byte
	Headers    []Header
}

type Header struct {
	Key   string
	Value []byte
}

// Produced answers Produce. BaseOffset is -1 if the broker recognised a duplicate without its offset.
type Produced struct {
	BaseOffset int64
	AppendTime event.Millis // by the broker's clock; -1: unknown
}

// Description answers Describe.
type Description struct {
	ClusterID string
	// Topics are indexed by event.Topic, DeadLetters by an input's. An unconfigured topic has zero values.
	Topics, DeadLetters []TopicFacts
	// StoreFault is why the store is not fit: a state.ErrUnfit, with state.ErrLost if keys are gone; nil if it is fit.
	StoreFault error
}

type TopicFacts struct {
	Name            string
	Missing         bool
	Partitions      int
	LogStart, End   int64 // of our partition number, not of dead letters
	Compacted       bool
	LogAppendTime   bool
	MaxMessageBytes int
	// Retention in milliseconds, and in bytes of a partition; -1: for ever, or not known.
	RetentionMillis, RetentionBytes int64
}
