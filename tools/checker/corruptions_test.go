package checker

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// corruption is one fault in Redis; do returns the function that undoes it.
type corruption struct {
	law  law
	what string
	do   func(t *testing.T, v *victim) (undo func())
}

var corruptions = []corruption{
	{metaFields, "seq is not the last checkpoint's", func(t *testing.T, v *victim) func() { return v.add(t, "meta", "seq", 1) }},
	{metaFields, "a witness is malformed", func(t *testing.T, v *victim) func() { return v.set(t, v.key(0, "meta"), "witness.payoffs", "1:2") }},
	{metaFields, "two learners of one number", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "meta"), "learner.front", v.field(t, "meta", "learner.feed"))
	}},
	{metaTorn, "a checkpoint is torn", func(t *testing.T, v *victim) func() { return v.set(t, v.key(0, "meta"), "torn", "x") }},
	{metaOffsets, "an offset beyond the end", func(t *testing.T, v *victim) func() { return v.add(t, "meta", "offset.payoffs", 1000) }},
	{metaOffsets, "the rankings' position beyond the end", func(t *testing.T, v *victim) func() { return v.add(t, "meta", "rankings", 1000) }},
	{metaWitness, "a witness of other bytes", func(t *testing.T, v *victim) func() {
		w := v.field(t, "meta", "witness.impressions")
		return v.set(t, v.key(0, "meta"), "witness.impressions", w[:strings.LastIndex(w, ":")]+":abc")
	}},
	{metaWitness, "a witness that is not the last record", func(t *testing.T, v *victim) func() {
		_, rest, _ := strings.Cut(v.field(t, "meta", "witness.selections"), ":")
		return v.set(t, v.key(0, "meta"), "witness.selections", "0:"+rest)
	}},
	{metaWitness, "a ranking's witness of other bytes", func(t *testing.T, v *victim) func() {
		w := v.field(t, "meta", "witness.rankings")
		return v.set(t, v.key(0, "meta"), "witness.rankings", w[:strings.LastIndex(w, ":")]+":abc")
	}},
	{metaWitness, "a ranking's witness where no record is", func(t *testing.T, v *victim) func() {
		all, free := v.rankings(t), int64(0) // a fence's marker
		for free < int64(len(all)) && all[free].Offset == free {
			free++
		}
		_, rest, _ := strings.Cut(v.field(t, "meta", "witness.rankings"), ":")
		return v.set(t, v.key(0, "meta"), "witness.rankings", fmt.Sprintf("%d:%s", free, rest))
	}},
	{metaRankings, "an impression not covered, its ranking below the position", func(t *testing.T, v *victim) func() {
		return v.add(t, "meta", "offset.impressions", -1)
	}},
	{contextCells, "a payoff of other features", func(t *testing.T, v *victim) func() {
		value := v.field(t, "vary:cells", "0|2")
		require.Regexp(t, "^0 [0-9]+:[0-9]+:1:536870912:127:64 =news$", value)
		return v.set(t, v.key(0, "vary:cells"), "0|2", strings.Replace(value, ":64 ", ":63 ", 1))
	}},
	{contextCells, "other payoffs", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "vary:cells"), "0|2", strings.Replace(v.field(t, "vary:cells", "0|2"), ":536870912:", ":536870911:", 1))
	}},
	{contextCells, "a payoff of another time", func(t *testing.T, v *victim) func() {
		value := v.field(t, "vary:cells", "0|2")
		level, rest, _ := strings.Cut(strings.TrimPrefix(value, "0 "), ":")
		_, sums, _ := strings.Cut(rest, ":")
		return v.set(t, v.key(0, "vary:cells"), "0|2", "0 "+level+":1:"+sums)
	}},
	{contextCells, "another segment's", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "vary:cells"), "0|1", v.field(t, "vary:cells", "0|2"))
	}},
	{contextCategories, "another category", func(t *testing.T, v *victim) func() {
		require.Equal(t, "news", v.field(t, "vary:categories", "0"))
		return v.set(t, v.key(0, "vary:categories"), "0", "sport")
	}},
	{contextCategories, "another category in a cell", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "vary:cells"), "0|2", strings.Replace(v.field(t, "vary:cells", "0|2"), "=news", "=sport", 1))
	}},
	{contextCategories, "of an item that was given none", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "vary:categories"), "1", "news")
	}},
	{contextLinear, "a payoff too many", func(t *testing.T, v *victim) func() {
		block := v.anyField(t, "vary:linear")
		_, sums, _ := strings.Cut(v.field(t, "vary:linear", block), " ")
		return v.set(t, v.key(0, "vary:linear"), block, "2 "+sums)
	}},
	{stepsReadable, "steps of another version", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "meta"), "steps", "2"+v.field(t, "meta", "steps")[1:])
	}},
	{stepsChain, "steps of another history", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "meta"), "steps", "1 "+hex.EncodeToString(binary.AppendUvarint(nil, 77)))
	}},
	{stepsChain, "a watermark that has fallen", func(t *testing.T, v *victim) func() { return v.add(t, "meta", "watermark", -3_600_000) }},
	{stepsLead, "a step too few", func(t *testing.T, v *victim) func() {
		from, _, err := parseSteps(v.steps(t))
		require.NoError(t, err)
		return v.set(t, v.key(0, "meta"), "steps", "1 "+hex.EncodeToString(binary.AppendUvarint(nil, uint64(from))))
	}},
	{stepsLead, "a step too many", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "meta"), "steps", v.field(t, "meta", "steps")+"21")
	}},
	{accountSum, "an outcome off by one", func(t *testing.T, v *victim) func() { return v.add(t, "meta", "account.payoffs.applied", 1) }},
	{accountRead, "a record too many", func(t *testing.T, v *victim) func() {
		return both(v.add(t, "meta", "account.payoffs.applied", 1), v.add(t, "meta", "account.payoffs.read", 1))
	}},
	{accountOutcomes, "one outcome for another", func(t *testing.T, v *victim) func() {
		return both(v.add(t, "meta", "account.payoffs.applied", -1), v.add(t, "meta", "account.payoffs.duplicate", 1))
	}},
	{accountOutcomes, "one impression's end for another", func(t *testing.T, v *victim) func() {
		return both(v.add(t, "meta", "account.impressions.paid", -1), v.add(t, "meta", "account.impressions.pending", 1))
	}},
	{accountLearners, "a learner's outcome off by one", func(t *testing.T, v *victim) func() {
		line := v.field(t, "meta", "learner.near")
		return v.set(t, v.key(0, "meta"), "learner.near", strings.Replace(line, `"payoffs.applied":2`, `"payoffs.applied":3`, 1))
	}},
	{entriesReadable, "an entry is cut off", func(t *testing.T, v *victim) func() {
		return v.set(t, v.page(0, "f7"), storedID("f7"), v.stored(t, "f7")[:5])
	}},
	{entriesPlaced, "an entry lies where nobody looks for it", func(t *testing.T, v *victim) func() {
		value := v.stored(t, "f7")
		return both(v.set(t, v.page(0, "f2"), storedID("f7"), value))
	}},
	{entriesLost, "a pending entry is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.page(0, "f7"), storedID("f7")) }},
	{entriesLost, "a tombstone is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.page(0, "f2"), storedID("f2")) }},
	{entriesPhantom, "an entry of nobody", func(t *testing.T, v *victim) func() {
		return v.set(t, v.page(0, "f7"), storedID("nobody"), v.stored(t, "f7"))
	}},
	{entriesDecision, "items in another order", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) { e.items[0], e.items[1] = e.items[1], e.items[0] })
	}},
	{entriesDecision, "another deadline", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) { e.payDeadline++ })
	}},
	{entriesDecision, "another instance", func(t *testing.T, v *victim) func() {
		return v.entry(t, "front2", func(e *entry) { e.instance++ })
	}},
	{entriesDecision, "another propensity", func(t *testing.T, v *victim) func() {
		return v.entry(t, "front2", func(e *entry) { e.propensities[0] = 0.123 })
	}},
	{entriesDecision, "something was expected", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) {
			for range e.items {
				e.expected = append(e.expected, 250_000)
			}
		})
	}},
	{entriesOutcome, "remembered for too long", func(t *testing.T, v *victim) func() {
		return v.list(t, "left", func(score float64) float64 { return score + 1000 })
	}},
	{entriesOutcome, "forgotten too early", func(t *testing.T, v *victim) func() {
		return v.list(t, "old", func(score float64) float64 { return score - 2 })
	}},
	{entriesEarly, "unselected before its deadline", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) { ended(e, false, false) })
	}},
	{entriesSelection, "another item selected", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { e.items[0] ^= 1 })
	}},
	{entriesSelection, "the selection is lost", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { e.selected, e.alone, e.selDeadline = -1, false, e.began+600_000 })
	}},
	{entriesSelection, "a tombstone that forgot its selection", func(t *testing.T, v *victim) func() {
		return v.entry(t, "old", func(e *entry) { e.wasSelected = false })
	}},
	{entriesPayoff, "paid by nothing", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { ended(e, true, true) })
	}},
	{entriesPayoff, "paid, and yet expired", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f2", func(e *entry) { e.paidOnce = false })
	}},
	{entriesParked, "a parked payoff is lost", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f6", func(e *entry) { e.parked = nil })
	}},
	{entriesParked, "a parked payoff of other bytes", func(t *testing.T, v *victim) func() {
		return v.entry(t, "w1", func(e *entry) { e.parked[0].value = []byte(`{"impression_id":"w1","payoff":0.9}`) })
	}},
	{entriesParked, "a parked payoff twice", func(t *testing.T, v *victim) func() {
		return v.entry(t, "w1", func(e *entry) { e.parked = append(e.parked, e.parked[0]); e.parked[1].offset++ })
	}},
	{entriesDecision, "a page in another bucket, from which times are counted", func(t *testing.T, v *victim) func() {
		return v.list(t, "f7", func(score float64) float64 { return score + 1000 })
	}},
	{index, "a page that was closed", func(t *testing.T, v *victim) func() {
		return v.list(t, "f7", func(float64) float64 { return 0 })
	}},
	{index, "a page that the walk does not know of", func(t *testing.T, v *victim) func() {
		return v.list(t, "f7", nil)
	}},
	{index, "a page in which nothing lies", func(t *testing.T, v *victim) func() {
		key := v.key(0, "pages")
		require.NoError(t, v.redis.ZAdd(t.Context(), key, redis.Z{Score: 1 << 40, Member: "4000000000"}).Err())
		return func() { require.NoError(t, v.redis.ZRem(context.Background(), key, "4000000000").Err()) }
	}},
	{itemsCatalogue, "an item is lost", func(t *testing.T, v *victim) func() { return v.change(t, "near:names", "0", "\x02c", "\x02x") }},
	{itemsCatalogue, "an item without a number", func(t *testing.T, v *victim) func() { return v.change(t, "near:names", "0", "\x02c", "\x00\x02c") }},
	{itemsCatalogue, "one item more than there is", func(t *testing.T, v *victim) func() { return v.set(t, v.key(0, "near:catalogue"), "items", "4") }},
	{itemsCatalogue, "a row without a name", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "near:items"), "x", `{"no":3,"n":0,"sum":0,"sumsq":0}`)
	}},
	{itemsCatalogue, "two items of one number", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "near:items"), "c", v.field(t, "near:items", "b"))
	}},
	{itemsSums, "a payoff fed twice", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "feed:items"), "a", fmt.Sprintf(`{"no":%s,"n":3,"sum":0.4,"sumsq":0.06}`, v.number(t, "feed", "a")))
	}},
	{itemsSums, "a sum that is wrong", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "near:items"), "a", fmt.Sprintf(`{"no":%s,"n":1,"sum":0.5000001,"sumsq":0.25}`, v.number(t, "near", "a")))
	}},
	{itemsSums, "a payoff that BOLD did not take in", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "front:items"), "a", fmt.Sprintf(`{"no":%s,"n":0,"sum":0,"sumsq":0}`, v.number(t, "front", "a")))
	}},
	{itemsKept, "an item that would be kept for long", func(t *testing.T, v *victim) func() {
		page := v.field(t, "parts:names", "0")
		return v.set(t, v.key(0, "parts:names"), "0", string([]byte{page[0] ^ 1})+page[1:])
	}},
	{delayFields, "a field that nobody writes", func(t *testing.T, v *victim) func() { return v.set(t, v.key(0, "feed:flights"), "x", "1") }},
	{delayFields, "an import of a hash that nobody writes", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "near:imported"), "strange x", "1")
	}},
	{delayFlights, "one in flight too many", func(t *testing.T, v *victim) func() {
		return v.add(t, "feed:flights", v.number(t, "feed", "a"), 1)
	}},
	{delayFlights, "one in flight too few, fed directly", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "near:flights"), v.number(t, "near", "b"))
	}},
	{delayFields, "lateness that falls", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:learner"), "silence", v.field(t, "still:ages", "pass")+" 0 0.5 0.5 1 1 0.7 0.6 1")
	}},
	{delayFlights, "one in flight too many, of which silence ages", func(t *testing.T, v *victim) func() {
		return v.change(t, "still:flights", v.number(t, "still", "b"), "1 ", "2 ")
	}},
	{silenceFlights, "in flight since another time", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:flights"), v.number(t, "still", "b"), "1 10:1:1")
	}},
	{silenceFlights, "in flight since a time that is lost", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:flights"), v.number(t, "still", "b"), "1")
	}},
	{silenceFlights, "more have a time than are in flight", func(t *testing.T, v *victim) func() {
		b := v.number(t, "still", "b")
		return v.set(t, v.key(0, "still:flights"), b, strings.TrimSuffix(v.field(t, "still:flights", b), ":1")+":2")
	}},
	{silenceFlights, "in flight since a longer block than there is", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:flights"), v.number(t, "still", "b"), fmt.Sprintf("1 40:%d:1", v.now()>>40))
	}},
	{silenceSettled, "payoffs counted ten times", func(t *testing.T, v *victim) func() {
		return v.change(t, "still:settled", v.number(t, "still", "a"), " 0", "0 0")
	}},
	{silenceSettled, "a payoff counted as none", func(t *testing.T, v *victim) func() {
		a := v.number(t, "still", "a")
		paid, _, _ := strings.Cut(v.field(t, "still:settled", a), " ")
		return v.set(t, v.key(0, "still:settled"), a, "0 "+paid)
	}},
	{silenceSettled, "an item's outcomes are lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "still:settled"), v.number(t, "still", "a"))
	}},
	{silenceSettled, "a payoff below the default counted as one above", func(t *testing.T, v *victim) func() {
		item := v.number(t, "still", v.lastShown(t, "still3"))
		return v.set(t, v.key(0, "still:settled"), item, strings.TrimSuffix(v.field(t, "still:settled", item), fmt.Sprint(" 1 ", inParts(0.25))))
	}},
	{silenceSettled, "a payoff less far below the default", func(t *testing.T, v *victim) func() {
		return v.change(t, "still:settled", v.number(t, "still", v.lastShown(t, "still3")), fmt.Sprint(" 1 ", inParts(0.25)), " 1 5")
	}},
	{silenceAges, "the age of a payoff below the default as of one above", func(t *testing.T, v *victim) func() {
		row := v.anyField(t, "still:ages", "below:")
		return v.move(t, "still:ages", row, strings.TrimPrefix(row, "below:"))
	}},
	{delayFields, "a mean below the default that is none", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:learner"), "below", "0.5 -1")
	}},
	{silenceAges, "a payoff of another age", func(t *testing.T, v *victim) func() {
		return v.change(t, "still:ages", v.anyField(t, "still:ages"), "0:", "7:")
	}},
	{silenceAges, "a beginning before all selections", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "still:ages"), "since", "0 1 0 0")
	}},
	{silenceAges, "a payoff in another block", func(t *testing.T, v *victim) func() {
		row := v.anyField(t, "still:ages")
		level, _, _ := strings.Cut(row, ":")
		return v.move(t, "still:ages", row, level+":1")
	}},
	{silenceAges, "a payoff that is as if it were old", func(t *testing.T, v *victim) func() {
		return v.move(t, "still:ages", v.anyField(t, "still:ages"), "46:-1")
	}},
	{silenceAges, "a pass that event time has not come to", func(t *testing.T, v *victim) func() {
		return v.add(t, "still:ages", "pass", 1<<12)
	}},
	{driftHistory, "a payoff is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "still:history"), v.number(t, "still", "a"))
	}},
	{driftHistory, "it was paid at another time", func(t *testing.T, v *victim) func() {
		a := v.number(t, "still", "a")
		_, sums, _ := strings.Cut(v.field(t, "still:history", a), ":")
		_, sums, _ = strings.Cut(sums, ":")
		return v.set(t, v.key(0, "still:history"), a, "10:1:"+sums)
	}},
	{driftHistory, "another sum was paid", func(t *testing.T, v *victim) func() {
		a := v.number(t, "still", "a")
		return v.set(t, v.key(0, "still:history"), a, strings.TrimSuffix(v.field(t, "still:history", a), "6")+"7")
	}},
	{driftHistory, "a pass that event time has not come to", func(t *testing.T, v *victim) func() {
		return v.change(t, "still:history", "pass", " ", "0 ")
	}},
	{recentItems, "a payoff is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "moves:recent"), v.anyField(t, "moves:recent"))
	}},
	{recentItems, "it was paid at another time", func(t *testing.T, v *victim) func() {
		item := v.anyField(t, "moves:recent")
		_, sums, _ := strings.Cut(v.field(t, "moves:recent", item), ":")
		_, sums, _ = strings.Cut(sums, ":")
		return v.set(t, v.key(0, "moves:recent"), item, "10:1:"+sums)
	}},
	{recentItems, "it could have been selected more often", func(t *testing.T, v *victim) func() {
		item := v.anyField(t, "moves:recent")
		return v.set(t, v.key(0, "moves:recent"), item, v.field(t, "moves:recent", item)+"0")
	}},
	{recentLevels, "a residual is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "moves:levels"), v.anyField(t, "moves:levels"))
	}},
	{recentLevels, "it was larger", func(t *testing.T, v *victim) func() {
		level := v.anyField(t, "moves:levels")
		return v.set(t, v.key(0, "moves:levels"), level, v.field(t, "moves:levels", level)+"0")
	}},
	{recentLevels, "a pass without a payoff", func(t *testing.T, v *victim) func() {
		return v.add(t, "moves:levels", "pass", 1<<12)
	}},
	{delayFields, "an estimate of nothing", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "moves:learner"), "levels", "1 2 3")
	}},
	{delayFields, "rows that overlap", func(t *testing.T, v *victim) func() {
		a := v.number(t, "still", "a")
		return v.set(t, v.key(0, "still:history"), a, v.field(t, "still:history", a)+" "+v.field(t, "still:history", a))
	}},
	{delayFields, "parts of no selection", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "parts:open"), v.number(t, "parts", "a"), "0 0 0")
	}},
	{silenceOpen, "a part counted twice", func(t *testing.T, v *victim) func() {
		return v.change(t, "parts:open", v.number(t, "parts", "a"), fmt.Sprintf("1 %d ", 5<<27), fmt.Sprintf("1 %d ", 6<<27))
	}},
	{silenceOpen, "squares of other sums", func(t *testing.T, v *victim) func() {
		return v.change(t, "parts:open", v.number(t, "parts", "a"), fmt.Sprint(" ", 25<<24), fmt.Sprint(" ", 25<<24+1))
	}},
	{silenceOpen, "one paid in parts too many", func(t *testing.T, v *victim) func() {
		return v.change(t, "parts:open", v.number(t, "parts", "a"), "1 ", "2 ")
	}},
	{attractionEnded, "an impression with a selection counted twice", func(t *testing.T, v *victim) func() {
		item := v.anyField(t, "vary:attraction")
		with, without, _ := strings.Cut(v.field(t, "vary:attraction", item), " ")
		return v.set(t, v.key(0, "vary:attraction"), item, "1"+with+" "+without)
	}},
	{attractionEnded, "an impression counted twice by a learner that finds the order", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "liked:attraction"), v.anyField(t, "liked:attraction"), "2 0")
	}},
	{attractionEnded, "counts are lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "vary:attraction"), v.anyField(t, "vary:attraction"))
	}},
	{attractionEnded, "impressions before a fall that nobody found", func(t *testing.T, v *victim) func() {
		falls := strings.Split(v.field(t, "vary:learner", "falls"), ":")
		falls[1] = fmt.Sprint(1 << 53) // none counts
		return v.set(t, v.key(0, "vary:learner"), "falls", strings.Join(falls, ":"))
	}},
	{silenceOpen, "parts of an item that nothing came of", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "parts:open"), v.number(t, "parts", "c"), "1 1 1")
	}},
	{silenceOpen, "what came in parts is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "parts:open"), v.number(t, "parts", "a"))
	}},
	{silenceOpen, "the learner was not fed a sum", func(t *testing.T, v *victim) func() {
		return both(v.entry(t, "parts0", func(e *entry) { e.inParts = false }), v.unset(t, v.key(0, "parts:open"), v.number(t, "parts", "a")))
	}},
	{qpmdQueue, "a payoff of the queue is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "feed:queue"), v.number(t, "feed", "a")+":2")
	}},
	{qpmdQueue, "a payoff waits that never came", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "feed:queue"), v.number(t, "feed", "a")+":2", "0.123")
	}},
	{qpmdOrder, "two payoffs of the queue change places", func(t *testing.T, v *victim) func() {
		a := v.number(t, "feed", "a")
		second, third := v.field(t, "feed:queue", a+":1"), v.field(t, "feed:queue", a+":2")
		return both(v.set(t, v.key(0, "feed:queue"), a+":1", third), v.set(t, v.key(0, "feed:queue"), a+":2", second))
	}},
	{qpmdOrder, "the wrong payoff was fed", func(t *testing.T, v *victim) func() {
		a := v.number(t, "feed", "a") // 0.1 and 0.2 were; now 0.1 and 0.3
		return both(v.set(t, v.key(0, "feed:queue"), a+":1", "0.2"),
			v.set(t, v.key(0, "feed:items"), "a", fmt.Sprintf(`{"no":%s,"n":2,"sum":0.4,"sumsq":0.1}`, a)))
	}},
	{qpmdHold, "a hold since an impression that is none", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "feed:learner"), "hold", v.number(t, "feed", "c")+" 0")
	}},
	{qpmdHold, "a hold for an item of which payoffs wait", func(t *testing.T, v *victim) func() {
		_, ref, _ := strings.Cut(v.field(t, "feed:learner", "hold"), " ")
		return v.set(t, v.key(0, "feed:learner"), "hold", v.number(t, "feed", "a")+" "+ref)
	}},
	{boldOutstanding, "one outstanding too many", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "front:instances"), "3", "7")
	}},
	{boldRounds, "a payoff fed twice to an instance", func(t *testing.T, v *victim) func() {
		return v.add(t, "front:rounds", v.anyField(t, "front:rounds"), 1)
	}},
	{boldWindows, "a selection that counts for two windows", func(t *testing.T, v *victim) func() {
		return v.add(t, "front:windows", v.anyField(t, "front:windows"), 1)
	}},
	{boldWindows, "a selection that counts for another window", func(t *testing.T, v *victim) func() {
		return v.move(t, "front:windows", v.anyField(t, "front:windows"), "90:91:")
	}},
	{boldVectors, "a loss that is wrong, of an item", func(t *testing.T, v *victim) func() { return v.vector(t, "given:vectors", 1e-9) }},
	{boldVectors, "a loss that is wrong, of a rank", func(t *testing.T, v *victim) func() { return v.vector(t, "place:vectors", 1e-9) }},
	{boldVectors, "a point that is none", func(t *testing.T, v *victim) func() { return v.vector(t, "front:vectors", 1e-3) }},
	{boldVectors, "what an instance knew is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "place:vectors"), v.anyField(t, "place:vectors"))
	}},
	{boldVectors, "something of an instance that was fed nothing", func(t *testing.T, v *victim) func() {
		block := v.field(t, "front:vectors", v.anyField(t, "front:vectors"))
		return v.set(t, v.key(0, "front:vectors"), "3:0", block)
	}},
	{boldVectors, "something of a rank that no list has", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "place:vectors")
		return v.set(t, v.key(0, "place:vectors"), strings.TrimSuffix(field, "0")+"1", v.field(t, "place:vectors", field))
	}},
	{preferences, "a selection counted twice", func(t *testing.T, v *victim) func() {
		return v.add(t, "liked:preferences", v.anyField(t, "liked:preferences"), 1)
	}},
	{preferences, "a selection counted for the other item", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "liked:preferences")
		better, worse, _ := strings.Cut(field, ":")
		return v.move(t, "liked:preferences", field, worse+":"+better)
	}},
	{preferences, "an estimate that is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "social:utilities"), v.anyField(t, "social:utilities"))
	}},
	{preferences, "a mean that is wrong", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "social:utilities"), v.anyField(t, "social:utilities"), "1 0.7500001 0")
	}},
	{experimentsSums, "a unit too many", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "tried:cohort:")
		head, numbers, _ := strings.Cut(v.field(t, "experiments", field), ":")
		return v.set(t, v.key(0, "experiments"), field, head+"9:"+numbers)
	}},
	{experimentsSums, "payoffs that were not", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "tried:cohort:")
		units, rest, _ := strings.Cut(v.field(t, "experiments", field), ":")
		return v.set(t, v.key(0, "experiments"), field, units+":9"+rest)
	}},
	{experimentsSums, "covariates that were not", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "tried:cohort:")
		numbers := strings.SplitN(v.field(t, "experiments", field), ":", 5)
		numbers[3] = "9" + numbers[3]
		return v.set(t, v.key(0, "experiments"), field, strings.Join(numbers, ":"))
	}},
	{experimentsSums, "covariates by age that were not", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "tried:bucket:")
		before, rest, _ := strings.Cut(v.field(t, "experiments", field), ":")
		return v.set(t, v.key(0, "experiments"), field, before+":9"+rest)
	}},
	{entriesArm, "another covariate", func(t *testing.T, v *victim) func() {
		return v.entry(t, "tried7", func(e *entry) { e.covariate++ })
	}},
	{experimentsSums, "a unit too many in its bucket", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "tried:bucket:")
		words := strings.SplitN(v.field(t, "experiments", field), " ", 3)
		return v.set(t, v.key(0, "experiments"), field, words[0]+" "+words[1]+" 9"+words[2])
	}},
	{experimentsSums, "an impression too many in the bucket of its block", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "experiments", "both:bucket:")
		words := strings.SplitN(v.field(t, "experiments", field), " ", 3)
		return v.set(t, v.key(0, "experiments"), field, words[0]+" "+words[1]+" 9"+words[2])
	}},
	{entriesArm, "arms have changed places", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "experiments"), "arms", "1 tried 1 tried tried 1 same")
	}},
	{deltas, "what was published is not what is stored", func(t *testing.T, v *victim) func() {
		return v.stats(t, "near", `"n":`, `"n":1`)
	}},
}
