package sizing

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// within is the relative error that an estimate may have.
const within = 0.15

// near compares an estimate with a measurement, and names the constants to set if it fails.
func near(t *testing.T, what string, measured, estimated float64, constants string) {
	t.Helper()
	t.Logf("%s: measured %.1f, estimated %.1f", what, measured, estimated)
	assert.LessOrEqual(t, math.Abs(estimated-measured), within*measured,
		"%s: measured %.1f, estimated %.1f. Where that is not a fault of the worker's, set %s in costs.go", what, measured, estimated, constants)
}

// month is the default payoff horizon, in milliseconds.
const month = 720 * 3_600_000

// measuredLearners are those whose entries and items differ.
var measuredLearners = []struct{ name, yaml string }{
	{"moss", "{payoffs: stochastic}"},
	{"robust", "{payoffs: adversarial}"},
	{"ftrl", "{payoffs: adversarial, policy: ftrl, delay: bold, max_instances: 1}"},
	{"sorted", "{payoffs: stochastic, utilities: sorted}"},
}

// TestRedis fills a real Redis by the worker's own machine and store, and holds its memory against the estimate.
func TestRedis(t *testing.T) {
	assert.EqualValues(t, redisstore.MaxDeltaBytes, maxDelta)
	for _, l := range measuredLearners {
		t.Run(l.name, func(t *testing.T) { testRedis(t, l.yaml) })
	}
}

func testRedis(t *testing.T, yaml string) {
	const ids, items, atOnce = 20_000, 5_000, 1000
	f := newTraffic(items)
	o := own(t, machineConfig(t, yaml, partition.NewNameTable()))
	w := workload(t, yaml)
	w.Items, w.Partitions, w.IDBytes, w.ItemBytes = items, 1, 36, 12

	empty := o.total()
	run := func(n int, record func(i int) *partition.Record) {
		for i := 0; i < n; i += atOnce {
			records := make([]*partition.Record, atOnce)
			for j := range records {
				records[j] = record(i + j)
			}
			o.step(records)
			o.save(o.seal())
		}
	}
	var all []shown
	impressions := func(int) *partition.Record {
		s, r := f.impression()
		all = append(all, s)
		return r
	}
	selection := func(i int) *partition.Record { return f.selection(all[i]) }
	payoff := func(i int) *partition.Record { return f.payoff(all[i]) }

	// A selection of a month ago makes the ticks as long as they are for years: those of younger data are seconds apart.
	f.at = began - month
	old, r := f.impression()
	o.step([]*partition.Record{r})
	o.step([]*partition.Record{f.selection(old)})
	f.at = began
	o.machine.Tick(began, [event.Inputs]bool{true, true, true})
	// The statistics learned first let later entries be as they are for years.
	run(ids, impressions)
	run(ids, selection)
	// Its first gives an item a row.
	if bySelection := w.publishedBySelection(); bySelection > 0 {
		near(t, "what a selection publishes", float64(o.published)/ids, bySelection+publishedItem*items/ids, "publishedFlight or publishedPairs")
	}
	o.published = 0
	run(ids, payoff)
	near(t, "what a payoff publishes", float64(o.published)/ids, w.publishedByPayoff(), "publishedItem, publishedSettled or publishedHistory")
	e := &Estimate{IDs: IDs{Ended: ids}}
	undecided, selected, ended := w.entries()
	tombstones := o.pages()
	near(t, "an ended impression", tombstones/ids, recordBytes(ended), "endedEntry or compactBytes")
	facts := facts{ids: e.IDs, payoffs: float64(ids) / items}
	pairs := 0.0
	if w.Learner.Pairs {
		pairs = math.Log2(items) * pairBytes
	}
	near(t, "an item", o.learned()/items, storedItemBytes(w)+taughtBytes(w, &facts)+pairs, "namedBytes, itemBytes, agesBytes, historyBytes, blockBytes or pairBytes")

	all = nil
	run(ids, impressions)
	near(t, "an undecided impression", (o.pages()-tombstones)/ids, recordBytes(undecided), "undecidedEntry or what an entry has of each candidate")
	run(ids, selection)
	near(t, "one that was selected from", (o.pages()-tombstones)/ids, recordBytes(selected), "selectedEntry or what an entry has of each candidate")
	e = &Estimate{IDs: IDs{Ended: ids, Selected: ids}}
	facts.ids = e.IDs
	e.redis(w, &facts)
	near(t, "all of it, the stream apart", o.total()-empty, e.Redis.Total()-e.Redis[len(e.Redis)-2].Amount, "what the lines above say")
	per := func(n int64) float64 { return float64(n) / (2 * ids) }
	e.kafka(&Workload{Rate: 1, Selected: 1, Paid: 1, Candidates: 20, IDBytes: 36, ItemBytes: 12, SelectionTimeout: 1, Learner: w.Learner})
	const day = 24 * 60 * 60
	near(t, "a ranking", per(o.bytes.rankings), e.Kafka[1].Amount/day, "rankingRecord, rankedRecord and those after it")
	near(t, "an impression record", per(o.bytes.impressions), e.Kafka[0].Amount/day, "impressionRecord and candidateRecord")
	near(t, "a selection record", per(o.bytes.selections), e.Kafka[2].Amount/day, "selectionRecord")
	near(t, "a payoff record", 2*per(o.bytes.payoffs), e.Kafka[3].Amount/day, "payoffRecord")
}

// TestRedis_Hashes measures the two encodings of a page.
func TestRedis_Hashes(t *testing.T) {
	const entries = 128
	o := own(t, machineConfig(t, measuredLearners[0].yaml, nil))
	f := newTraffic(100)
	// The memory of a page grows by leaps: the mean over many sizes counts.
	beside := func(least, most int) float64 {
		before, values := o.pages(), 0
		const pages = 256
		for page := range pages {
			value := least + page%(most-least+1)
			values += entries * value
			var fields []any
			for range entries {
				id := state.IDOf(uuid(f.rng))
				fields = append(fields, id[:], make([]byte, value))
			}
			require.NoError(t, o.raw.HSet(t.Context(), fmt.Sprintf("{%s:0}:p:%d-%d", group, least, page), fields...).Err())
		}
		return (o.pages()-before-float64(values))/(pages*entries) - idBytes
	}
	compact, loose := beside(1, 128), beside(compactValue+1, compactValue+128)
	t.Logf("an entry takes %.1f bytes besides its own in a compact page, and %.1f in another", compact, loose)
	assert.InDelta(t, compactBytes, compact, 6, "compactBytes")
	assert.InDelta(t, looseBytes, loose, within*(compactValue+looseBytes), "looseBytes")
}

// TestRedis_Stream: how far a partition's stream reaches back at least, and its bytes.
func TestRedis_Stream(t *testing.T) {
	o := own(t, machineConfig(t, measuredLearners[0].yaml, nil))
	for range 2 * keptAtLeast {
		o.save(state.Changes{})
	}
	kept := o.raw.XLen(t.Context(), "{"+group+":0}:deltas").Val()
	t.Logf("%d checkpoints are kept", kept)
	assert.GreaterOrEqual(t, kept, int64(keptAtLeast), "keptAtLeast")
	near(t, "checkpoints kept", float64(kept), deltaEntries, "deltaEntries")
	near(t, "an empty checkpoint in the stream", float64(o.streamBytes())/float64(kept), deltaBytes, "deltaBytes")
}

// learned returns the bytes of the learners' hashes.
func (o *owner) learned() (total float64) {
	for _, h := range o.machine.Hashes() {
		if n := o.memoryOf(h); n > 0 {
			o.t.Logf("%s: %d bytes", h, n)
			total += float64(n)
		}
	}
	return total
}
