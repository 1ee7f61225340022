package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Record is one input record read from Kafka.
type Record struct {
	Topic      event.Topic
	Offset     int64
	Timestamp  event.Millis // Kafka's; -1: none
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

// Elsewhere lists learners of the group's other workers. A record for a learner unknown here waits if another worker has it, or may have
// it.
type Elsewhere struct {
	Learners map[string]bool // names of other workers' learners
	Partial  bool            // not all workers have announced theirs yet
}

// mayKnow returns a Wait if another worker has the learner, or may have it.
func (e *Elsewhere) mayKnow(name string) error {
	switch {
	case e.Learners[name]:
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here, but it is at another worker of the group", name)}
	case e.Partial && name != "":
		return &Wait{For: fmt.Sprintf("learner %.64q is not configured here; other workers of the group have some seconds to announce it", name)}
	}
	return nil
}

// Found is the result of a look-up: the stored value and its page. The zero value means that nothing is stored.
type Found struct {
	Page  uint32
	Value []byte
}

// InputStepKind is the kind of an InputStep.
type InputStepKind uint8

const (
	StepTake      InputStepKind = iota // N records of Topic were stepped
	StepWatermark                      // the watermark rose by By milliseconds
	StepRead                           // all records below Offsets were stepped, and event time is at Watermark
)

// InputStep is one step, or a run of equal ones.
type InputStep struct {
	Kind  InputStepKind
	Topic event.Topic
	N     int64
	// Crowded marks a single record that found no room to be parked. Timed marks one whose effective time was the watermark plus By.
	Crowded, Timed bool
	By             int64
	Offsets        [event.Inputs]int64
	Watermark      event.Millis
}
