package partition

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func impression(id string, items ...string) []byte {
	imp := event.Impression{ID: []byte(id), HasUtilities: true}
	for i, item := range items {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(item), Utility: float64(i)})
	}
	return event.AppendImpression(nil, &imp)
}

// TestFilledUtilities: a candidate without a utility is ranked as one with the median of the others', and counted.
func TestFilledUtilities(t *testing.T) {
	w := newWorld(t, testConfig())
	records := map[string]string{
		"i-1": `{"item":"a","utility":3},{"item":"b"},{"item":"c","utility":1},{"item":"d","utility":2}`,
		"i-2": `{"item":"a","utility":3},{"item":"b","utility":2},{"item":"c","utility":1},{"item":"d","utility":2}`,
	}
	var orders [][]string
	for _, id := range []string{"i-1", "i-2"} {
		require.NoError(t, w.read(event.Impressions, id, []byte(`{"impression_id":"`+id+`","candidates":[`+records[id]+`]}`), day))
		var r event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, w.decided[w.next[event.Impressions]-1]))
		var items []string
		for _, item := range r.Items {
			items = append(items, string(item))
		}
		orders = append(orders, items)
	}
	require.Equal(t, orders[1], orders[0])
	require.Equal(t, FilledStatus{Candidates: 1, Impressions: 1}, w.m.Learners()[0].Filled)
	require.Empty(t, w.letters)
}

// TestNewIDsNeedNoLookUp: with all stored ids known, an impression with a new id is decided without asking the store;
// until then every id is looked up that is not in memory.
func TestNewIDsNeedNoLookUp(t *testing.T) {
	w := newWorld(t, testConfig())
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a"), day))
	require.Equal(t, Known, w.m.Resolve(w.text("i-1")), "in memory")
	w.save()
	require.Equal(t, NeedsLookUp, w.m.Resolve(w.text("i-1")), "in the store only")
	require.Equal(t, Known, w.m.Resolve(w.text("i-2")), "certainly new")

	w.start()
	require.Equal(t, NeedsLookUp, w.m.Resolve(w.text("i-2")), "not yet known to be new")
	w.walkKnown()
	require.Equal(t, Known, w.m.Resolve(w.text("i-2")))
	require.Equal(t, NeedsLookUp, w.m.Resolve(w.text("i-1")))

	w.tick(day+10_000_000, [event.Inputs]bool{true, true, true})
	w.walk(10)
	require.Empty(t, w.store.entries())
	require.Equal(t, Known, w.m.Resolve(w.text("i-1")), "gone from the store, hence new again")
	require.Zero(t, w.m.segments.over.entries, "all is forgotten")
	require.Empty(t, w.m.segments.over.slots)
	require.Empty(t, w.m.expiry.touched)
}

// TestOneImpressionIsOneLookUpAtMost counts look-ups over a whole life.
func TestLookUps(t *testing.T) {
	w := newWorld(t, testConfig())
	for i := range 100 {
		id := fmt.Sprint("i-", i)
		require.NoError(t, w.read(event.Impressions, id, impression(id, "a", "b"), day))
	}
	require.Zero(t, w.lookups)
	w.save()
	for i := range 100 {
		id := fmt.Sprint("i-", i)
		sel := event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte("a")})
		require.NoError(t, w.read(event.Selections, id, sel, day))
		p := event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1})
		require.NoError(t, w.read(event.Payoffs, id, p, day))
	}
	require.Equal(t, 100, w.lookups, "the payoff finds in memory what the selection looked up and changed")
}

// TestOverlayWithCollidingHashes: ids distinguish slots with one hash, in any order of coming and going.
func TestOverlayWithCollidingHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOverlay()
		have := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "id")
			hash := uint64(id[0] % 2)
			s := o.find(hash, state.IDOf([]byte(id)))
			require.Equal(t, have[id], s != nil)
			if s == nil {
				o.add(hash, state.IDOf([]byte(id)))
				have[id] = true
			} else {
				o.drop(s)
				delete(have, id)
			}
			require.Len(t, have, o.entries)
			for id := range have {
				require.NotNil(t, o.find(uint64(id[0]%2), state.IDOf([]byte(id))))
			}
		}
	})
}

// TestSealedChangesStay: sealed changes stay as they are when the machine goes on.
func TestSealedChangesStay(t *testing.T) {
	w := newWorld(t, testConfig())
	var c state.Changes
	var copied []state.Entry
	for i := range 300 {
		id := fmt.Sprint("i-", i)
		require.NoError(t, w.read(event.Impressions, id, impression(id, "a", fmt.Sprint("b-", i)), day))
		if i%7 == 0 {
			from := len(c.Entries)
			segment, any := w.m.Seal(&c)
			require.True(t, any)
			require.EqualValues(t, i/7+1, segment)
			for _, e := range c.Entries[from:] {
				copied = append(copied, state.Entry{Place: e.Place, Value: slices.Clone(e.Value)})
			}
			if i%14 == 0 {
				w.m.Forget(segment)
			}
		}
	}
	require.Equal(t, copied, c.Entries)
	_, bytes := w.m.Dirty()
	require.Positive(t, bytes)
	segment, _ := w.m.Seal(&c)
	again, any := w.m.Seal(&c)
	require.False(t, any, "nothing has changed")
	require.Equal(t, segment+1, again)
	entries, bytes := w.m.Dirty()
	require.Zero(t, entries)
	require.Zero(t, bytes)
}

// TestAdoptionRefusesContradictions: a decision in the log that cannot be this impression's stops the partition.
func TestAdoptionRefusesContradictions(t *testing.T) {
	ranking := func(id string, offset int64, by event.Millis, items ...string) *event.Ranking {
		r := &event.Ranking{ID: []byte(id), Learner: []byte("feed")}
		for _, item := range items {
			r.Items = append(r.Items, []byte(item))
		}
		r.Decision = event.Decision{Offset: offset, Instance: -1, PayoffDeadline: by}
		return r
	}
	const by = 600_000
	for name, c := range map[string]struct {
		decided *event.Ranking
		ok      bool
	}{
		"fits":             {ranking("i-2", 1, day+by, "b", "a"), true},
		"another id":       {ranking("i-3", 1, day+by, "b", "a"), false},
		"another offset":   {ranking("i-2", 2, day+by, "b", "a"), false},
		"other candidates": {ranking("i-2", 1, day+by, "b", "c"), false},
		"a candidate less": {ranking("i-2", 1, day+by, "b"), false},
		"an item twice":    {ranking("i-2", 1, day+by, "b", "b"), false},
		// The first i-1 had ended and was forgotten by then: by a payoff that this replay does not know of, or by its deadlines, which
		// lie before those of the second.
		"a known id":     {ranking("i-1", 1, day+by, "b", "a"), true},
		"a forgotten id": {ranking("i-1", 1, day+2*by+60_001, "b", "a"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testConfig())
			w.now = day
			require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a", "b"), day))
			id := "i-2"
			if name == "a known id" || name == "a forgotten id" {
				id = "i-1"
			}
			rec := Record{Topic: event.Impressions, Offset: 1, Timestamp: day, Key: []byte(id), Value: impression(id, "a", "b")}
			err := w.m.Step(&Input{Record: &rec, Now: day, Decided: c.decided}, &w.out)
			if c.ok {
				require.NoError(t, err)
				require.Len(t, w.out.Rankings, 1, "only the first was ranked here")
				a := w.m.Account()
				require.EqualValues(t, 1, a.Adopted)
				want := ImpressionAccount{Pending: 2}
				if id == "i-1" {
					want = ImpressionAccount{Pending: 1, Unselected: 1}
				}
				require.Equal(t, want, a.Impressions)
				return
			}
			require.ErrorIs(t, err, ErrDecision)
		})
	}
}

// TestAdoptionComesBeforeTheRulesOfTheDay: a decision is adopted even if the impression would be refused today.
func TestAdoptionComesBeforeTheRulesOfTheDay(t *testing.T) {
	cfg := testConfig()
	cfg.MaxCandidates = 1
	w := newWorld(t, cfg)
	rec := Record{Topic: event.Impressions, Timestamp: day, Key: []byte("i-1"), Value: impression("i-1", "a", "b")}
	r := event.Ranking{ID: []byte("i-1"), Learner: []byte("feed"), Items: [][]byte{[]byte("b"), []byte("a")},
		Decision: event.Decision{Instance: -1, Began: day, PayoffDeadline: day + 5, HasSelection: true, SelectionDeadline: day + 3}}
	require.NoError(t, w.m.Step(&Input{Record: &rec, Now: day, Decided: &r}, &w.out))
	require.Empty(t, w.out.DeadLetters)
	require.Equal(t, "pending: feed offset 0, b a, selection by 00:00:00, payoff by 00:00:00, bucket 00:00:00", w.entry("i-1"))
}

// TestCutRecordSaysItsWholeSize: the dead letter of a record whose beginning alone is at hand says how long the record was.
func TestCutRecordSaysItsWholeSize(t *testing.T) {
	w := newWorld(t, testConfig())
	value := bytes.Repeat([]byte{' '}, 1<<16+1)
	rec := Record{Topic: event.Payoffs, Timestamp: day, Key: []byte("x"), Value: value, Cut: &Cut{Size: 9 << 20}}
	require.NoError(t, w.m.Step(&Input{Record: &rec, Now: day}, &w.out))
	require.Len(t, w.out.DeadLetters, 1)
	require.Equal(t, "key and value have 9437184 bytes, a value may have at most 65536", w.out.DeadLetters[0].Detail)
	require.Equal(t, 9<<20, w.out.DeadLetters[0].Size)
}

// TestRefusedEarlier: an impression that an earlier owner left unranked is never ranked.
func TestRefusedEarlier(t *testing.T) {
	w := newWorld(t, testConfig())
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a"), day))
	for i, c := range []struct{ id, value, reason string }{
		{"i-1", string(impression("i-1", "a")), ""},
		{"i-2", string(impression("i-2", "a")), "refused_earlier"},
		{"i-3", "{", "malformed_json"},
	} {
		rec := Record{Topic: event.Impressions, Offset: int64(i + 1), Timestamp: day, Key: []byte(c.id), Value: []byte(c.value)}
		letters := len(w.out.DeadLetters)
		require.NoError(t, w.m.Step(&Input{Record: &rec, Now: day, RefusedEarlier: true}, &w.out))
		require.Len(t, w.out.Rankings, 1)
		if c.reason == "" {
			require.Len(t, w.out.DeadLetters, letters)
		} else {
			require.Equal(t, c.reason, w.out.DeadLetters[letters].Reason)
		}
	}
	a := w.m.Account()
	require.Equal(t, ImpressionAccount{Pending: 1, Duplicate: 1, Rejected: 2}, a.Impressions)
}

// TestBrokenStateStops: stored bytes that cannot be ours stop the partition; nothing is guessed.
func TestBrokenStateStops(t *testing.T) {
	good := func() *memory {
		w := newWorld(t, testConfig())
		require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a"), day))
		require.NoError(t, w.read(event.Selections, "i-1", []byte(`{"impression_id":"i-1","item":"a"}`), day))
		w.save()
		return w.store
	}
	set := func(hash, field, value string) func(*memory) {
		return func(s *memory) { s.fields[hash][field] = value }
	}
	for name, damage := range map[string]func(*memory){
		"watermark":         set("meta", "watermark", "soon"),
		"negative":          set("meta", "watermark", "-1"),
		"salt":              set("meta", "salt", "x"),
		"unknown count":     set("meta", "account.impressions.lost", "some"),
		"steps":             set("meta", "steps", "1 0 ff"),
		"steps' version":    set("meta", "steps", "2 0 "),
		"count's name":      set("meta", "account.payoffs.bounced", "7"),
		"learner's count":   set("meta", "learner.feed", `{"no":0,"fingerprint":"v1","account":{"payoffs.bounced":5}}`),
		"field of items":    set("feed:catalogue", "holes", "1"),
		"count":             set("meta", "account.impressions.read", "-1"),
		"learner table":     set("meta", "learner.feed", "{}"),
		"gap in the table":  set("meta", "learner.feed", `{"no":1,"fingerprint":"v1"}`),
		"item":              set("feed:items", "a", `{"no":0,"n":0}`),
		"item number":       set("feed:items", "a", `{"no":1,"n":0,"sum":0,"sumsq":0}`),
		"item number twice": set("feed:items", "b", `{"no":0,"n":0,"sum":0,"sumsq":0}`),
		"item without name": set("feed:items", "b", `{"no":1,"n":0,"sum":0,"sumsq":0}`),
		"names cut off":     set("feed:names", "0", "\x00\x02"),
		"names of nobody":   set("feed:names", "x", "\x00\x02a\x00"),
		"names elsewhere":   set("feed:names", "1", "\x00\x02a\x00"),
		"too many names":    set("feed:names", "0", "\x00"+strings.Repeat("\x00", namesInPage)+"\x02a\x00"),
		"items' count":      set("feed:catalogue", "items", "many"),
		"not a number":      set("feed:items", "a", `{"no":0,"n":1,"sum":1e999,"sumsq":0}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, cfg: testConfig(), store: good()}
			damage(w.store)
			require.Error(t, w.tryStart())
		})
	}
	for name, value := range map[string]string{
		"cut off":         "\x01",
		"version":         "\x02\x02\x00",
		"unknown learner": string(appendEntry(nil, &entry{kind: tombstone, learner: 1})),
		"unknown item": string(appendEntry(nil, &entry{kind: pending, items: []policy.Item{7}, selected: -1,
			instance: -1})),
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, cfg: testConfig(), store: good(), decided: map[int64][]byte{}}
			require.NoError(t, w.tryStart())
			id := w.text("i-1")
			w.store.apply(&state.Changes{Pages: []state.Page{{Number: 1}},
				Entries: []state.Entry{{Place: state.Place{Page: 1, ID: id}, Value: []byte(value)}}})
			w.walkKnown()
			require.ErrorIs(t, w.read(event.Payoffs, "i-1", []byte(`{"impression_id":"i-1","payoff":1}`), day), errEntry)
		})
	}
}

// TestFingerprints: statistics of one definition of payoffs are not continued under another.
func TestFingerprints(t *testing.T) {
	w := newWorld(t, testConfig())
	w.save()
	was := w.cfg.Learners[0].Fingerprint
	w.cfg.Learners[0].Fingerprint = "v2"
	err := w.tryStart()
	require.ErrorIs(t, err, ErrLearner)
	require.ErrorContains(t, err, `"feed"`)
	var unfit *UnfitError
	require.ErrorAs(t, err, &unfit)
	require.Equal(t, was, unfit.Stored["feed"])

	other := w.cfg.Learners[0]
	other.Name = "front"
	w.cfg.Learners = []LearnerConfig{other}
	require.NoError(t, w.tryStart())
	got := w.m.Learners()
	require.Equal(t, LearnerStatus{Name: "feed", Number: 0, Gone: true}, got[0])
	require.Equal(t, LearnerStatus{Name: "front", Number: 1, PayoffMax: 1}, got[1])
}

// TestConfig: invalid configurations are refused.
func TestConfig(t *testing.T) {
	for name, damage := range map[string]func(*Config){
		"no name":        func(c *Config) { c.Learners[0].Name = "" },
		"twice":          func(c *Config) { c.Learners = append(c.Learners, c.Learners[0]) },
		"two defaults":   func(c *Config) { c.Learners = append(c.Learners, c.Learners[0]); c.Learners[1].Name = "b"; both(c) },
		"no maker":       func(c *Config) { c.Learners[0].New = nil },
		"empty range":    func(c *Config) { c.Learners[0].PayoffMax = c.Learners[0].PayoffMin },
		"negative time":  func(c *Config) { c.Learners[0].PayoffHorizon = -1 },
		"default":        func(c *Config) { d := 2.0; c.Learners[0].ExpiryDefault = &d },
		"parking time":   func(c *Config) { c.ParkingTime = -1 },
		"no ranking":     func(c *Config) { c.MaxRankingBytes = 0 },
		"hash in common": func(c *Config) { c.Learners = append(c.Learners, c.Learners[0]); clash(c) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			damage(&cfg)
			_, err := New(cfg)
			require.ErrorIs(t, err, errConfig)
		})
	}
}

func both(c *Config) { c.Learners[0].Default, c.Learners[1].Default = true, true }

// clash gives learner "feed" a hash "x:items" and another learner the name "feed:x".
func clash(c *Config) {
	c.Learners[0].New = func() delay.Learner { return clashing{&tally{changed: map[policy.Item]bool{}}} }
	c.Learners[1].Name = "feed:x"
}

type clashing struct{ *tally }

func (clashing) Hashes() []string { return []string{"x:items"} }

// TestPublishedFields: other partitions' sums reach the learner, and are not stored as our own, nor their items.
func TestPublishedFields(t *testing.T) {
	cfg := qpmdConfig(t)
	cfg.Names = NewNameTable()
	cfg.Pooled = NewPooledState(cfg.Learners, cfg.Names)
	w := newWorld(t, cfg)
	r := NewPublishedReader(cfg.Learners, cfg.Names)
	failed := 0
	cfg.Pooled.Update(7, r.Read(7, []state.Field{
		{Hash: "feed:items", Field: []byte("a"), Value: []byte(`{"no":9,"n":3,"sum":2,"sumsq":1.5}`)},
		{Hash: "nobody:items", Field: []byte("a"), Value: []byte(`{"no":9,"n":3,"sum":2,"sumsq":1.5}`)},
		{Hash: "feed:items", Field: []byte("b"), Value: []byte(`{"no":9,"n":-3,"sum":2,"sumsq":1.5}`)},
		{Hash: "feed:nothing", Field: []byte("b"), Value: []byte("1")},
	}, func(error) { failed++ }))
	cfg.Pooled.Commit()
	require.Equal(t, 1, failed)
	require.EqualValues(t, 3, w.m.Learners()[0].Fed)
	w.save()
	require.Empty(t, w.store.items(t, "feed"))
	require.Empty(t, w.store.fields["feed:items"], "nothing of ours to publish")
}

// TestMisplaced counts records whose key belongs to another partition.
func TestMisplaced(t *testing.T) {
	cfg := testConfig()
	cfg.CheckCopartition = func(key []byte) int32 { return int32(key[len(key)-1] - '0') }
	w := newWorld(t, cfg)
	require.NoError(t, w.read(event.Impressions, "i-3", impression("i-3", "a"), day))
	require.NoError(t, w.read(event.Impressions, "i-4", impression("i-4", "a"), day))
	require.Equal(t, [event.Inputs]int64{1, 0, 0}, w.m.Account().Misplaced)
}

// TestOutputOwnsItsBytes: nothing in an output changes when inputs are overwritten or more is put into it.
func TestOutputOwnsItsBytes(t *testing.T) {
	w := newWorld(t, testConfig())
	var want []string
	for i := range 200 {
		id := fmt.Sprint("i-", i)
		key, value := []byte(id), impression(id, "a", "b")
		if i%3 == 0 {
			value = []byte("{ broken")
		}
		rec := Record{Topic: event.Impressions, Offset: int64(i), Timestamp: day, Key: key, Value: value}
		require.NoError(t, w.m.Step(&Input{Record: &rec, Now: day}, &w.out))
		if i%3 == 0 {
			want = append(want, id+" { broken")
		}
		clear(key)
		clear(value)
	}
	var got []string
	for _, l := range w.out.DeadLetters {
		got = append(got, string(l.Key)+" "+string(l.Value))
	}
	require.Equal(t, want, got)
	dec := event.NewDecoder(event.Limits{})
	for _, m := range w.out.Rankings {
		var r event.Ranking
		require.NoError(t, dec.Ranking(&r, m.Value))
		require.Equal(t, fmt.Sprint("i-", r.Decision.Offset), string(m.Key))
		require.Equal(t, string(m.Key), string(r.ID))
	}
	w.out.Reset()
	require.Empty(t, w.out.Rankings)
	require.Empty(t, w.out.DeadLetters)
}

// TestStepRefusesOtherTopics: a record of a topic that is not an input is refused.
func TestStepRefusesOtherTopics(t *testing.T) {
	cfg := testConfig()
	cfg.HasSelections = false
	w := newWorld(t, cfg)
	require.Error(t, w.read(event.Selections, "i-1", []byte("{}"), day))
	rec := Record{Topic: event.Rankings}
	require.Error(t, w.m.Step(&Input{Record: &rec}, &w.out))
	require.Error(t, w.m.Load(state.Field{Hash: "meta"}), "loading is over")
	m, err := New(cfg)
	require.NoError(t, err)
	require.Error(t, m.Load(state.Field{Hash: "feed:other"}))
	require.NoError(t, m.Load(state.Field{Hash: "meta", Field: []byte("token"), Value: []byte("not ours")}))
	require.Equal(t, []string{"experiments", "feed:items", "feed:names", "feed:catalogue", "feed:missed", "feed:learner"}, m.Hashes())
}

// TestDueSegmentRestsUnderLoad: steps that touch ids in buckets that are being walked do not keep the walk waiting.
func TestDueSegmentRestsUnderLoad(t *testing.T) {
	w := newWorld(t, testConfig())
	w.now = day
	for i := range 50 {
		id := fmt.Sprint("i-", i)
		require.NoError(t, w.read(event.Impressions, id, impression(id, "a"), day))
		sel := event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte("a")})
		require.NoError(t, w.read(event.Selections, id, sel, day))
	}
	w.save()
	w.tick(day+300_000, [event.Inputs]bool{true, true, true})
	bucket, ok := w.m.DueUpTo()
	require.True(t, ok)
	before := w.m.DueSegment()
	for i := range 50 {
		id := fmt.Sprint("i-", i)
		require.NoError(t, w.read(event.Payoffs, id, fmt.Appendf(nil, `{"impression_id":%q,"payoff":1}`, id), w.now))
		again, ok := w.m.DueUpTo()
		require.True(t, ok)
		require.Equal(t, bucket, again)
		require.Equal(t, before, w.m.DueSegment())
	}
	w.walk(7)
	w.checkIndex()
	require.Len(t, slices.Collect(maps.Keys(w.store.entries())), 50)

	// Tombstones that are gone are taken away at once, and do not keep it waiting either.
	w.m.cfg.MaxParked = 0
	w.tick(day+10_000_000, [event.Inputs]bool{true, true, true})
	bucket, ok = w.m.DueUpTo()
	require.True(t, ok)
	before = w.m.DueSegment()
	for i := range 25 {
		id := fmt.Sprint("i-", i)
		require.NoError(t, w.read(event.Payoffs, id, fmt.Appendf(nil, `{"impression_id":%q,"payoff":1}`, id), w.now))
	}
	require.Equal(t, before, w.m.DueSegment())
	w.save()
	require.Len(t, w.store.entries(), 25)
	require.Len(t, w.store.dueUpTo(bucket, 100), 25)
	w.walk(7)
	require.Empty(t, w.store.entries())
	require.Empty(t, w.store.due())
}

// TestAdoptedDeadlinesMayBePast: in a replay the watermark may be beyond the deadlines that stand in a decision. The id
// then goes into the first bucket that is not being walked yet, or the walk would wait for the change for ever.
func TestAdoptedDeadlinesMayBePast(t *testing.T) {
	w := newWorld(t, testConfig())
	w.tick(day+1_000_000, [event.Inputs]bool{true, true, true})
	bucket, ok := w.m.DueUpTo()
	require.True(t, ok)
	rec := Record{Topic: event.Impressions, Timestamp: day, Key: []byte("i-1"), Value: impression("i-1", "a")}
	r := event.Ranking{ID: []byte("i-1"), Learner: []byte("feed"), Items: [][]byte{[]byte("a")},
		Decision: event.Decision{Instance: -1, PayoffDeadline: day + 5}}
	require.NoError(t, w.m.Step(&Input{Record: &rec, Now: w.now, Decided: &r}, &w.out))
	require.Zero(t, w.m.DueSegment())
	w.save()
	require.Empty(t, w.store.dueUpTo(bucket, 10))
	require.Len(t, w.store.dueUpTo(bucket+1, 10), 1)
	w.tick(w.now+2*tick, [event.Inputs]bool{true, true, true})
	w.walk(10)
	require.EqualValues(t, 1, w.m.Account().Impressions.Expired)
}

// TestStep_WithoutKafkasTime: where an old producer leaves Kafka's timestamp out, a record's own time counts, else the watermark, and now
// before the first watermark.
func TestStep_WithoutKafkasTime(t *testing.T) {
	w := newWorld(t, testConfig())
	now, watermark := day+60_000, day+30_000
	ranked := func(id, more string) event.Millis {
		value := fmt.Appendf(nil, `{"impression_id":%q,"candidates":[{"item":"a","utility":1}]%s}`, id, more)
		rec := w.record(event.Impressions, id, value, -1)
		require.NoError(t, w.step(rec, now))
		var r event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, w.decided[rec.Offset]))
		return r.Time
	}
	const own = `,"time":"1999-12-31T23:59:59Z"`
	at, _ := event.ParseTime([]byte("1999-12-31T23:59:59Z"))
	require.EqualValues(t, now, ranked("i-1", ""))
	require.Equal(t, at, ranked("i-2", own))
	w.tick(watermark, [event.Inputs]bool{true, true, true})
	require.EqualValues(t, watermark, ranked("i-3", ""))
	require.Equal(t, at, ranked("i-4", own))
	require.EqualValues(t, now, ranked("i-5", `,"time":"2099-12-31T23:59:59Z"`), "it is too far ahead")
}
