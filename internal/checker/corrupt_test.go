package checker

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// victim is a group in a known state, of which one thing at a time is spoilt. Everything is in partition 0.
type victim struct {
	*world
	clock   atomic.Int64
	offsets map[string]int64 // records sent so far, by role
}

const victimLearners = `
  feed: {payoffs: stochastic, policy: greedy, delay: qpmd, default: true, payoff_horizon: 1h, selection_timeout: 10m}
  front: {payoffs: adversarial, policy: osmd, max_instances: 4, payoff_horizon: 1h, selection_timeout: 10m}
  given: {payoffs: adversarial, policy: ftrl, windows: {geometric: 0.5, max: 5}, payoff_horizon: 1h, selection_timeout: 10m}
  near: {payoffs: stochastic, policy: greedy, delay: direct, payoff_horizon: 1h, selection_timeout: 10m}
  place: {payoffs: adversarial, policy: ftrl, loss_index: rank, payoff_horizon: 1h, selection_timeout: 10m}
  liked: {payoffs: stochastic, policy: greedy, delay: direct, utilities: sorted, payoff_horizon: 1h, selection_timeout: 10m}
  told: {payoffs: stochastic, policy: greedy, delay: direct, utilities: social, payoff_horizon: 1h, selection_timeout: 10m}`

func newVictim(t *testing.T) *victim {
	v := &victim{world: newWorld(t, testenv.Embedded(t), 1, victimLearners, ""), offsets: map[string]int64{}}
	v.clock.Store(start)
	return v
}

func (v *victim) now() event.Millis { return v.clock.Load() }

// put publishes a record, dated now.
func (v *victim) put(t *testing.T, topic, id, rest string) {
	t.Helper()
	if rest != "{" {
		rest = fmt.Sprintf(`{"impression_id":%q,%s}`, id, rest)
	}
	names := map[string]string{"impressions": v.cfg.Kafka.Topics.Impressions, "selections": v.cfg.Kafka.Topics.Selections,
		"payoffs": v.cfg.Kafka.Topics.Payoffs, "rankings": v.cfg.Kafka.Topics.Rankings}
	require.NoError(t, v.writer.WriteMessages(t.Context(), kafka.Message{Topic: names[topic], Key: []byte(id), Value: []byte(rest),
		Time: time.UnixMilli(v.now())}))
	v.offsets[topic]++
}

func (v *victim) impression(t *testing.T, id, learner string) {
	v.put(t, "impressions", id, fmt.Sprintf(`"learner":%q,"candidates":[{"item":"a","utility":1},{"item":"b","utility":2},{"item":"c","utility":3}]`, learner))
}

// settle waits until the worker has read everything sent.
func (v *victim) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	sent := map[string]int{}
	for _, topic := range roles[:event.Inputs] {
		sent[topic] = int(v.offsets[topic])
	}
	require.NoError(t, v.await(ctx, sent))
}

// live plays a small scene with something of everything.
func (v *victim) live(t *testing.T) {
	t.Helper()
	w := v.start(t, v.now)
	v.impression(t, "old", "feed") // will expire, with a selection
	v.impression(t, "left", "feed")
	v.put(t, "selections", "old", `"item":"b"`)
	v.settle(t)
	tombstone := string([]byte{1, byte(closed)})
	for !strings.HasPrefix(v.stored(t, "old"), tombstone) || !strings.HasPrefix(v.stored(t, "left"), tombstone) {
		v.clock.Add(time.Minute.Milliseconds())
		require.NoError(t, pause(t.Context(), 5*time.Millisecond))
	}
	for n := range 8 {
		v.impression(t, fmt.Sprint("f", n), "feed")
		v.settle(t)
		if n < 6 {
			v.put(t, "selections", fmt.Sprint("f", n), `"item":"a"`)
			v.settle(t)
		}
	}
	for n := range 5 { // f0 is fed, for the hold began with it; f1 to f4 wait
		v.put(t, "payoffs", fmt.Sprint("f", n), fmt.Sprintf(`"payoff":0.%d`, n+1))
		v.settle(t)
	}
	v.impression(t, "f8", "feed") // feeds f1's
	v.impression(t, "f9", "feed") // begins a hold
	v.settle(t)
	v.put(t, "selections", "f8", `"item":"a"`)
	v.settle(t)
	v.put(t, "selections", "f9", `"item":"c"`)
	v.put(t, "payoffs", "f6", `"payoff":0.77`) // waits for its selection
	v.put(t, "payoffs", "w1", `"payoff":0.78`)
	v.put(t, "payoffs", "f0", `"payoff":0.1`) // a second time
	v.put(t, "payoffs", "f9", "{")
	v.impression(t, "given0", "given")
	for _, learner := range []string{"front", "near"} {
		for n := range 3 {
			v.impression(t, fmt.Sprint(learner, n), learner)
		}
		v.settle(t)
		v.put(t, "selections", learner+"0", `"item":"a"`)
		v.put(t, "selections", learner+"1", `"item":"b"`)
		v.settle(t)
		v.put(t, "payoffs", learner+"0", `"payoff":0.5`)
	}
	v.settle(t)
	v.teach(t, "3")
	w.stop(t)
}

// teach lets each learner rank an impression, of which the item shown last is selected and paid.
func (v *victim) teach(t *testing.T, number string) {
	t.Helper()
	learners := []string{"front", "given", "near", "place", "liked", "told"}
	for _, learner := range learners {
		v.impression(t, learner+number, learner)
	}
	v.settle(t)
	for _, learner := range learners {
		v.put(t, "selections", learner+number, fmt.Sprintf(`"item":%q,"utility":0.75`, v.lastShown(t, learner+number)))
	}
	v.settle(t)
	for _, learner := range learners {
		v.put(t, "payoffs", learner+number, `"payoff":0.25`)
	}
	v.settle(t)
}

// lastShown is the item at the end of an impression's ranking.
func (v *victim) lastShown(t *testing.T, id string) string {
	t.Helper()
	dec := event.NewDecoder(event.Limits{})
	for _, rec := range v.rankings(t) {
		var r event.Ranking
		if string(rec.Key) == id && dec.Ranking(&r, rec.Value) == nil {
			return string(r.Items[len(r.Items)-1])
		}
	}
	t.Fatalf("impression %q is not ranked", id)
	return ""
}

// anyField is some field of a hash.
func (v *victim) anyField(t *testing.T, hash string) string {
	t.Helper()
	fields, err := v.redis.HKeys(t.Context(), v.key(0, hash)).Result()
	require.NoError(t, err)
	require.NotEmpty(t, fields, hash)
	return slices.Min(fields)
}

// vector changes the first number of a block of what an instance knows.
func (v *victim) vector(t *testing.T, hash string, by float64) (undo func()) {
	t.Helper()
	field := v.anyField(t, hash)
	block := []byte(v.field(t, hash, field))
	x := math.Float64frombits(binary.LittleEndian.Uint64(block[4:]))
	binary.LittleEndian.PutUint64(block[4:], math.Float64bits(x+by))
	return v.set(t, v.key(0, hash), field, string(block))
}

// stored is the entry of an id.
func (v *victim) stored(t *testing.T, id string) string {
	value, err := v.redis.HGet(t.Context(), v.shard(0, id), id).Result()
	if err != nil {
		return ""
	}
	return value
}

func (w *world) shard(p int, id string) string {
	return w.key(p, fmt.Sprintf("e:%04x", xxhash.Sum64String(id)%(1<<14)))
}

// set changes a field of a hash, and gives back what undoes it.
func (v *victim) set(t *testing.T, hash, field, value string) (undo func()) {
	t.Helper()
	ctx := context.Background()
	before, err := v.redis.HGet(ctx, hash, field).Result()
	require.NoError(t, v.redis.HSet(ctx, hash, field, value).Err())
	return func() {
		if err != nil {
			require.NoError(t, v.redis.HDel(ctx, hash, field).Err())
			return
		}
		require.NoError(t, v.redis.HSet(ctx, hash, field, before).Err())
	}
}

func (v *victim) unset(t *testing.T, hash, field string) (undo func()) {
	t.Helper()
	undo = v.set(t, hash, field, "")
	require.NoError(t, v.redis.HDel(t.Context(), hash, field).Err())
	return undo
}

func (v *victim) field(t *testing.T, hash, field string) string {
	t.Helper()
	value, err := v.redis.HGet(t.Context(), v.key(0, hash), field).Result()
	require.NoError(t, err, "%s %s", hash, field)
	return value
}

// add changes a number in a hash.
func (v *victim) add(t *testing.T, hash, field string, by int64) (undo func()) {
	t.Helper()
	n, err := strconv.ParseInt(v.field(t, hash, field), 10, 64)
	require.NoError(t, err)
	return v.set(t, v.key(0, hash), field, strconv.FormatInt(n+by, 10))
}

// entry changes what is stored under an id.
func (v *victim) entry(t *testing.T, id string, change func(*entry)) (undo func()) {
	t.Helper()
	e, err := decodeEntry([]byte(v.stored(t, id)))
	require.NoError(t, err)
	change(e)
	return v.set(t, v.shard(0, id), id, string(encodeEntry(e)))
}

func both(undo ...func()) func() {
	return func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
}

// encodeEntry is the reverse of decodeEntry, without effective times of what is parked.
func encodeEntry(e *entry) []byte {
	var flags byte
	set := func(on bool, bit byte) {
		if on {
			flags |= bit
		}
	}
	set(e.hasSelection, flagSelectionDeadline)
	set(len(e.propensities) > 0, flagPropensities)
	set(e.instance >= 0, flagInstance)
	set(len(e.ranks) > 0, flagRanks)
	set(e.selected >= 0 || e.wasSelected, flagSelected)
	set(e.count > 0 || e.summed, flagSum)
	set(len(e.parked) > 0, flagParked)
	set(len(e.undecided) > 0, flagUndecided)
	b := []byte{1, byte(e.kind), flags}
	b = binary.AppendUvarint(b, uint64(e.bucket))
	if e.kind != waiting {
		b = binary.AppendUvarint(b, uint64(e.learner))
		b = binary.AppendUvarint(b, uint64(e.offset))
		b = binary.AppendVarint(b, e.payDeadline)
		b = binary.AppendVarint(b, e.forgetAt-e.payDeadline)
		if e.hasSelection {
			b = binary.AppendVarint(b, e.payDeadline-e.selDeadline)
		}
	}
	switch e.kind {
	case closed:
		b = append(b, byte(e.outcome))
	case pending:
		b = binary.AppendUvarint(b, uint64(len(e.items)))
		for _, i := range e.items {
			b = binary.AppendUvarint(b, uint64(i))
		}
		for _, p := range e.propensities {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p))
		}
		if e.instance >= 0 {
			b = binary.AppendUvarint(b, uint64(e.instance))
		}
		for _, r := range e.ranks {
			b = binary.AppendUvarint(b, uint64(r))
		}
		if len(e.undecided) > 0 {
			b = binary.AppendUvarint(b, uint64(len(e.undecided)))
			for _, r := range e.undecided {
				b = binary.AppendUvarint(b, uint64(r))
			}
		}
		if e.selected >= 0 {
			b = binary.AppendUvarint(b, uint64(e.selected))
		}
		if e.count > 0 {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.sum))
			b = binary.AppendUvarint(b, uint64(e.count))
			b = binary.AppendUvarint(b, uint64(len(e.events)))
			for _, h := range e.events {
				b = binary.LittleEndian.AppendUint64(b, h)
			}
		}
	}
	if len(e.parked) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.parked)))
		for _, p := range e.parked {
			b = append(b, byte(p.topic))
			b = binary.AppendUvarint(b, uint64(p.offset))
			b = binary.AppendVarint(b, 0)
			b = binary.AppendVarint(b, 0)
			b = binary.AppendVarint(b, p.deadline)
			b = binary.AppendUvarint(b, uint64(len(p.value)))
			b = append(b, p.value...)
		}
	}
	return b
}

// ended makes a pending entry a tombstone.
func ended(e *entry, o outcome, wasSelected bool) {
	e.kind, e.outcome, e.wasSelected, e.selected, e.hasSelection = closed, o, wasSelected, -1, false
	e.items, e.propensities, e.ranks, e.parked, e.instance = nil, nil, nil, nil, -1
}

// number is the one that Redis gives to an item of a learner.
func (v *victim) number(t *testing.T, learner, item string) string {
	t.Helper()
	_, rest, _ := strings.Cut(v.field(t, learner+":items", item), `"no":`)
	n, _, _ := strings.Cut(rest, ",")
	return n
}

// corruption is one fault that Redis is given; do gives back what undoes it.
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
	{metaRankings, "an impression not covered, its ranking below the position", func(t *testing.T, v *victim) func() {
		return v.add(t, "meta", "offset.impressions", -1)
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
		return v.set(t, v.shard(0, "f7"), "f7", v.stored(t, "f7")[:5])
	}},
	{entriesLost, "a pending entry is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.shard(0, "f7"), "f7") }},
	{entriesLost, "a tombstone is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.shard(0, "f2"), "f2") }},
	{entriesPhantom, "an entry of nobody", func(t *testing.T, v *victim) func() {
		return v.set(t, v.shard(0, "nobody"), "nobody", v.stored(t, "f7"))
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
	{entriesOutcome, "expired without a selection", func(t *testing.T, v *victim) func() {
		return v.entry(t, "left", func(e *entry) { e.outcome = expired })
	}},
	{entriesOutcome, "defaulted, and nothing has a default", func(t *testing.T, v *victim) func() {
		return v.entry(t, "old", func(e *entry) { e.outcome = defaulted })
	}},
	{entriesEarly, "unselected before its deadline", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) { ended(e, unselected, false) })
	}},
	{entriesSelection, "another item selected", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { e.selected = (e.selected + 1) % int32(len(e.items)) })
	}},
	{entriesSelection, "the selection is lost", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { e.selected = -1 })
	}},
	{entriesSelection, "a tombstone that forgot its selection", func(t *testing.T, v *victim) func() {
		return v.entry(t, "old", func(e *entry) { e.outcome, e.wasSelected = unselected, false })
	}},
	{entriesPayoff, "paid by nothing", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f5", func(e *entry) { ended(e, paid, true) })
	}},
	{entriesPayoff, "paid, and yet expired", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f2", func(e *entry) { e.outcome = expired })
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
	{index, "an id is missing from the expiry index", func(t *testing.T, v *victim) func() {
		e, err := decodeEntry([]byte(v.stored(t, "f7")))
		require.NoError(t, err)
		bucket := v.key(0, fmt.Sprintf("due:%d", e.bucket))
		require.NoError(t, v.redis.SRem(t.Context(), bucket, "f7").Err())
		return func() { require.NoError(t, v.redis.SAdd(context.Background(), bucket, "f7").Err()) }
	}},
	{index, "an id in a bucket after its deadline", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) { e.bucket += 1000 })
	}},
	{index, "a bucket that the walk does not know of", func(t *testing.T, v *victim) func() {
		e, err := decodeEntry([]byte(v.stored(t, "f7")))
		require.NoError(t, err)
		member := strconv.FormatInt(e.bucket, 10)
		score, err := v.redis.ZScore(t.Context(), v.key(0, "due"), member).Result()
		require.NoError(t, err)
		require.NoError(t, v.redis.ZRem(t.Context(), v.key(0, "due"), member).Err())
		return func() {
			require.NoError(t, v.redis.Do(context.Background(), "ZADD", v.key(0, "due"), score, member).Err())
		}
	}},
	{itemsCatalogue, "an item is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.key(0, "near:items"), "c") }},
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
	{delayFields, "a field that nobody writes", func(t *testing.T, v *victim) func() { return v.set(t, v.key(0, "feed:flights"), "x", "1") }},
	{delayFlights, "one in flight too many", func(t *testing.T, v *victim) func() {
		return v.add(t, "feed:flights", v.number(t, "feed", "a"), 1)
	}},
	{delayFlights, "one in flight too few, fed directly", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "near:flights"), v.number(t, "near", "b"))
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
	{boldWindows, "a selection that told of two windows", func(t *testing.T, v *victim) func() {
		return v.add(t, "front:windows", v.anyField(t, "front:windows"), 1)
	}},
	{boldWindows, "a selection that told of another window", func(t *testing.T, v *victim) func() {
		field := v.anyField(t, "front:windows")
		n, err := strconv.Atoi(v.field(t, "front:windows", field))
		require.NoError(t, err)
		undo := v.set(t, v.key(0, "front:windows"), "90:91", strconv.Itoa(n))
		return both(undo, v.unset(t, v.key(0, "front:windows"), field))
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
		return both(v.set(t, v.key(0, "liked:preferences"), worse+":"+better, v.field(t, "liked:preferences", field)),
			v.unset(t, v.key(0, "liked:preferences"), field))
	}},
	{preferences, "an estimate that is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "told:utilities"), v.anyField(t, "told:utilities"))
	}},
	{preferences, "a mean that is wrong", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "told:utilities"), v.anyField(t, "told:utilities"), "1 0.7500001 0")
	}},
	{deltas, "what was published is not what is stored", func(t *testing.T, v *victim) func() {
		return v.stats(t, "near", `"n":`, `"n":1`)
	}},
}

// TestEachLawIsSeenBroken corrupts Redis, one field at a time, and sees the law named that this breaks.
func TestEachLawIsSeenBroken(t *testing.T) {
	v := newVictim(t)
	v.live(t)
	options := func(o *Options) {
		o.Now = v.now
	}
	requireClean(t, v.check(t, options))
	for _, c := range corruptions {
		t.Run(lawNames[c.law]+"/"+c.what, func(t *testing.T) {
			undo := c.do(t, v)
			r := v.check(t, options, func(o *Options) {
				if c.law == metaTorn { // nobody will repair it
					o.Patience = 3 * time.Second
				}
			})
			undo()
			requireBroken(t, r, c.law)
		})
	}
	requireClean(t, v.check(t, options))
	r := v.check(t, options)
	for _, l := range r.Laws {
		if l.Checked == 0 {
			t.Logf("never checked in this scene: %s", l.Law)
		}
	}
}

func requireBroken(t *testing.T, r Report, l law) {
	t.Helper()
	require.False(t, r.OK())
	for _, v := range r.Violations {
		if v.Law == lawNames[l] {
			t.Log(v)
			require.NotEmpty(t, v.Expected)
			require.NotEmpty(t, v.Found)
			return
		}
	}
	t.Errorf("%s is not named, but: %v", lawNames[l], r.Violations)
}
