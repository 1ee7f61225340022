package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Config is the configuration of a Task. The zero value of a limit means its default.
type Config struct {
	Group         string
	Partition     int32
	TopicNames    [event.Topics]string
	HasSelections bool
	StartLatest   bool // a group that has never run begins at the end of the inputs
	// NewMachine makes an empty machine at each acquire, given the most bytes of a ranking record.
	NewMachine func(maxRankingBytes int) (*partition.Machine, error)

	SessionTimeout     time.Duration // the group's; a lower generation waits that long before it takes over
	CheckpointInterval time.Duration // the least time between two checkpoints; default 100 ms
	FenceInterval      time.Duration // how often the fence is repeated; default 6 h
	EpochLimit         int16         // from this epoch on a new producer id is requested; default 32,000
	MaxRecordBytes     int           // longer dead letters are cut off
	MaxUnsavedBytes    int64         // unsaved changes above which steps wait; default 64 MiB
	MaxUnsavedAge      time.Duration // likewise by age; default 60 s
	SegmentBytes       int64         // a segment is sealed at this size; default 4 MiB
	FetchBytes         int           // per topic and fetch; default 1 MiB
	BatchBytes         int           // of rankings in a batch, approximately; default and at most 900 KiB
	FetchWait          time.Duration // how long a fetch waits for a record; default 500 ms
	ClockBound         time.Duration // the most by which the worker's clock and Kafka's may differ; default 5 min
	// OrderUnknown means that the order of steps is unknown from the loaded state on, until a header restarts it.
	OrderUnknown bool
	// OneClock means that the worker's clock is Kafka's too: time is simulated.
	OneClock bool
	// AnyProducer accepts this group's decisions of every producer: for a rebuild from a log whose earlier producers are not known.
	AnyProducer bool
	StopRetry   time.Duration // pause before the first retry of a stopped partition; default 30 s
}

func (c *Config) defaults() {
	def(&c.SessionTimeout, 10*time.Second)
	def(&c.CheckpointInterval, 100*time.Millisecond)
	def(&c.FenceInterval, 6*time.Hour)
	def(&c.EpochLimit, 32_000)
	def(&c.MaxRecordBytes, 1<<20)
	def(&c.MaxUnsavedBytes, 64<<20)
	def(&c.MaxUnsavedAge, time.Minute)
	def(&c.SegmentBytes, 4<<20)
	def(&c.FetchBytes, 1<<20)
	def(&c.BatchBytes, maxBatchBytes)
	c.BatchBytes = min(c.BatchBytes, maxBatchBytes)
	def(&c.FetchWait, 500*time.Millisecond)
	def(&c.ClockBound, 5*time.Minute)
	def(&c.StopRetry, 30*time.Second)
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
