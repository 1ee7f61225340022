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

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// victim is a group in a known state, of which one thing at a time is spoilt. Everything is in partition 0.
type victim struct {
	*world
	clock   atomic.Int64
	offsets map[string]int64 // records sent so far, by role
	owner   *kgo.Client      // of the rankings; see raw
}

const victimLearners = `
  feed: {payoffs: stochastic, policy: greedy, delay: qpmd, default: true, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  front: {payoffs: adversarial, policy: osmd, max_instances: 4, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  given: {payoffs: adversarial, policy: ftrl, windows: {geometric: 0.5, max: 5}, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  near: {payoffs: stochastic, policy: greedy, delay: direct, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  still: {payoffs: stochastic, policy: greedy, delay: direct, drift: 0.5, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: {default: 0.4}}
  moves: {payoffs: adversarial, policy: robust, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  parts: {payoffs: stochastic, policy: greedy, delay: direct, aggregate: sum, payoff_range: [-1, 1], payoff_horizon: 1h, selection_timeout: 10m}
  place: {payoffs: adversarial, policy: ftrl, loss_index: rank, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  liked: {payoffs: stochastic, policy: greedy, delay: direct, utilities: sorted, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  tried: {payoffs: stochastic, policy: greedy, payoff_horizon: 1h, selection_timeout: 10m}
  same: {payoffs: stochastic, policy: greedy, payoff_horizon: 1h, selection_timeout: 10m}
  both: {payoffs: stochastic, policy: utility, payoff_horizon: 1h, selection_timeout: 10m}
  ends: {payoffs: stochastic, policy: moss, payoff_horizon: 1h, selection_timeout: 10m}
  dark: {payoffs: stochastic, policy: thompson, payoff_horizon: 1h, selection_timeout: 10m}
  social: {payoffs: stochastic, policy: greedy, delay: direct, utilities: social, payoff_horizon: 1h, selection_timeout: 10m, on_expiry: drop}
  vary: {payoffs: stochastic, policy: moss, payoff_horizon: 1h, selection_timeout: 10m, context: {item: [x], segments: [new, loyal], categories: true}}`

const victimExperiments = "experiments: {tried: {arms: {tried: 0.5, same: 0.5}, control: same}, " +
	"both: {arms: {both: 0.5, ends: 0.5}, control: ends, learning: shared, shadow: {dark: 1}, by: user, period: 1h}}"

func newVictim(t *testing.T) *victim {
	v := &victim{world: newWorld(t, testenv.Embedded(t), 1, victimLearners, victimExperiments), offsets: map[string]int64{}}
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
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	w := v.start(t, v.now)
	v.impression(t, "old", "feed") // will expire, with a selection
	v.impression(t, "left", "feed")
	v.put(t, "selections", "old", `"item":"b"`)
	v.settle(t)
	ended := func(id string) bool {
		e, err := decodeEntry([]byte(v.stored(t, id)), 0)
		return err == nil && e.kind == tombstone
	}
	for !ended("old") || !ended("left") {
		if v.now() < start+70*time.Minute.Milliseconds() { // further on, a busy machine would find the tombstones gone
			v.clock.Add(time.Minute.Milliseconds())
		}
		require.NoError(t, pause(ctx, 5*time.Millisecond), "for the tombstones")
	}
	v.put(t, "impressions", "v", `"learner":"vary","segment":"loyal","candidates":[{"item":"a","utility":1,"features":[0.5],"category":"news"}]`)
	v.put(t, "selections", "v", `"item":"a"`)
	v.put(t, "payoffs", "v", `"payoff":0.5`)
	v.put(t, "impressions", "only", `"learner":"liked","candidates":[{"item":"a"}]`) // its order is certain
	v.put(t, "selections", "only", `"item":"a"`)
	v.settle(t)
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
	for _, learner := range []string{"front", "near", "still", "parts"} {
		for n := range 3 {
			v.impression(t, fmt.Sprint(learner, n), learner)
		}
		v.settle(t)
		v.put(t, "selections", learner+"0", `"item":"a"`)
		v.put(t, "selections", learner+"1", `"item":"b"`)
		v.settle(t)
		v.put(t, "payoffs", learner+"0", `"payoff":0.5`)
	}
	v.put(t, "payoffs", "parts0", `"payoff":-0.25`) // not the last
	for n := range 8 {
		v.impression(t, fmt.Sprint("tried", n), "tried")
	}
	for n := range 8 {
		v.put(t, "impressions", fmt.Sprint("both", n), fmt.Sprintf(`"learner":"both","user":"u%d","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]`, n/2))
	}
	v.put(t, "impressions", "both9", `"learner":"both","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]`)
	v.settle(t)
	for n := range 5 {
		v.put(t, "selections", fmt.Sprint("tried", n), `"item":"a"`)
		v.put(t, "selections", fmt.Sprint("both", n), `"item":"a"`)
	}
	v.settle(t)
	for n := range 4 {
		v.put(t, "payoffs", fmt.Sprint("tried", n), `"payoff":0.25`)
		v.put(t, "payoffs", fmt.Sprint("both", n), `"payoff":0.75`)
	}
	v.settle(t)
	v.teach(t, "3")
	w.stop(t)
}

// teach lets each learner rank an impression, of which the item shown last is selected and paid.
func (v *victim) teach(t *testing.T, number string) {
	t.Helper()
	learners := []string{"front", "given", "near", "still", "moves", "place", "liked", "social"}
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

// anyField is the least field of a hash with a beginning.
func (v *victim) anyField(t *testing.T, hash string, beginning ...string) string {
	t.Helper()
	fields, err := v.redis.HKeys(t.Context(), v.key(0, hash)).Result()
	require.NoError(t, err)
	fields = slices.DeleteFunc(fields, func(field string) bool { return !strings.HasPrefix(field, strings.Join(beginning, "")) })
	require.NotEmpty(t, fields, hash)
	return slices.Min(fields)
}

// move gives a field another name.
func (v *victim) move(t *testing.T, hash, from, to string) (undo func()) {
	t.Helper()
	return both(v.set(t, v.key(0, hash), to, v.field(t, hash, from)), v.unset(t, v.key(0, hash), from))
}

// vector changes the first number of a block of an instance's vector.
func (v *victim) vector(t *testing.T, hash string, by float64) (undo func()) {
	t.Helper()
	field := v.anyField(t, hash)
	block := []byte(v.field(t, hash, field))
	x := math.Float64frombits(binary.LittleEndian.Uint64(block[4:]))
	binary.LittleEndian.PutUint64(block[4:], math.Float64bits(x+by))
	return v.set(t, v.key(0, hash), field, string(block))
}

// change changes a field of a hash, in which something has to be replaced.
func (v *victim) change(t *testing.T, hash, field, old, by string) (undo func()) {
	t.Helper()
	value := v.field(t, hash, field)
	require.Contains(t, value, old)
	return v.set(t, v.key(0, hash), field, strings.Replace(value, old, by, 1))
}

// stored is the entry of an id.
func (v *victim) stored(t *testing.T, id string) string {
	value, err := v.redis.HGet(t.Context(), v.page(0, id), storedID(id)).Result()
	if err != nil {
		return ""
	}
	if len(value) > 5 && value[0] == 0xff {
		value = value[5:]
	}
	return value
}

// bucket is that of the page in which an id lies.
func (v *victim) bucket(t *testing.T, id string) int64 {
	t.Helper()
	page := strings.TrimPrefix(v.page(0, id), v.key(0, "p:"))
	bucket, err := v.redis.ZScore(t.Context(), v.key(0, "pages"), page).Result()
	require.NoError(t, err)
	return int64(bucket)
}

// page is the key of the page in which an id lies; one that is not there where it lies in none.
func (w *world) page(p int, id string) string {
	ctx := context.Background()
	for _, page := range w.redis.ZRange(ctx, w.key(p, "pages"), 0, -1).Val() {
		if key := w.key(p, "p:"+page); w.redis.HExists(ctx, key, storedID(id)).Val() {
			return key
		}
	}
	return w.key(p, "p:0")
}

// set changes a field of a hash, and returns the function that undoes it.
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

// entry changes the stored entry of an id.
func (v *victim) entry(t *testing.T, id string, change func(*entry)) (undo func()) {
	t.Helper()
	e, err := decodeEntry([]byte(v.stored(t, id)), v.bucket(t, id))
	require.NoError(t, err)
	change(e)
	return v.set(t, v.page(0, id), storedID(id), string(encodeEntry(e)))
}

func both(undo ...func()) func() {
	return func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
}

// encodeEntry is the reverse of decodeEntry: nothing is packed tighter than it must be, and times are all in milliseconds.
func encodeEntry(e *entry) []byte {
	var flags uint64
	set := func(on bool, bit uint64) {
		if on {
			flags |= bit
		}
	}
	selected := e.kind == pending && e.selected >= 0
	set(e.hasSelection, flagSelectionDeadline)
	set(selected, flagSelected)
	set(selected && !e.alone, flagWhole)
	set(e.offset >= 0, flagOffset)
	set(e.kind == pending, flagFromBegan)
	set(len(e.propensities) > 0, flagPropensities)
	set(e.instance >= 0, flagInstance)
	set(len(e.ranks) > 0, flagRanks)
	set(e.count > 0, flagSum)
	set(len(e.parked) > 0, flagParked)
	set(len(e.undecided) > 0, flagUndecided)
	set(e.inParts, flagInParts)
	set(e.ordered, flagOrdered)
	set(e.favourite, flagFavourite)
	set(len(e.expected) > 0, flagExpected)
	set(e.inExperiment, flagArm)
	head := 1 | byte(e.kind)<<3
	if flags != 0 {
		head |= 128
	}
	if e.wasSelected {
		head |= 32
	}
	if e.paidOnce {
		head |= 64
	}
	b := []byte{head}
	if flags != 0 {
		b = binary.AppendUvarint(b, flags)
	}
	if e.kind != parkedOnly {
		b = binary.AppendUvarint(b, uint64(e.learner))
	}
	if e.kind == pending {
		b = encodeImpression(b, e, selected)
	}
	if len(e.parked) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.parked)))
		for _, p := range e.parked {
			b = append(b, byte(p.topic))
			b = binary.AppendUvarint(b, uint64(p.offset))
			b = binary.AppendVarint(b, 0)
			b = binary.AppendVarint(b, p.effective)
			b = binary.AppendVarint(b, p.deadline-p.effective)
			b = binary.AppendUvarint(b, uint64(len(p.value)))
			b = append(b, p.value...)
		}
	}
	if e.inExperiment {
		part := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(e.arm)), uint64(e.covariate))
		b = append(append(b, byte(len(part))), part...)
	}
	return b
}

func encodeImpression(b []byte, e *entry, selected bool) []byte {
	span := func(d event.Millis) { b = binary.AppendUvarint(b, uint64(d<<1^d>>63)<<2) }
	packed := func(all []int32) { // 31 bits each
		if len(all) == 0 {
			return
		}
		bits := make([]byte, (31*len(all)+7)/8)
		for k, x := range all {
			for bit := range 31 {
				bits[(31*k+bit)/8] |= byte(x>>bit&1) << ((31*k + bit) % 8)
			}
		}
		b = append(append(b, 31), bits...)
	}
	b = binary.AppendVarint(b, e.began-e.bucket*bucketWidth)
	span(e.payDeadline - e.began)
	if e.hasSelection && !selected {
		span(e.selDeadline - e.began)
	}
	if e.offset >= 0 {
		b = binary.AppendUvarint(b, uint64(e.offset))
	}
	if e.alone {
		b = binary.AppendUvarint(b, uint64(e.items[0]))
	} else {
		b = binary.AppendUvarint(b, uint64(len(e.items)))
		packed(e.items)
		if selected {
			b = binary.AppendUvarint(b, uint64(e.selected))
		}
	}
	for _, p := range e.propensities {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p))
	}
	if e.instance >= 0 {
		b = binary.AppendUvarint(b, uint64(e.instance))
	}
	packed(e.ranks)
	if len(e.undecided) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.undecided)))
		for _, r := range e.undecided {
			b = binary.AppendUvarint(b, uint64(r))
		}
	}
	for _, x := range e.expected {
		b = binary.AppendVarint(b, x)
	}
	if e.count > 0 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.sum))
		b = binary.AppendUvarint(b, uint64(e.count))
		b = binary.AppendUvarint(b, uint64(len(e.events)))
		for _, h := range e.events {
			b = binary.LittleEndian.AppendUint64(b, h)
		}
	}
	return b
}

// ended makes a pending entry a tombstone.
func ended(e *entry, paidOnce, wasSelected bool) {
	*e = entry{kind: tombstone, bucket: e.bucket, learner: e.learner, offset: -1, instance: -1, selected: -1, wasSelected: wasSelected, paidOnce: paidOnce}
}

// number is the one that Redis gives to an item of a learner.
func (v *victim) number(t *testing.T, learner, item string) string {
	t.Helper()
	pages, err := v.redis.HGetAll(t.Context(), v.key(0, learner+":names")).Result()
	require.NoError(t, err)
	for page, value := range pages {
		items, err := parseNamesPage(page, value)
		require.NoError(t, err)
		if it, there := items[item]; there {
			return strconv.FormatInt(it.number, 10)
		}
	}
	require.FailNow(t, "no such item", "%s of %s", item, learner)
	return ""
}

// TestEachLawIsSeenBroken corrupts Redis, one field at a time, and sees the law named that this breaks.
func TestEachLawIsSeenBroken(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	requireClean(t, v.check(t))
	for _, c := range corruptions {
		t.Run(lawNames[c.law]+"/"+c.what, func(t *testing.T) {
			undo := c.do(t, v)
			r := v.check(t, func(o *Options) {
				if c.law == metaTorn { // nobody will repair it
					o.Patience = 3 * time.Second
				}
			})
			undo()
			requireBroken(t, r, c.law)
		})
	}
	requireClean(t, v.check(t))
	r := v.check(t)
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

// list lists the page of an id in another bucket, or not at all where that is nil.
func (v *victim) list(t *testing.T, id string, to func(float64) float64) (undo func()) {
	t.Helper()
	key, page := v.key(0, "pages"), v.page(0, id)
	member := page[strings.LastIndex(page, ":")+1:]
	score, err := v.redis.ZScore(t.Context(), key, member).Result()
	require.NoError(t, err)
	if to == nil {
		require.NoError(t, v.redis.ZRem(t.Context(), key, member).Err())
	} else {
		require.NoError(t, v.redis.ZAdd(t.Context(), key, redis.Z{Score: to(score), Member: member}).Err())
	}
	return func() {
		require.NoError(t, v.redis.ZAdd(context.Background(), key, redis.Z{Score: score, Member: member}).Err())
	}
}
