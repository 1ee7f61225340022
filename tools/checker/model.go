package checker

import (
	"fmt"
	"math"
	"math/big"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// checker is the state of one Check.
type checker struct {
	opt     *Options
	cfg     *config.Config
	configs []*config.Config // all, the present one first
	broker  *broker.Client
	redis   *store
}

// fold reads one partition's topics and computes the expected state.
type fold struct {
	c     *checker
	p     int32
	state *state
	out   *findings

	parking struct{ least, most event.Millis } // of all configurations
	longest event.Millis                       // the longest time that anything is kept after its deadlines
	selects bool                               // there is a selections topic

	topics  [event.Inputs]topicFold
	ranked  rankingsLog
	formats event.Formats
	dec     *event.Decoder // with the largest limits of all configurations
	strict  *event.Decoder // with the smallest, if they differ; else nil
	imp     event.Impression
	sel     event.Selection
	pay     event.Payoff
	letters [event.Inputs][]int64 // offsets in dead letters, ascending

	watermark    event.Millis // event time when the current record was processed
	orderUnknown bool         // the order of records is not known
	resumed      event.Millis // the watermark when the order was last known again
	unordered    int64        // records processed without a known order
	partial      bool         // the order is never known: the log lacks its beginning, for example

	items    catalogue
	learners map[string]*learnerFold
	past     map[string][]*learnerFold // before resets, in order
	lives    map[string]*life
	drifted  map[uint64]event.Millis       // ids met while orderUnknown without a stored entry, by hash: until when they may have been known
	bounds   [event.Inputs][outcomes]bound // of the account
	crowded  [event.Inputs]int64           // records without room to be parked
	warmed   int64                         // payoffs of warm starts

	refs        [event.Topics]recordRef // scratch
	read        [event.Topics]int64
	lettersRead int64
	pending     int64
	sweepAt     int
	arms        map[armKey]*armFold
	held        int64 // the largest number of lives at once
	forgotten   int64
}

// topicFold is the progress in one input topic.
type topicFold struct {
	log  *topicLog
	on   bool
	from int64
	to   int64 // the checkpoint's offset
	skip int64 // records from before the group began
	last int64 // offset of the last record, -1: none
	seen int64 // of the last readable one
}

type recordRef struct {
	topic  event.Topic
	offset int64
	id     []byte
}

// catalogue numbers items, for the checker only.
type catalogue struct {
	numbers map[string]uint32
	names   []string
	stamp   []uint32 // by item: the epoch in which it was marked
	epoch   uint32
}

// noItem stands for a record without an item.
const noItem = math.MaxUint32

// learnerFold is a learner's expected state, and its stored one.
type learnerFold struct {
	name     string
	decided  []*config.Learner // by the configurations that have it, the present one first: a decision fits one of them
	variants []*config.Learner // those under which it has learned: all, unless it was reset
	reset    *history          // the reset that ended it; nil: it goes on
	always   bool              // all configurations have it
	unknown  bool              // its state cannot be computed
	loose    bool              // some impressions' ends are not known
	delay    string            // the present one
	given    bool              // all configurations give utilities
	windows  []float64         // see windowsOf; nil: not known
	ranks    bool              // its learning depends on the order of utilities

	items       []itemFold // by the fold's number
	instances   map[int32]*instanceFold
	intervals   map[string]int64    // selections, by their interval of the user's window
	anyInterval int64               // selections with an unknown interval
	pairs       map[[2]uint32]int64 // selections of the first item below the second
	against     map[[2]uint32]int64 // those of them that contradict a certain order
	rated       map[uint32]*moments // estimates of utilities with selections, by item
	silence     *silenceFold        // nil: not determined
	drift       *driftFold          // likewise
	recency     *recencyFold        // likewise
	context     *contextFold        // likewise
	attraction  map[uint32][]ending // by the item on top; nil: not determined
	kept        *keptFold           // nil: its items are kept for ever
	imported    *storedLearner      // imported values; nil: none

	stored storedLearner
	// Stored pending impressions, and those with a selection of an item that has not ended.
	pending struct{ all, selected []*entry }
}

// itemFold is an item's expected state.
type itemFold struct {
	shown   bool
	ended   int64 // it ended after the impressions below this offset; 0: never
	unknown bool  // see learnerFold.loose
	n       int64
	sum, sq float64    // normalised
	queue   *queueFold // if Redis has a queue of it
}

// life is the expected state of an impression id.
type life struct {
	open  bool         // a record of it was processed in unknown order: any outcome is possible
	until event.Millis // if open: time of its last record

	kind     kind // 0 and waiting: no impression; pending; closed
	offset   int64
	learner  *learnerFold
	instance int32
	began    event.Millis

	hasSelection bool
	selDeadline  event.Millis
	payDeadline  event.Millis
	items        []uint32 // in the order shown
	propensities []float64
	expected     []float64
	ranks        []int32 // utility ranks by position, if the learner depends on them or found them
	undecided    []int32 // the uncertain ones; 0 alone: the order is a guess
	recorded     bool    // ranks come from the decision
	ordered      bool    // the candidates' order of utility is known

	selected    int                                // position, -1: none
	ends        fate                               // its possible ends
	wasSelected bool                               // of a closed one
	kept        struct{ least, most event.Millis } // of a closed one: bounds of the time until which it is remembered
	sum         float64
	count       int64
	events      map[uint64]struct{}

	waits []record // parked, in order of arrival

	steps [][]int8 // steps of user and item, by position shown; nil: not known

	trialUnit
	paid float64 // if a payoff ended it: normalised
}

// trialUnit is an impression's part in an experiment.
type trialUnit struct {
	arm       armKey // the zero value: none
	covariate int32  // in units of 10⁻⁶
}

func (u *trialUnit) z() float64 { return float64(u.covariate) / 1e6 }

// record is a selection or payoff without a fault of its own.
type record struct {
	topic     event.Topic
	offset    int64
	item      uint32
	value     float64 // the payoff, or a selection's estimate of the utility
	event     uint64  // hash of the event id; 0: none
	effective event.Millis
	since     event.Millis // if it waits: since when
	hash      uint64       // of its value

	hasUtility, crowded bool
	byUtility           bool // a selection of candidates shown by utility
	refusable           bool // see fold.refusable
}

// storedLearner is a learner's stored state.
type storedLearner struct {
	items       map[string]storedItem
	names       map[int64]string // by number
	numbers     map[int64]uint32 // of the fold, by number
	next        int64            // the next new item's number
	queues      map[int64]*storedQueue
	flights     map[int64]int64
	spans       map[int64][]storedSpan // of these, in order of time
	settled     map[int64]settledCounts
	ages        map[ageCell]int64 // payoffs
	newest      int64             // end of the pass of its newest payoff
	since       *int64            // start of its earliest bucket; nil before the first
	open        map[int64]openParts
	pass        int64 // of selections in flight
	history     map[int64]map[inflight.Bucket]paidRow
	recency     map[int64]map[inflight.Bucket]recentRow
	levels      map[inflight.Bucket]surpriseRow
	attraction  map[int64]endings
	falls       storedFalls
	recentPass  int64  // pass of the newest selection that was paid
	faded       int64  // pass up to which old payoffs have lost weight
	estimated   *int64 // pass of the estimates; nil: none
	hold        string
	outstanding map[int64]int64
	rounds      map[string]int64
	vectors     map[string]map[uint32]float64 // by instance, as named in rounds, and coordinate
	blocks      map[string]int64              // of those
	windows     map[string]int64
	pairs       map[[2]uint32]int64 // by the numbers of the better and the worse item
	against     map[[2]uint32]int64 // those of them against a certain order
	rated       map[uint32]moments  // by item number
	cells       map[cellAt]storedCell
	categories  map[int64]category // by item number
	met         map[int64]int64    // likewise
	linear      []*big.Int
}

type storedItem struct {
	number  int64
	n       int64
	sum, sq float64
	until   int64
}

// state is a partition's parsed state. Unparsable parts are violations, and left out.
type state struct {
	writer    string // token of the last checkpoint's writer
	seq       int64
	inputs    [event.Inputs]cut
	rankings  cut
	steps     string               // since the last ranking; empty: no checkpoint yet
	orders    int64                // number of the last order record
	producers []int64              // of owners
	skipped   [event.Inputs][]span // by commands
	watermark event.Millis
	floor     int64 // first bucket of the expiry index that is not closed
	account   map[string]int64
	shares    map[string]int64 // sums of the learners' accounts
	history   []history
	learners  []string          // by number
	next      map[string]int64  // by learner: the next new item's number, if there are gaps below it
	kept      map[string]int64  // by learner with retention: until when items are kept that were stored before any ended
	entries   map[string]*entry // by storedID of the impression's id
	pages     map[string]int64  // buckets of the listed pages, by number
	stored    []storedEntry     // until all are read
	hashes    map[string]map[string]string
	deltas    []any
	complete  bool // every entry could be read
}

// cut is a topic's position, with the witness: the last record read.
type cut struct {
	offset  int64
	witness witness
}

type witness struct {
	offset    int64 // -1: none
	timestamp int64
	hash      uint64
}

var roles = [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}

func (c *catalogue) intern(name []byte) uint32 {
	if n, ok := c.numbers[string(name)]; ok {
		return n
	}
	n := uint32(len(c.names))
	s := string(name)
	c.numbers[s] = n
	c.names = append(c.names, s)
	c.stamp = append(c.stamp, 0)
	return n
}

func (c *catalogue) name(n uint32) string {
	if int(n) < len(c.names) {
		return c.names[n]
	}
	return "(none)"
}

// normalise maps a payoff from raw units to [0,1].
func normalise(l *config.Learner, raw float64) float64 {
	low, high := l.PayoffRange.Min, l.PayoffRange.Max
	switch {
	case raw <= low:
		return 0
	case raw >= high:
		return 1
	}
	return math.Min(math.Max((raw-low)/(high-low), 0), 1)
}

// name returns an item's name by its number.
func (s *storedLearner) name(number int64) string {
	if name, ok := s.names[number]; ok {
		return name
	}
	return fmt.Sprintf("number %d", number)
}

// fold returns the fold's number of an item by its stored number.
func (s *storedLearner) fold(number uint32) uint32 {
	if n, ok := s.numbers[int64(number)]; ok {
		return n
	}
	return noItem
}

// number returns the fold's number of an item by its stored number; noItem if there is none.
func (lf *learnerFold) number(stored int32) uint32 {
	if stored < 0 {
		return noItem
	}
	return lf.stored.fold(uint32(stored))
}

type storedEntry struct{ id, page, value string }

// The values of a learner's delay.
const (
	delayQPMD   = "qpmd"
	delayBOLD   = "bold"
	delayDirect = "direct"
)

// fate is a set of possible outcomes of a record: several if the outcome depends on the interleaving of the topics.
type fate uint8

// outcomes is the largest number of outcomes of a topic.
const outcomes = 7

func (lf *learnerFold) item(i uint32) *itemFold {
	for int(i) >= len(lf.items) {
		lf.items = append(lf.items, itemFold{})
	}
	return &lf.items[i]
}

// hasEnded reports whether the item of an entry's number was dropped, which requires the entry's payoff deadline to be past.
func (lf *learnerFold) hasEnded(f *fold, number int32, e *entry) bool {
	return lf.kept != nil && lf.number(number) == noItem && int64(number) < lf.stored.next && f.state.watermark > e.payDeadline
}

// at names a record; the next call for the topic overwrites it.
func (f *fold) at(t event.Topic, offset int64, id []byte) *recordRef {
	f.refs[t] = recordRef{t, offset, id}
	return &f.refs[t]
}

// neverPaid stands for the delay of a payoff that never came.
const neverPaid = -1

// partUnits make a normalised payoff of 1, for partial payoffs.
const partUnits = 1 << 30

func inParts(x float64) int64 { return int64(math.Round(x * partUnits)) }

// compareEach compares values by item or instance; zero values are not stored.
func compareEach[K, V comparable](lf *learnerFold, f *fold, by law, want, got map[K]V, name func(K) string) {
	if !lf.always {
		f.out.open(by)
		return
	}
	for k := range either(want, got) {
		equal(f.out, by, lf.name+": "+name(k), want[k], got[k])
	}
}

// determined reports whether a learner's values follow from the topics. Else laws are open.
func (lf *learnerFold) determined(f *fold, known bool, laws ...law) bool {
	if known && !f.partial && !lf.unknown {
		return true
	}
	for _, l := range laws {
		f.out.open(l)
	}
	return false
}

// doubtful reports whether an item's statistics are not known.
func (lf *learnerFold) doubtful(item uint32) bool {
	return int(item) < len(lf.items) && lf.items[item].unknown
}

// certain returns the items of two maps whose statistics are known. Others are open.
func certain[A, B any](f *fold, lf *learnerFold, by law, want map[uint32]A, got map[uint32]B) (items []uint32) {
	for item := range either(want, got) {
		if lf.doubtful(item) {
			f.out.open(by)
		} else {
			items = append(items, item)
		}
	}
	return items
}

// byFold returns values by the fold's number of their item.
func byFold[K int64 | uint32, V any](s *storedLearner, stored map[K]V) map[uint32]V {
	all := make(map[uint32]V, len(stored))
	for number, v := range stored {
		all[s.fold(uint32(number))] = v
	}
	return all
}

// made returns a value of a map, which it makes if need be.
func made[K comparable, V any](all *map[K]*V, key K) *V {
	if (*all)[key] == nil {
		put(all, key, new(V))
	}
	return (*all)[key]
}
