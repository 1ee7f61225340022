package sizing

import (
	"math"
	"math/bits"
)

// Unit costs. Tests measure these constants and print the result: TestRedis (bytes in Redis, of records, of deltas), TestMachine
// (bytes of the worker), and the benchmarks of scale_test.go (times).

// Bytes of a stored entry.
const (
	undecidedEntry   = 16 // of an impression that waits, its candidates apart
	selectedEntry    = 14 // once something is selected: of the candidates the item alone is left
	endedEntry       = 2  // of one that has ended
	propensityBytes  = 8  // of each candidate
	expectedBytes    = 3  // likewise; the selected one keeps its own alone
	undecidedBytes   = 8  // of an order that is still being found
	leaderBytes      = .1 // of each candidate, where of the order of utilities the leaders alone are kept
	summedEntryBytes = 18 // the sum so far, and one event
)

// Bytes in Redis 7, besides those of keys' and fields' contents.
const (
	idBytes      = 16  // of an id
	compactBytes = 10  // of an entry in a page that is compact, and of its part of the page; it is where no entry has more than
	compactValue = 512 // bytes, with the setting that docs/do/redis.md names
	looseBytes   = 120 // of one in another

	namedBytes   = 5   // of an item in a partition, besides its name
	itemBytes    = 125 // and of its row, if it was ever selected, besides its name once more
	agesBytes    = 54  // and of how often it was paid, and not, once it was selected
	flightBytes  = 30  // and of its selections in flight
	topBytes     = 59  // and of the impressions that had it on top
	historyBytes = 110 // and of its history, besides the blocks
	blockBytes   = 28  // of one
	pairBytes    = 82  // of two items that were compared
	metaBytes    = 5000

	deltaEntries     = 275 // checkpoints that the stream for other partitions holds: it is asked for 256, and cuts off whole nodes
	deltaBytes       = 110 // of an empty one
	publishedFlight  = 31  // of a selection, with silence: ages
	publishedTop     = 12  // and of the item on top, or of the same of an impression without a selection
	publishedPairs   = 262 // and where pairs are compared
	publishedItem    = 80  // of a payoff; some 10 less where items do not end
	publishedSettled = 47  // and with silence: ages
	publishedHistory = 124 // and of an item's history
)

// historyBlocks bounds an often paid item's buckets: six per octave of age.
const historyBlocks = 60

// Bytes of a worker.
const (
	idleBytes      = 60 << 20 // of a worker without partitions
	partitionBytes = 6 << 20  // of a partition's records read ahead and not yet saved
	knownBytes     = 18       // of an id under which something is stored
	nameBytes      = 40       // of an item in the process, besides its name
	metBytes       = 20       // of one in a partition
	paidBytes      = 15       // and where it is paid, once the process has read its partition's publication
	freshBytes     = 135      // and before, or if the process reads nothing
	historyMemory  = 42       // and of a block of its history
	wholeBytes     = 400      // of an item that several partitions have published
	sourceBytes    = 44       // and of each partition's statistics of it
	sourceBlock    = 44       // of a block of either
	packedRest     = 10       // and where its history is packed
	packedApart    = 24       // of a history whose blocks are packed, besides these
	packedBlock    = 14       // of one, of payoffs that are no whole numbers
)

// Microseconds of one core, as measured by the reports of docs/contribute/benchmarks.md.
const (
	impressionMicros = 4.0  // besides the candidates
	candidateMicros  = 0.3  //
	eventMicros      = 18.0 // a selection, or a payoff
	fewItems         = 2_000
	tenfold          = 0.12 // by which it is longer with ten times the items
	redisMicros      = 2.0  // Redis's, of an impression
	redisEventMicros = 8.0  // of a selection or a payoff: its look-up, and its changes
	readMicros       = 12.0 // of an attempt to read another partition's deltas
)

// The worker's idle work each second.
const (
	readsPerSecond  = 4   // of each partition's stream, by each worker
	probesPerSecond = 2   // of each partition: its fence and Redis' settings
	walksPerSecond  = 0.2 // of each partition, over deadlines
	lookUpsAtMost   = 500 // of each partition and topic: more records share one
)

// packedNumber returns the bytes of a number below numbers, packed to the bits of the largest.
func packedNumber(numbers int) float64 { return float64(max(1, bits.Len(uint(numbers-1)))) / 8 }

func (w *Workload) entries() (undecided, selected, ended float64) {
	number := packedNumber(w.Items)
	each := number
	l := &w.Learner
	if l.Propensities {
		each += propensityBytes
	}
	rest := 0.0
	switch {
	case l.Whole:
		each += packedNumber(w.Candidates)
	case l.Ranks || l.Tops && w.SelectionTimeout > 0:
		rest = float64(w.Candidates) * leaderBytes
	}
	if l.Undecided {
		rest += undecidedBytes
	}
	candidates := float64(w.Candidates)
	undecided, selected = undecidedEntry+candidates*each+rest, selectedEntry
	if l.Propensities {
		selected += propensityBytes
		if !l.Expected { // ftrl and osmd store the ranking shown
			selected += (number + packedNumber(w.Candidates)) * candidates
		}
	}
	if l.Expected {
		undecided += expectedBytes * candidates
		selected += expectedBytes
	}
	if l.Sum {
		selected += summedEntryBytes
	}
	return undecided, selected, endedEntry
}

// growth is the factor by which more items slow an impression down, since their statistics leave the processor's cache.
func growth(items int) float64 { return 1 + tenfold*math.Max(0, math.Log10(float64(items)/fewItems)) }
