package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

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
	Pooled            *PooledState           // shared with other machines, as are Names; nil: published fields come through SetSource
	CheckCopartition  func(key []byte) int32 // the default partitioner; nil: keys are not checked
}

// UntilHorizon keeps a tombstone until its payoff deadline and the parking time are over.
const UntilHorizon int64 = -1

// LearnerConfig is the configuration of one learner.
type LearnerConfig struct {
	Name             string
	Default          bool // takes records that name no learner
	PolicyName       string
	DelayName        string
	Fingerprint      string  // settings that must match the stored ones
	PayoffMin        float64 // raw units: the learner sees PayoffMin as 0
	PayoffMax        float64 // and PayoffMax as 1
	PayoffHorizon    int64
	SelectionTimeout int64 // 0 without a selections topic
	// ItemRetention is how long an item is kept that no impression carries, in milliseconds of event time; 0: for ever. It is at least
	// PayoffHorizon, and needs a learner that can forget (delay.Forgetting).
	ItemRetention    int64
	ExpiryDefault    *float64 // payoff assumed for a selection that was never paid, in raw units; nil: none
	RefuseOutOfRange bool     // a single payoff outside the range is a dead letter and ends its impression; else it is clamped
	AggregateSum     bool     // a selection's payoffs are added up until the deadline; else the first counts
	Seed             uint64
	// FindsUtilities means that the learner finds the order of utilities itself, and ignores those of impressions.
	FindsUtilities bool
	Context        *Context // nil: items alone
	New            func() delay.Learner
}

func (c *LearnerConfig) check() error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case c.New == nil:
		return errors.New("nothing makes it")
	case !(c.PayoffMin < c.PayoffMax) || math.IsInf(c.PayoffMax-c.PayoffMin, 0):
		return fmt.Errorf("payoff range [%v, %v]", c.PayoffMin, c.PayoffMax)
	case c.ItemRetention != 0 && c.ItemRetention < c.PayoffHorizon:
		return fmt.Errorf("items are kept for %d ms, and can be paid for %d ms", c.ItemRetention, c.PayoffHorizon)
	case c.PayoffHorizon < 0 || c.SelectionTimeout < 0:
		return errors.New("a negative time")
	case c.ExpiryDefault != nil && !(c.PayoffMin <= *c.ExpiryDefault && *c.ExpiryDefault <= c.PayoffMax):
		return fmt.Errorf("default payoff %v lies outside [%v, %v]", *c.ExpiryDefault, c.PayoffMin, c.PayoffMax)
	}
	return nil
}

// Record is one input record read from Kafka.
type Record struct {
	Topic      event.Topic
	Offset     int64
	Timestamp  event.Millis // Kafka's
	Key, Value []byte
	Cut        *Cut // nil: key and value are whole
	// Plain is the value in Protobuf, if the value alone cannot be decoded because its schema is elsewhere: Avro. Fault is the value's
	// fault, if any.
	Plain []byte
	Fault *event.Fault
	// Skipped is the reason of a command to skip an unreadable record, else "". Key and value are the parts that could be read.
	Skipped string
}

// Cut describes a record of which only the beginning of key or value is at hand, since it exceeds all limits.
type Cut struct {
	Size int    // of the whole key and value together
	Hash uint64 // of both, as in witnesses: a record's hash stays the same, whichever part is at hand
}

// Message is a record to produce: a ranking, or an order record, whose value is nil.
type Message struct {
	Key, Value []byte
	Steps      []byte // steps since the last message, see ParseSteps; not nil
	Seen       []byte // observations since the last message, see ObservationReader; may be empty
}

type DeadLetter struct {
	Topic      event.Topic // its input topic
	Offset     int64
	Key, Value []byte // as read
	Reason     string // a short fixed word, also a metric label
	Detail     string // for people
	Size       int    // of the original key and value together
}

// Output collects the results of steps. Its bytes do not alias inputs, and stay valid until Reset; the caller reuses it.
type Output struct {
	Rankings    []Message // and order records
	DeadLetters []DeadLetter

	buf []byte // memory of the messages; a full one stays with them, and a larger one follows
}

const minOutput = 64 << 10

func (o *Output) room(n int) {
	if cap(o.buf)-len(o.buf) < n {
		o.buf = make([]byte, 0, max(minOutput, 2*cap(o.buf), n))
	}
}

const maxKeptOutput = 8 << 20

func (o *Output) Reset() {
	o.Rankings, o.DeadLetters = o.Rankings[:0], o.DeadLetters[:0]
	if o.buf = o.buf[:0]; cap(o.buf) > maxKeptOutput {
		o.buf = nil
	}
}

func (o *Output) keep(b []byte) []byte {
	o.room(len(b))
	start := len(o.buf)
	o.buf = append(o.buf, b...)
	return o.buf[start:len(o.buf):len(o.buf)]
}

// Input is one record to step, with the facts that its outcome depends on.
type Input struct {
	Record *Record
	// Now is the present time. A record's time ahead of both Now and Latest counts as Now.
	Now, Latest event.Millis
	// Read reports the topics that were read as far as this record may have to wait for them.
	Read [event.Inputs]bool
	// ID is the id of the record's key, if computed already.
	ID *state.ID
	// Found is the look-up's result, the zero value if nothing is stored or no look-up was needed. Changes in the overlay win over it.
	Found Found
	// Decided is the logged decision about this impression. It is adopted, whatever the configuration says now.
	Decided *event.Ranking
	// RefusedEarlier means that an earlier owner left this impression unranked: it is never ranked.
	RefusedEarlier bool
	// Again is the logged step of an earlier owner for this record: decisions that depended on the clock and on free room are repeated.
	Again *InputStep
}

// Wait is the error for a record that cannot be stepped yet. Only changes that were due anyway have been made.
type Wait struct{ For string }

func (w *Wait) Error() string { return "partition: the record has to wait: " + w.For }

// Resolution says whether a record can be stepped without a look-up.
type Resolution uint8

const (
	// NeedsLookUp means that the id has to be looked up first.
	NeedsLookUp Resolution = iota
	// Known means that the id's entry is in memory, or certainly not stored.
	Known
)
