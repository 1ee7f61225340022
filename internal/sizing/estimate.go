package sizing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/garbage"
)

// Part is a summand.
type Part struct {
	Name    string
	Amount  float64
	Formula string // factors of Amount, for people
	Setting string // setting that reduces it, for people; may be empty
}

type Sum []Part

func (s Sum) Total() (total float64) {
	for i := range s {
		total += s[i].Amount
	}
	return total
}

// Largest returns the largest part; s must not be empty.
func (s Sum) Largest() *Part {
	largest := &s[0]
	for i := range s {
		if s[i].Amount > largest.Amount {
			largest = &s[i]
		}
	}
	return largest
}

// Estimate holds the resources that a workload needs.
type Estimate struct {
	IDs      IDs
	Redis    Sum // bytes, of all partitions
	Worker   Sum // bytes, of the worker with the most partitions
	Kafka    Sum // bytes a day, of one uncompressed copy
	Commands Sum // per second, sent to Redis; a script is one
	Cores    Sum // of all workers, busy
	Server   Sum // cores of Redis, busy
	Warnings []string
}

// paidWithin bounds the time over which paid items accumulate.
const paidWithin = 365 * 24 * time.Hour

// NewEstimate returns the estimate of a valid workload.
func NewEstimate(w *Workload) *Estimate {
	f := factsOf(w)
	e := &Estimate{IDs: f.ids}
	e.redis(w, &f)
	e.worker(w, &f)
	e.kafka(w)
	e.load(w)
	e.warn(w)
	return e
}

type facts struct {
	ids IDs
	// By item and partition, so far.
	payoffs float64
}

func factsOf(w *Workload) facts {
	return facts{ids: w.IDs(), payoffs: w.payoffs() * paidWithin.Seconds() / float64(w.Partitions) / float64(w.Items)}
}

func (f *facts) of(partitions int) facts {
	return facts{ids: f.ids, payoffs: f.payoffs * float64(partitions)}
}

// paid returns the share of items with payoffs in a partition, at random arrivals.
func (f *facts) paid() float64 { return 1 - math.Exp(-f.payoffs) }

// known returns the share of items for which a partition publishes statistics: those ever selected, by a payoff where there is no topic of
// selections.
func (w *Workload) known() float64 {
	selected := w.selections()
	if w.SelectionTimeout == 0 {
		selected = w.payoffs()
	}
	return 1 - math.Exp(-selected*paidWithin.Seconds()/float64(w.Partitions)/float64(w.Items))
}

// blocks returns an item's mean number of history buckets in a partition.
func (f *facts) blocks() float64 { return math.Min(historyBlocks, f.payoffs) }

// awaited returns the share of items with a selection in flight in a partition.
func (f *facts) awaited(w *Workload) float64 {
	return 1 - math.Exp(-f.ids.Selected/float64(w.Partitions)/float64(w.Items))
}

// counted formats a number of things, in full below a million.
func counted(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f billion", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f million", n/1e6)
	case n >= 10 || n == math.Trunc(n):
		return config.Grouped(int64(math.Round(n)))
	}
	return fmt.Sprintf("%.1f", n)
}

// recordBytes returns an entry's bytes in Redis, with its id and its share of a page.
func recordBytes(value float64) float64 {
	if value > compactValue {
		return idBytes + value + looseBytes
	}
	return idBytes + value + compactBytes
}

func (e *Estimate) redis(w *Workload, f *facts) {
	undecided, selected, ended := w.entries()
	ids := func(name string, n, value float64, setting string) {
		each := recordBytes(value)
		e.Redis = append(e.Redis, Part{name, n * each, fmt.Sprintf("%s × %.0f bytes", counted(n), each), setting})
	}
	timeout := "selection_timeout"
	if w.SelectionTimeout == 0 {
		timeout = "payoff_horizon, or a selections topic"
	}
	ids("impressions, undecided", e.IDs.Undecided, undecided, timeout)
	ids("impressions, selected from", e.IDs.Selected, selected, "payoff_horizon")
	remembers := "join.remember"
	if w.Remember == config.UntilHorizon {
		remembers = "payoff_horizon, or a duration as join.remember"
	}
	ids("impressions, ended", e.IDs.Ended, ended, remembers)

	partitions, items := float64(w.Partitions), float64(w.Items)
	inEach := func(name string, each float64, setting string) {
		e.Redis = append(e.Redis, Part{name, partitions * items * each,
			fmt.Sprintf("%s × %s × %.0f bytes", several(w.Partitions, "partition"), counted(items), each), setting})
	}
	inEach("items", storedItemBytes(w), "fewer partitions, or items")
	inEach("items' statistics", taughtBytes(w, f), "fewer partitions, or items")
	if w.Learner.Pairs {
		pairs := items * math.Log2(math.Max(2, items))
		e.Redis = append(e.Redis, Part{"pairs of items", partitions * pairs * pairBytes,
			fmt.Sprintf("%s × %s × %d bytes", several(w.Partitions, "partition"), counted(pairs), pairBytes), "utilities: given"})
	}
	inStream := deltaEntries * w.published()
	e.Redis = append(e.Redis, Part{"streams for other partitions", partitions * inStream,
		fmt.Sprintf("%s × %d × %s", several(w.Partitions, "partition"), deltaEntries, Bytes(w.published())), "fewer partitions"})
	e.Redis = append(e.Redis, Part{"the rest", partitions * metaBytes, fmt.Sprintf("%s × %s", several(w.Partitions, "partition"), Bytes(metaBytes)), "fewer partitions"})
}

// storedItemBytes returns an item's bytes in Redis in a partition: its name, and its row if it was ever selected.
func storedItemBytes(w *Workload) float64 {
	return namedBytes + float64(w.ItemBytes) + w.known()*(itemBytes+float64(w.ItemBytes))
}

// taughtBytes returns the bytes in Redis of a partition's statistics of an item.
func taughtBytes(w *Workload, f *facts) (each float64) {
	if w.Learner.Ages {
		each += agesBytes*f.paid() + flightBytes*f.awaited(w)
	}
	if w.Learner.Tops {
		each += topBytes
	}
	if w.Learner.History {
		each += historyBytes*f.paid() + blockBytes*f.blocks()
	}
	return each
}

// published returns the bytes of one entry of a partition's stream.
func (w *Workload) published() float64 {
	each := w.selections()*w.publishedBySelection() + w.payoffs()*w.publishedByPayoff()
	if w.Learner.Tops {
		each += (w.Rate - w.selections()) * publishedTop
	}
	return deltaBytes + each/float64(w.Partitions)*w.CheckpointInterval.Seconds()
}

func (w *Workload) publishedBySelection() (bytes float64) {
	if w.Learner.Ages {
		bytes += publishedFlight
	}
	switch {
	case w.Learner.Tops && w.Learner.Ranks: // drawn rankings: many selections are of the next leader, which count nothing
		bytes += publishedTop / 2
	case w.Learner.Tops:
		bytes += publishedTop
	}
	if w.Learner.Pairs {
		bytes += publishedPairs
	}
	return bytes
}

func (w *Workload) publishedByPayoff() float64 {
	bytes := float64(publishedItem)
	if w.Learner.Ages {
		bytes += publishedSettled
	}
	if w.Learner.History {
		bytes += publishedHistory
	}
	return bytes
}

// mostIDs returns the setting that changes the most numerous kind of ids, which are Redis's first parts.
func (e *Estimate) mostIDs() string {
	n := []float64{e.IDs.Undecided, e.IDs.Selected, e.IDs.Ended}
	return e.Redis[slices.Index(n, slices.Max(n))].Setting
}

func (e *Estimate) worker(w *Workload, f *facts) {
	owned, items := float64(w.owned()), float64(w.Items)
	add := func(name string, amount float64, setting, format string, args ...any) {
		e.Worker = append(e.Worker, Part{name, amount, fmt.Sprintf(format, args...), setting})
	}
	add("the process", idleBytes+owned*partitionBytes, "more workers", "%s + %s × %s", Bytes(idleBytes), several(w.owned(), "partition"), Bytes(partitionBytes))
	ids := e.IDs.All() * owned / float64(w.Partitions)
	add("known ids", ids*knownBytes, e.mostIDs()+", or more workers", "%s × %d bytes", counted(ids), knownBytes)
	add("items' names", items*float64(nameBytes+w.ItemBytes), "fewer items", "%s × %d bytes", counted(items), nameBytes+w.ItemBytes)
	each := w.metMemory() + w.taughtMemory(f)
	if w.Partitions == 1 {
		each += w.freshMemory(f)
	}
	add("items", owned*items*each, "more workers, or fewer items", "%s × %s × %.0f bytes", several(w.owned(), "partition"), counted(items), each)
	e.addPublished(w, f)
	live := e.Worker.Total()
	waits := float64(garbage.Bytes(uint64(live)))
	add("garbage", waits, "GOGC", "%.0f%% of the above", 100*waits/live)
}

// addPublished adds the memory of all partitions' statistics, once per process.
func (e *Estimate) addPublished(w *Workload, f *facts) {
	sources := w.Partitions
	if w.Partitions == 1 {
		sources = 0 // no other partition publishes
	}
	all := f.of(sources)
	whole, published := w.wholeMemory(&all), w.publishedMemory(f)
	e.Worker = append(e.Worker, Part{"pooled statistics", float64(w.Items) * (whole + float64(sources)*published),
		fmt.Sprintf("%s × (%.0f + %s × %.0f bytes)", counted(float64(w.Items)), whole, several(sources, "partition"), published), "fewer partitions, or items"})
}

// Bytes of records in Kafka, as JSON with short numbers.
const (
	impressionRecord = 85 // besides the id, in key and value, and the candidates
	candidateRecord  = 28 // besides the name
	rankingRecord    = 330
	rankedRecord     = 3  // besides the name
	drawnRecord      = 20 // and with propensities
	expectedRecord   = 5  // and with expected payoffs
	orderRecord      = 4  // and where the order of utilities is found
	selectionRecord  = 75
	payoffRecord     = 70
)

func (e *Estimate) kafka(w *Workload) {
	const day = 24 * 60 * 60
	add := func(name string, rate, each float64) {
		e.Kafka = append(e.Kafka, Part{name, rate * day * each, fmt.Sprintf("%s × %.0f bytes", counted(rate*day), each), "kafka.formats: protobuf, or retention"})
	}
	id, candidates, name := float64(w.IDBytes), float64(w.Candidates), float64(w.ItemBytes)
	add("impressions", w.Rate, impressionRecord+2*id+candidates*(candidateRecord+name))
	ranked := rankedRecord + name
	if w.Learner.Propensities {
		ranked += drawnRecord
	}
	if w.Learner.Expected {
		ranked += expectedRecord
	}
	if w.Learner.Ranks {
		ranked += orderRecord
	}
	add("rankings", w.Rate, rankingRecord+2*id+candidates*ranked)
	e.Kafka[1].Setting = "retention"
	add("selections", w.selections(), selectionRecord+2*id+name)
	add("payoffs", w.payoffs(), payoffRecord+2*id)
}

func (e *Estimate) load(w *Workload) {
	partitions, workers := float64(w.Partitions), float64(w.Workers)
	events := w.selections() + w.payoffs()
	add := func(name string, amount float64, setting, format string, args ...any) {
		e.Commands = append(e.Commands, Part{name, amount, fmt.Sprintf(format, args...), setting})
	}
	perSecond := 1 / w.CheckpointInterval.Seconds()
	saved := math.Min(perSecond, (w.Rate+events)/partitions)
	add("checkpoints", partitions*saved, "limits.checkpoint_interval", "%s × %s", several(w.Partitions, "partition"), counted(saved))
	lookUps := math.Min(events, 2*lookUpsAtMost*partitions)
	add("look-ups", lookUps, "", "one for each selection and payoff, or fewer")
	following, reads := w.Following(), 0.0
	if w.Partitions > 1 {
		reads = workers * partitions / following.Round.Seconds()
	}
	add("reading of others' streams", 4*reads, "fewer workers, or partitions", "%s × %s × %.1f × 4 commands", several(w.Workers, "worker"), several(w.Partitions, "partition"),
		1/math.Max(followAtLeast, following.Round.Seconds()))
	add("deadlines and probes", partitions*(probesPerSecond+walksPerSecond), "fewer partitions", "%s × %.1f", several(w.Partitions, "partition"), probesPerSecond+walksPerSecond)

	each := (impressionMicros + candidateMicros*float64(w.Candidates)) * growth(w.Items)
	e.Cores = Sum{
		{"impressions", w.Rate * each / 1e6, fmt.Sprintf("%s × %.0f µs", counted(w.Rate), each), "fewer candidates"},
		{"selections and payoffs", events * eventMicros / 1e6, fmt.Sprintf("%s × %.0f µs", counted(events), eventMicros), ""},
		{"following other partitions", workers * following.Cores, fmt.Sprintf("%s × %.2f", several(w.Workers, "worker"), following.Cores), "fewer partitions, or workers"},
	}
	e.Server = Sum{
		{"impressions", w.Rate * redisMicros / 1e6, fmt.Sprintf("%s × %.1f µs", counted(w.Rate), redisMicros), ""},
		{"selections and payoffs", events * redisEventMicros / 1e6, fmt.Sprintf("%s × %.1f µs", counted(events), redisEventMicros), ""},
		{"reading of others' streams", reads * readMicros / 1e6, fmt.Sprintf("%s × %.0f µs", counted(reads), readMicros), "fewer workers, or partitions"},
	}
}

// mostOfCore is the largest mean load of a core by a partition or a Redis; bursts and takeovers come on top.
const mostOfCore = 0.5

func (e *Estimate) warn(w *Workload) {
	warn := func(format string, args ...any) { e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...)) }
	if c := e.Cores.Total() / float64(w.Partitions); c > mostOfCore {
		warn("a partition needs %.1f cores, and has one: at least %s partitions", c, counted(math.Ceil(e.Cores.Total()/mostOfCore)))
	}
	if c := e.Server.Total(); c > mostOfCore {
		warn("Redis needs %.1f cores, and a server has one: a cluster of at least %s", c, counted(math.Ceil(c/mostOfCore)))
	}
	if published := w.published(); published > maxDelta {
		warn("a checkpoint publishes %s, above %s: other partitions read all again each time. More partitions", Bytes(published), Bytes(maxDelta))
	}
	if f := w.Following(); !f.CatchesUp() {
		warn("a worker that starts reads each partition's statistics, whole. That takes up to %.1f s for one, so that it reads the others' changes once "+
			"in %.0f s, and their streams reach back %.0f s: it never comes to an end. Fewer items, or partitions", f.One.Seconds(), f.Behind.Seconds(), f.Kept.Seconds())
	} else if f.Busy > mostBusy {
		warn("a worker that starts reads each partition whole, which keeps Redis busy for %.1f s each time. Fewer items", f.Busy.Seconds())
	}
}

// mostBusy is the longest time that one request may block Redis.
const mostBusy = 500 * time.Millisecond

// maxDelta is redisstore.MaxDeltaBytes.
const maxDelta = 256 << 10

// metMemory returns a worker's bytes for an item in a partition without statistics of it.
func (w *Workload) metMemory() float64 { return metBytes }

func (w *Workload) taughtMemory(f *facts) float64 {
	each := paidBytes * f.paid()
	switch {
	case !w.Learner.History:
	case w.Learner.Packed:
		each += packedRest * f.paid()
	default:
		each += historyMemory * f.blocks()
	}
	return each
}

// freshMemory returns the additional bytes of an item whose statistics the process has not read from a publication.
func (w *Workload) freshMemory(f *facts) float64 {
	each := freshBytes * f.paid()
	if w.Learner.Packed {
		each += w.blocksMemory(f)
	}
	return each
}

func (w *Workload) wholeMemory(f *facts) float64 { return wholeBytes*f.paid() + w.blocksMemory(f) }

// publishedMemory returns the bytes of one partition's statistics of a published item.
func (w *Workload) publishedMemory(f *facts) float64 { return sourceBytes*f.paid() + w.blocksMemory(f) }

// blocksMemory returns the bytes of the buckets of a published history.
func (w *Workload) blocksMemory(f *facts) float64 {
	switch {
	case !w.Learner.History:
		return 0
	case w.Learner.Packed:
		return packedApart*f.paid() + packedBlock*f.blocks()
	}
	return sourceBlock * f.blocks()
}
