package sizing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// group is that of the partitions that are measured. Its name is part of every key.
const group = "ranker"

// began is the event time of the first impression.
const began event.Millis = 1_800_000_000_000

// loadConfig reads a configuration with one learner, feed.
func loadConfig(t testing.TB, learner string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load("worker.yaml", []byte("kafka: {brokers: ['k:9092'], group: "+group+"}\nredis: {url: 'redis://r:6379/0'}\nlearners: {feed: "+
		learner+"}\n"), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return cfg
}

// machineConfig is that of the worker, with randomness that is the same at each run.
func machineConfig(t testing.TB, learner string, names partition.Names) partition.Config {
	t.Helper()
	cfg, err := app.MachineConfig(loadConfig(t, learner))
	require.NoError(t, err)
	cfg.MaxRankingBytes, cfg.Salt, cfg.HashKey, cfg.Names = 1<<20, 1, 2, names
	return cfg
}

// traffic makes records: impressions of items in turn, so that all are met, with identifiers that are random UUIDs.
type traffic struct {
	rng        *rand.Rand
	items      int
	candidates int
	utilities  bool
	next       int // position in the catalogue
	every      event.Millis

	offsets [event.Inputs]int64
	at      event.Millis
}

// shown is an impression that was made.
type shown struct {
	id   []byte
	item []byte
}

func newTraffic(items int) *traffic {
	return &traffic{rng: rand.New(rand.NewPCG(3, 4)), items: items, candidates: 20, utilities: true, every: 10, at: began}
}

func uuid(rng *rand.Rand) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], rng.Uint64())
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func itemName(i int) []byte { return fmt.Appendf(nil, "item-%07d", i) }

// record makes the next record of a topic.
func (f *traffic) record(topic event.Topic, id, value []byte) *partition.Record {
	r := &partition.Record{Topic: topic, Offset: f.offsets[topic], Timestamp: f.at, Key: id, Value: value}
	f.offsets[topic]++
	return r
}

// impression makes one 10 ms after the one before: 1,000 in a bucket of the expiry index.
func (f *traffic) impression() (shown, *partition.Record) {
	f.at += f.every
	i := event.Impression{ID: uuid(f.rng), Time: f.at, HasTime: true, HasUtilities: f.utilities}
	for range f.candidates {
		c := event.Candidate{Item: itemName(f.next % f.items)}
		if f.utilities {
			c.Utility = float64(f.rng.IntN(1000)) / 1000
		}
		f.next++
		i.Candidates = append(i.Candidates, c)
	}
	return shown{i.ID, i.Candidates[f.rng.IntN(f.candidates)].Item}, f.record(event.Impressions, i.ID, event.AppendImpression(nil, &i))
}

func (f *traffic) selection(s shown) *partition.Record {
	return f.record(event.Selections, s.id, event.AppendSelection(nil, &event.Selection{ID: s.id, Item: s.item, Time: f.at, HasTime: true}))
}

func (f *traffic) payoff(s shown) *partition.Record {
	return f.record(event.Payoffs, s.id, event.AppendPayoff(nil, &event.Payoff{ID: s.id, Payoff: float64(f.rng.IntN(1000)) / 1000, Time: f.at, HasTime: true}))
}

// emptyMachine is one of which nothing is stored.
func emptyMachine(t testing.TB, cfg partition.Config) *partition.Machine {
	t.Helper()
	m, err := partition.New(cfg)
	require.NoError(t, err)
	require.NoError(t, m.Loaded())
	m.KnownComplete()
	return m
}

// owner is a partition that is worked on: its machine, and its state in a real Redis of the test's own.
type owner struct {
	t       testing.TB
	machine *partition.Machine
	store   *redisstore.Store
	raw     *redis.Client
	cut     state.Checkpoint
	out     partition.Output
	entries []state.Entry // saved last
	bytes   sizes

	published int64 // bytes
}

// sizes are bytes of records.
type sizes struct{ impressions, rankings, selections, payoffs int64 }

// own begins partition 0.
func own(t testing.TB, cfg partition.Config) *owner {
	t.Helper()
	addr := testenv.OwnRedis(t, server.Options{Args: []string{"--hash-max-listpack-value", "512"}}).Addr
	s, err := redisstore.New(redisstore.Options{Addresses: []string{addr}, Group: group})
	require.NoError(t, err)
	raw := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, raw.Close())
	})
	o := &owner{t: t, machine: emptyMachine(t, cfg), store: s, raw: raw}
	o.begin(0)
	o.save(state.Changes{}) // so that Redis has the scripts
	_, _, err = s.LookUp(t.Context(), 0, []state.Place{{Page: 1}}, 1)
	require.NoError(t, err)
	return o
}

// begin takes a partition over that has no state.
func (o *owner) begin(p int32) {
	o.t.Helper()
	fresh := state.Meta{Layout: task.StateLayout, ClusterID: "c", TopicNames: []string{"impressions", "selections", "payoffs", "rankings"}, Partitions: 6,
		Inputs: make([]state.Position, event.Inputs)}
	meta, err := o.store.Acquire(o.t.Context(), p, 1, true, &fresh)
	require.NoError(o.t, err)
	o.cut = state.Checkpoint{Fence: meta.Fence, Meta: meta}
}

// step steps records, after the look-ups that they need.
func (o *owner) step(records []*partition.Record) {
	o.t.Helper()
	var ask []state.Place
	found := map[state.ID]partition.Found{}
	for _, r := range records {
		if id := state.IDOf(r.Key); o.machine.Resolve(id) == partition.NeedsLookUp {
			ask = o.machine.Places(ask, id)
		}
	}
	if len(ask) > 0 {
		_, values, err := o.store.LookUp(o.t.Context(), 0, ask, 1<<30)
		require.NoError(o.t, err)
		for i, v := range values {
			if v != nil {
				found[ask[i].ID] = partition.Found{Page: ask[i].Page, Value: v}
			}
		}
	}
	for _, r := range records {
		in := partition.Input{Record: r, Now: r.Timestamp, Read: [event.Inputs]bool{true, true, true}, Found: found[state.IDOf(r.Key)]}
		require.NoError(o.t, o.machine.Step(&in, &o.out))
		switch n := int64(len(r.Key) + len(r.Value)); r.Topic {
		case event.Impressions:
			o.bytes.impressions += n
		case event.Selections:
			o.bytes.selections += n
		default:
			o.bytes.payoffs += n
		}
	}
	require.Empty(o.t, o.out.DeadLetters)
	for _, r := range o.out.Rankings {
		o.bytes.rankings += int64(len(r.Key) + len(r.Value) + len(r.Steps))
	}
	o.out.Reset()
}

// seal returns the changes since the last seal.
func (o *owner) seal() (all state.Changes) {
	segment, _ := o.machine.Seal(&all)
	o.machine.Forget(segment)
	o.entries = all.Entries
	for i := range all.Writes {
		if w := &all.Writes[i]; w.Publish {
			o.published += int64(len(w.Hash) + len(w.Field) + len(w.Value) + 3) // and their lengths
		}
	}
	return all
}

func (o *owner) save(c state.Changes) {
	o.t.Helper()
	o.cut.ID, o.cut.Changes = strconv.FormatInt(o.cut.Fence.Seq, 10), c
	require.NoError(o.t, o.store.Checkpoint(o.t.Context(), 0, &o.cut))
	o.cut.Fence.Seq++
}

// memoryOf returns one key's bytes; 0 where there is none.
func (o *owner) memoryOf(key string) int64 {
	o.t.Helper()
	n, err := o.raw.MemoryUsage(o.t.Context(), "{"+group+":0}:"+key, 0).Result()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(o.t, err)
	return n
}

// heap is how much memory of this process lives.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// streamBytes are those of the stream for other partitions.
func (o *owner) streamBytes() int64 { return o.memoryOf("deltas") }

// pages returns the bytes of all entries.
func (o *owner) pages() float64 { return o.keys("p:*") }

// total returns the bytes of the partition's keys, without its stream of deltas.
func (o *owner) total() float64 { return o.keys("*") - float64(o.streamBytes()) }

func (o *owner) keys(pattern string) (total float64) {
	o.t.Helper()
	const prefix = "{" + group + ":0}:"
	keys := o.raw.Scan(o.t.Context(), 0, prefix+pattern, 1000).Iterator()
	seen := map[string]bool{} // a scan may name a key twice
	for keys.Next(o.t.Context()) {
		if key := strings.TrimPrefix(keys.Val(), prefix); !seen[key] {
			seen[key] = true
			total += float64(o.memoryOf(key))
		}
	}
	require.NoError(o.t, keys.Err())
	return total
}

// workload is one for a learner, with everything else as it comes.
func workload(t testing.TB, yaml string) *Workload {
	t.Helper()
	w := Standard()
	w.Configure(loadConfig(t, yaml), loadConfig(t, yaml).DefaultLearner())
	require.NoError(t, w.Validate())
	return w
}
