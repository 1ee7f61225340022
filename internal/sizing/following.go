package sizing

import (
	"math"
	"time"
)

// What following other partitions costs, and taking partitions over: BenchmarkFleet measures it. Times are of one processor, in
// microseconds.
const (
	readWorkerMicros  = 16.0  // of a worker, to ask whether a partition has published anything
	fieldMicros       = 0.7   // to read a published field
	takeMicros        = 0.4   // to tell it to what a process knows, or to a machine
	addMicros         = 0.009 // and for each partition that has told of the same item: they are added up anew
	wholeServerMicros = 0.6   // of Redis, to read an item of a partition with what it has taught, all at once
	wholeWorkerMicros = 2.2   // of the worker, likewise
	nameMicros        = 0.8   // to load the name of an item with a partition
	loadMicros        = 3.0   // and what is known of it
	knownMicros       = 0.6   // to learn of a known id
	wholeItem         = 100   // bytes of an item read whole, its name among them

	roundTrip     = 300e-6              // seconds between a worker and Redis and back, besides
	keptAtLeast   = 256                 // checkpoints in a partition's stream
	followAtLeast = 1. / readsPerSecond // seconds from one look at a partition's stream to the next
	keepUp        = 5.                  // seconds after which it looks at the known ones again while it reads others whole: stream/follow.go
)

// Following is what one worker does to know what all partitions have learned. It reads the streams one after the other, all partitions' in
// a round; what a stream no longer has it reads whole.
type Following struct {
	Read     float64       // bytes a second
	Cores    float64       // busy
	Round    time.Duration // in which it hears of each partition once
	One      time.Duration // in which it has read one partition whole, when it knows the others
	Whole    time.Duration // in which it has read everything there is, as when it starts
	WholeAll float64       // bytes of that
	Behind   time.Duration // in which it hears of each partition that it knows once, while it reads others whole
	Busy     time.Duration // in which one whole partition keeps its Redis from answering anybody else
	Kept     time.Duration // what streams reach back
}

// CatchesUp tells whether a worker that begins to follow ever comes to an end: while it reads others whole, no stream must forget what
// it goes on from.
func (f *Following) CatchesUp() bool { return f.Behind < f.Kept }

// Following is what a worker has to do.
func (w *Workload) Following() Following {
	if w.Partitions < 2 {
		return Following{Kept: math.MaxInt64}
	}
	facts := factsOf(w)
	partitions, items := float64(w.Partitions), float64(w.Items)*facts.known(w) // that are told of
	published := (w.published() - deltaBytes) / w.CheckpointInterval.Seconds() * partitions
	// A look waits for its partition, and works on what came since the last.
	waiting := partitions * (roundTrip + (readMicros+readWorkerMicros)/1e6)
	busy := w.fields() * (fieldMicros + w.take(partitions)) / 1e6
	idle := math.Max(0.01, 1-busy)
	round := math.Max(followAtLeast, waiting/idle)
	// To tell what a partition has learned takes the longer the more have told of the same items before.
	one := func(told float64) float64 {
		return roundTrip + items*(wholeWorkerMicros+wholeServerMicros+w.fieldsOfItem()*w.take(told))/1e6
	}
	last := one(partitions)
	between := math.Max(1, math.Ceil((keepUp-waiting)/last)) // partitions read whole
	return Following{
		Read:     published + partitions*deltaBytes/round,
		Cores:    partitions/round*readWorkerMicros/1e6 + busy,
		Round:    seconds(round),
		One:      seconds(last),
		Whole:    seconds(partitions * one(partitions/2)),
		WholeAll: partitions * items * wholeItem,
		Behind:   seconds((between*last + waiting) / idle),
		Busy:     seconds(items * wholeServerMicros / 1e6),
		Kept:     keptAtLeast * w.CheckpointInterval,
	}
}

// take are the microseconds in which a worker takes in one field of which so many partitions have told: once, or by each of its machines.
func (w *Workload) take(told float64) float64 {
	each := takeMicros + addMicros*told
	if !w.Learner.Shared {
		each *= float64(w.owned())
	}
	return each
}

// fieldsOfItem are those that a partition publishes of an item that was paid.
func (w *Workload) fieldsOfItem() float64 {
	n := 1.0
	if w.Learner.Ages {
		n++
	}
	if w.Learner.History {
		n++
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(math.Min(s, 1e9) * float64(time.Second)) }

// fields are what all partitions publish, a second.
func (w *Workload) fields() float64 {
	bySelection := 0.0
	if w.Learner.Ages {
		bySelection = 1
	}
	if w.Learner.Pairs {
		bySelection += 5
	}
	return w.selections()*bySelection + w.payoffs()*w.fieldsOfItem()
}

// Takeover is how long a partition that changes its owner stands still, what Kafka adds apart, and how long its impressions are looked up
// behind that until all ids are known.
func (w *Workload) Takeover() (still, known time.Duration) {
	ids, facts := w.IDs(), factsOf(w)
	return seconds(float64(w.Items) * (nameMicros + facts.known(w)*loadMicros) / 1e6), seconds(ids.All() / float64(w.Partitions) * knownMicros / 1e6)
}
