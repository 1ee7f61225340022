package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Config is what a task is made from. The zero value of a limit means its default.
type Config struct {
	Group         string
	Partition     int32
	TopicNames    [event.Topics]string
	HasSelections bool
	StartLatest   bool // where a group that has never run begins
	// NewMachine makes an empty machine. It is called at each acquire, with what one ranking record may take.
	NewMachine func(maxRankingBytes int) (*partition.Machine, error)

	SessionTimeout     time.Duration // the group's; a lower generation waits that long before it takes over
	CheckpointInterval time.Duration // the least time between two checkpoints; default 100 ms
	FenceInterval      time.Duration // how often the fence is repeated; default 6 h
	EpochLimit         int16         // from this epoch on, a new producer id is asked for; default 32,000
	MaxRecordBytes     int           // longer dead letters are cut off
	MaxUnsavedBytes    int64         // changes not yet checkpointed, above which reading stops; default 64 MiB
	MaxUnsavedAge      time.Duration // likewise by age; default 60 s
	SegmentBytes       int64         // a segment is sealed at this size at the latest; default 4 MiB
	FetchBytes         int           // asked for per topic and fetch; default 1 MiB
	BatchBytes         int           // of rankings in a batch, about; default and at most 900 KiB
	FetchWait          time.Duration // how long a fetch waits for a record; default 500 ms
	ClockBound         time.Duration // how far the worker's clock and Kafka's may be apart; default 5 min
	// Adrift says that steps cannot be followed from where the state stands, but only from where they say so themselves.
	Adrift bool
	// OneClock says that the worker's clock is Kafka's too: time is simulated.
	OneClock bool
	// AnyProducer takes decisions of this group from every producer. A state is made anew so, from a log whose earlier
	// producers are not known any more.
	AnyProducer bool
	StopRetry   time.Duration // after how long a stopped partition tries again for the first time; default 30 s
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
