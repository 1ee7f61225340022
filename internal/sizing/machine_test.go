package sizing

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestMachine holds the worker's memory against the estimate, by the heap that machines take.
func TestMachine(t *testing.T) {
	t.Run("known ids", func(t *testing.T) {
		m := emptyMachine(t, machineConfig(t, "{payoffs: stochastic}", nil))
		const ids, times = 20_000, 16
		f := newTraffic(1)
		sum, last, n := 0.0, heap(), 0
		// The memory of a map grows by leaps: the mean over many sizes counts.
		for i := range times {
			page := state.PageOfIDs{Page: state.Page{Number: uint32(i + 1)}}
			for range ids {
				page.IDs = append(page.IDs, state.IDOf(uuid(f.rng)))
				n++
			}
			m.AddKnown(&page)
			if i >= times/2 {
				sum += float64(heap()-last) / float64(n)
			}
		}
		near(t, "a known id", sum/(times/2), knownBytes, "knownBytes")
		runtime.KeepAlive(m)
	})
	for _, l := range []struct{ name, yaml string }{measuredLearners[0], measuredLearners[1], {"drifting", "{payoffs: stochastic, drift: 0.1}"}} {
		t.Run("items/"+l.name, func(t *testing.T) { testItems(t, l.yaml) })
	}
}

// testItems fills machines as a process has them: with its names, and its knowledge where learners share.
func testItems(t *testing.T, yaml string) {
	const items, payoffs = 5_000, 10
	w := workload(t, yaml)
	f := newTraffic(items)
	f.every = 43_000 // ten days, for histories
	source := emptyMachine(t, machineConfig(t, yaml, partition.NewNameTable()))
	stored := map[string]state.Field{}
	take(t, source, f, items/20, false, stored)
	seen := slices.Collect(maps.Values(stored))
	take(t, source, f, items*payoffs, true, stored)
	taught := slices.Collect(maps.Values(stored))
	published := slices.DeleteFunc(slices.Clone(taught), func(f state.Field) bool { return f.Hash == state.MetaHash })
	facts := facts{payoffs: payoffs}

	cfg := machineConfig(t, yaml, partition.NewNameTable())
	cfg.Pooled = partition.NewPooledState(cfg.Learners, cfg.Names)
	load := func(fields []state.Field) *partition.Machine {
		cfg.Partition++
		m, err := partition.New(cfg)
		require.NoError(t, err)
		for _, one := range fields {
			require.NoError(t, m.Load(one))
		}
		require.NoError(t, m.Loaded())
		m.KnownComplete()
		return m
	}
	last := heap()
	since := func() float64 {
		now := heap()
		defer func() { last = now }()
		return float64(now-last) / items
	}
	machines := []*partition.Machine{load(seen)}
	first := since()
	machines = append(machines, load(seen))
	met := since()
	near(t, "an item in the process and a partition", first, float64(nameBytes+12)+w.metMemory(), "nameBytes or metBytes")
	near(t, "an item in a partition", met, w.metMemory(), "metBytes")

	reader := partition.NewPublishedReader(cfg.Learners, cfg.Names)
	publish := func(source int32) {
		all := reader.Read(source, published, func(err error) { require.NoError(t, err) })
		at := state.Fence{Token: "owner", Seq: 1}
		cfg.Pooled.BeginResync(source, at)
		cfg.Pooled.Update(source, all)
		cfg.Pooled.Whole(source, at)
		cfg.Pooled.Commit()
	}
	own := cfg.Partition + 1
	publish(own)
	publish(own + 1)
	near(t, "what an item has taught two partitions", since(), w.wholeMemory(&facts)+2*w.publishedMemory(&facts), "wholeBytes, sourceBytes or sourceBlock")
	// Lists grow by leaps: the mean over many lengths counts.
	const most = 24
	added, sum := 0.0, 0.0
	for n := 2; n < most; n++ {
		publish(own + int32(n))
		if added += since(); n >= most/2 {
			sum += added / float64(n-1)
		}
	}
	near(t, "what an item has taught one more partition", sum/(most/2), w.publishedMemory(&facts), "sourceBytes or sourceBlock")

	// Statistics come only for known items, so the machine has nothing of unknown ones. Own values that the process has read rest there.
	machines = append(machines, load(taught))
	rest(t, machines[len(machines)-1], cfg)
	near(t, "what an item has taught its partition", since()-met, w.taughtMemory(&facts), "paidBytes, paidApart or historyMemory")
	cfg.Partition += most // not published by anybody
	machines = append(machines, load(taught))
	near(t, "and where others did not publish", since()-met, w.taughtMemory(&facts)+w.freshMemory(&facts), "freshBytes or packedBlock")
	runtime.KeepAlive([]any{machines, source, stored, seen, taught, published, reader, cfg, f})
}

// rest seals a machine whose publications the pooled state has read.
func rest(t testing.TB, m *partition.Machine, cfg partition.Config) {
	t.Helper()
	at := state.Fence{Token: "owner", Seq: 1}
	m.Saved(0, at)
	var c state.Changes
	segment, _ := m.Seal(&c)
	m.Forget(segment)
}

// take steps n impressions, each paid at once if paid is set, and keeps the machine's stored hashes, without entries.
func take(t testing.TB, m *partition.Machine, f *traffic, n int, paid bool, stored map[string]state.Field) {
	t.Helper()
	var out partition.Output
	step := func(r *partition.Record) {
		in := partition.Input{Record: r, Now: r.Timestamp, Read: [event.Inputs]bool{true, true, true}}
		require.NoError(t, m.Step(&in, &out))
	}
	for i := range n {
		s, r := f.impression()
		step(r)
		if paid {
			step(f.selection(s))
			step(f.payoff(s))
		}
		if i%1000 == 999 || i == n-1 {
			m.Tick(f.at, [event.Inputs]bool{true, true, true})
			var c state.Changes
			segment, _ := m.Seal(&c)
			m.Forget(segment)
			out.Reset()
			for _, w := range c.Writes {
				if key := w.Hash + " " + string(w.Field); w.Value == nil {
					delete(stored, key)
				} else {
					stored[key] = state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value}
				}
			}
		}
	}
}
