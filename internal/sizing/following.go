package sizing

import (
	"math"
	"time"
)

// Costs of following and taking over partitions, measured by BenchmarkFleet. Times are microseconds of one core.
const (
	readWorkerMicros  = 16.0  // of a worker, to ask whether a partition has published anything
	fieldMicros       = 0.7   // to read a published field
	takeMicros        = 0.4   // to apply it to the process's pooled state, or to a machine
	addMicros         = 0.009 // and for each partition that has published the same item: they are summed again
	wholeServerMicros = 0.6   // of Redis, to read an item of a partition with its statistics, all at once
	wholeWorkerMicros = 2.2   // of the worker, likewise
	wholeItem         = 100   // bytes of an item read whole, its name among them

	roundTrip     = 300e-6              // seconds between a worker and Redis and back, besides
	keptAtLeast   = 256                 // checkpoints in a partition's stream
	followAtLeast = 1. / readsPerSecond // seconds from one look at a partition's stream to the next
	keepUp        = 5.                  // seconds after which it looks at the known ones again while it reads others whole: stream/follow.go
)

// Following is one worker's work to follow all partitions' deltas in rounds. A trimmed stream makes it read the whole state.
type Following struct {
	Read     float64       // bytes a second
	Cores    float64       // busy
	Round    time.Duration // of one look at each partition
	One      time.Duration // to read one partition's whole state, knowing the others
	Whole    time.Duration // to read all states, as at the start
	WholeAll float64       // bytes of these
	Behind   time.Duration // of one look at each known partition, while it reads others whole
	Busy     time.Duration // of Redis blocked by one whole state
	Kept     time.Duration // time that the streams cover
}

// CatchesUp returns whether a starting worker ever catches up: while it reads other states, no stream may drop deltas behind them.
func (f *Following) CatchesUp() bool { return f.Behind < f.Kept }

func (w *Workload) Following() Following {
	if w.Partitions < 2 {
		return Following{Kept: math.MaxInt64}
	}
	partitions, items := float64(w.Partitions), float64(w.Items)*w.known() // with published statistics
	published := (w.published() - deltaBytes) / w.CheckpointInterval.Seconds() * partitions
	// A look waits for its partition, and then applies new deltas.
	waiting := partitions * (roundTrip + (readMicros+readWorkerMicros)/1e6)
	busy := w.fields() * (fieldMicros + w.take(partitions)) / 1e6
	idle := math.Max(0.01, 1-busy)
	round := math.Max(followAtLeast, waiting/idle)
	// Statistics take longer to apply if more partitions have published the same items.
	one := func(publishers float64) float64 {
		return roundTrip + items*(wholeWorkerMicros+wholeServerMicros+w.fieldsOfItem()*w.take(publishers))/1e6
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

// take returns the microseconds to apply one published field.
func (w *Workload) take(publishers float64) float64 { return takeMicros + addMicros*publishers }

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

// fields returns the number of fields published per second by all partitions.
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
