package partition

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// BenchmarkStepImpression is the decision path whole: decode, elimination, encode, entry, and its part in seals, at 20
// candidates of 1,000 items. The aim is at most 10 µs and nothing allocated but the sealed copies.
func BenchmarkStepImpression(b *testing.B) { benchmarkImpressions(b, qpmdConfig(b)) }

// BenchmarkStepImpressionOfAnArm is the same in an experiment, without and with a shadow on half of the impressions.
func BenchmarkStepImpressionOfAnArm(b *testing.B) {
	b.Run("impression", func(b *testing.B) { benchmarkImpressions(b, sharedConfigWithout(b)) })
	b.Run("shadow", func(b *testing.B) { benchmarkImpressions(b, sharedConfig(b)) })
}

// sharedConfigWithout is a sharedConfig without shadows.
func sharedConfigWithout(b *testing.B) Config {
	cfg := sharedConfig(b)
	cfg.Experiments[0].Shadows = nil
	return cfg
}

func benchmarkImpressions(b *testing.B, cfg Config) {
	step, size := impressions(b, cfg)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		step()
	}
}

// A decision allocates nothing of its own: less than one block an impression is left, of stored data.
func TestStepImpression_AllocatesOnlyStoredData(t *testing.T) {
	for name, cfg := range map[string]Config{"qpmd": qpmdConfig(t), "experiment": sharedConfig(t)} {
		step, _ := impressions(t, cfg)
		for range 5000 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(5000, step), name)
	}
}

// impressions returns a step that decides another impression of 20 of 1,000 items, with a seal after each 1,000, and the size of its record.
func impressions(t testing.TB, cfg Config) (step func(), size int64) {
	w := newWorld(t, cfg)
	const distinct = 4096
	records := make([]Record, distinct)
	for i := range records {
		var items []string
		for k := range 20 {
			items = append(items, fmt.Sprintf("item-%04d", (i*37+k*51)%1000))
		}
		id := fmt.Sprintf("impression-%08d", i)
		records[i] = Record{Topic: event.Impressions, Timestamp: day, Key: []byte(id), Value: impression(id, items...)}
	}
	var changes state.Changes
	i := 0
	return func() {
		rec := &records[i%distinct]
		appendHex(rec.Key[:3], uint64(i)) // a new id each time
		copy(rec.Value[len(`{"impression_id":"`):], rec.Key)
		rec.Offset = int64(i)
		in := Input{Record: rec, Now: day}
		if w.m.Resolve(state.IDOf(rec.Key)) != Known {
			t.Fatal("a look-up is needed")
		}
		if err := w.m.Step(&in, &w.out); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			if len(w.out.Rankings) != 1000 {
				t.Fatalf("%d rankings, %d dead letters", len(w.out.Rankings), len(w.out.DeadLetters))
			}
			changes = state.Changes{Entries: changes.Entries[:0], Pages: changes.Pages[:0], Writes: changes.Writes[:0]}
			segment, _ := w.m.Seal(&changes)
			w.m.Forget(segment)
			w.out.Reset()
		}
		i++
	}, int64(len(records[0].Value))
}

// BenchmarkStepPayoff is a payoff whose impression was looked up.
func BenchmarkStepPayoff(b *testing.B) {
	w := newWorld(b, qpmdConfig(b))
	const n = 10_000
	type pair struct {
		rec   Record
		found Found
	}
	pairs := make([]pair, n)
	for i := range pairs {
		id := fmt.Sprintf("i-%06d", i)
		items := []string{}
		for k := range 20 {
			items = append(items, fmt.Sprintf("item-%04d", (i*37+k*51)%1000))
		}
		require.NoError(b, w.read(event.Impressions, id, impression(id, items...), day))
		sel := event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte(items[3])})
		require.NoError(b, w.read(event.Selections, id, sel, day))
		pairs[i].rec = Record{Topic: event.Payoffs, Timestamp: day, Key: []byte(id),
			Value: event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 0.5})}
		if i%1000 == 999 {
			w.save()
			w.out.Reset()
		}
	}
	for i := range pairs {
		pairs[i].found = w.store.lookUp(w.m.Places(nil, state.IDOf(pairs[i].rec.Key)))
	}
	var changes state.Changes
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := &pairs[i%n]
		in := Input{Record: &p.rec, Now: day, Found: p.found}
		if i%n >= n-1 { // the second time round, payoffs are duplicates unless all is forgotten
			segment, _ := w.m.Seal(&changes)
			w.m.Forget(segment)
			changes = state.Changes{}
		}
		if err := w.m.Step(&in, &w.out); err != nil {
			b.Fatal(err)
		}
	}
}
