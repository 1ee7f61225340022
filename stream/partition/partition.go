package partition

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Config is what a machine is made from. Times are in milliseconds.
type Config struct {
	Group      string
	Partition  int32
	TopicNames [event.Topics]string // for dead letters' headers
	// HasSelections is false where no selections topic is configured: a payoff's item is the selection then.
	HasSelections   bool
	ParkingTime     int64
	Remember        int64 // how long an ended impression is remembered, from the watermark at its end on; or UntilHorizon
	MaxParked       int   // records, per partition
	MaxParkedBytes  int64 // of their raw bytes, per partition
	MaxCandidates   int
	MaxRecordBytes  int
	Formats         event.Formats // of the input topics
	MaxRankingBytes int           // what one ranking record may take in its topic
	// OrderBytes is how many bytes of steps, or of what else was seen, are kept for the next ranking; see Tell. 0: 4 KiB.
	OrderBytes  int
	Salt        uint64 // of the keys of decisions; a stored one wins
	HashKey     uint64 // secret, of this process: keys the hashes of ids in memory
	Learners    []LearnerConfig
	Experiments []ExperimentConfig
	Partitions  int32 // of the input topics; what experiments by user wait for
	Names       Names // of items, which other machines may share; nil: the machine's own
	// Program names the program and the kind of processor, and Settings those settings on which decisions depend. Both are only told.
	Program, Settings string
	Pooled            *PooledState           // shared with other machines, and names with it; nil: all is told to this machine (SetSource)
	CheckCopartition  func(key []byte) int32 // the partition a key belongs to by the default partitioner; nil: not checked
}

// UntilHorizon says that an ended impression is remembered until its payoff deadline and the parking time are over.
const UntilHorizon int64 = -1

// LearnerConfig is one learner's part of the configuration that the join needs.
type LearnerConfig struct {
	Name             string
	Default          bool // takes records that name no learner
	PolicyName       string
	DelayName        string
	Fingerprint      string  // settings that must match what is stored
	PayoffMin        float64 // raw units: a payoff of PayoffMin is 0 for the learner
	PayoffMax        float64 // and one of PayoffMax is 1
	PayoffHorizon    int64
	SelectionTimeout int64 // 0 where there is no selections topic
	// ItemRetention is how long, in milliseconds of event time, an item is kept that no impression carries; 0 is for ever. It is not below
	// PayoffHorizon, and only learners that can forget have one (delay.Forgetting).
	ItemRetention    int64
	ExpiryDefault    *float64 // raw units: what a selection that was never paid counts as; nil: nothing
	RefuseOutOfRange bool     // a single payoff outside the range is a dead letter, and ends its impression; else it is clamped
	AggregateSum     bool     // a selection's payoffs are added up until the deadline; else the first one counts
	Seed             uint64
	// FindsUtilities is true where the learner finds the order of utilities itself: impressions need none, and those they
	// carry are not looked at.
	FindsUtilities bool
	Context        *Context // nil: it looks at items alone
	New            func() delay.Learner
}

// Record is one input record as it was read from Kafka.
type Record struct {
	Topic      event.Topic
	Offset     int64
	Timestamp  event.Millis // Kafka's
	Key, Value []byte
	Cut        *Cut // nil: key and value are whole
	// Plain is what the value says, in Protobuf, where the value alone cannot be read because its schema is elsewhere: Avro. Fault, if
	// not nil, is what is wrong with the value then.
	Plain []byte
	Fault *event.Fault
	// Skipped says why a record that cannot be read is passed over, by a person's command; "" is not. Key and value are what could
	// be had of it.
	Skipped string
}

// Cut says that of a record's key or value only the beginning is at hand, for it is longer than any that is taken.
type Cut struct {
	Size int    // of the whole key and the whole value together
	Hash uint64 // of both, as witnesses have it: whatever of them is at hand, a record stays the same
}

// Message is a record to be produced: a ranking, or an order record, whose value is nil.
type Message struct {
	Key, Value []byte
	Steps      []byte // what was stepped since the last, see ParseSteps; not nil
	Seen       []byte // what else was seen, see SeenReader; empty where there was nothing
}

// DeadLetter is a refused input record.
type DeadLetter struct {
	Topic      event.Topic // where it came from
	Offset     int64
	Key, Value []byte // original
	Reason     string // a short fixed word, also a metric label
	Detail     string // for people
	Size       int    // of the original key and value together
}

// Output collects what steps produce. Its bytes are its own: nothing in it aliases an input. They stay valid until
// Reset; the caller resets and reuses it.
type Output struct {
	Rankings    []Message // and order records
	DeadLetters []DeadLetter

	buf []byte // what the messages point into; when it is full, they keep it, and a larger one is begun
}

// minOutput is the least that an Output begins with.
const minOutput = 64 << 10

// room makes sure that n more bytes fit, without moving those that are there.
func (o *Output) room(n int) {
	if cap(o.buf)-len(o.buf) < n {
		o.buf = make([]byte, 0, max(minOutput, 2*cap(o.buf), n))
	}
}

// maxKeptOutput is how much memory an Output keeps over a Reset.
const maxKeptOutput = 8 << 20

// Reset empties the output. What it held must not be used any more.
func (o *Output) Reset() {
	o.Rankings, o.DeadLetters = o.Rankings[:0], o.DeadLetters[:0]
	if o.buf = o.buf[:0]; cap(o.buf) > maxKeptOutput {
		o.buf = nil
	}
}

// keep copies b into the output's own memory.
func (o *Output) keep(b []byte) []byte {
	o.room(len(b))
	start := len(o.buf)
	o.buf = append(o.buf, b...)
	return o.buf[start:len(o.buf):len(o.buf)]
}

// Input is one record to step, with what is known about it.
type Input struct {
	Record *Record
	// Now is the present time. A time that lies ahead of both Now and Latest is not believed: it counts as Now.
	Now, Latest event.Millis
	// Read tells of which topics all was read that this record may wait for, as far as it is in the log.
	Read [event.Inputs]bool
	// ID is that of the record's key, where it has been worked out already; nil: it has not.
	ID *state.ID
	// Found is what a look-up showed under the record's id; nothing where nothing is stored, or where Resolve
	// said that none is needed. What the machine has changed since wins over it.
	Found Found
	// Decided is the decision that the log holds for this impression: it is adopted before any rule of the day.
	Decided *event.Ranking
	// RefusedEarlier says that an earlier owner went past this impression without ranking it: it is never ranked.
	RefusedEarlier bool
	// Again is the step of an earlier owner that took this record in, where the log shows it: what was decided by the clock
	// and the room of that moment is decided alike.
	Again *InputStep
}

// Wait says why a record cannot be stepped yet. Nothing has changed then, but for what was due anyway.
type Wait struct{ For string }

func (w *Wait) Error() string { return "partition: the record has to wait: " + w.For }

// Resolution says whether a record can be stepped without a look-up.
type Resolution uint8

const (
	// NeedsLookUp: what is stored under the id has to be looked up first.
	NeedsLookUp Resolution = iota
	// Known: what is stored under the id is in memory, or it is certain that nothing is.
	Known
)
