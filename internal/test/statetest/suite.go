package statetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// Subject is an empty store under test, with functions that change it from outside.
type Subject struct {
	Store state.Store
	// Other is a second client of the same store: another worker. It may be Store itself.
	Other state.Store
	// Snapshot copies a partition's stored state; restore brings it back, like a restored dump or a failover to a stalled replica.
	Snapshot func(t *testing.T, p int32) (restore func())
	// Tear leaves partition p like a checkpoint that ended after its first write. Nil for a store that writes atomically.
	Tear func(t *testing.T, p int32, id string)
	// Note stores announcements by id, as another version might encode them: JSON objects that are not empty. Only for a state.Registry.
	Note func(t *testing.T, says map[string]string)
	// Later advances the store's clock by d, which may be negative, or ages announcements by d. Only for a state.Registry.
	Later func(t *testing.T, d time.Duration)
	// Hook, if not nil, is called between the suite's steps, for effects that must not matter, such as SCRIPT FLUSH.
	Hook func(t *testing.T)
}

// Run runs the suite; open is called for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*world)
	}{
		{"AcquireNeedsAState", acquireNeedsAState},
		{"AcquireReturnsTheCut", acquireReturnsTheCut},
		{"AcquireRefusesAHigherGeneration", acquireRefusesAHigherGeneration},
		{"FreshDoesNotOverwrite", freshDoesNotOverwrite},
		{"CheckpointIsAConsistentCut", checkpointIsAConsistentCut},
		{"CheckpointRaisesSeqByOne", checkpointRaisesSeqByOne},
		{"FencedByToken", fencedByToken},
		{"FencedBySeq", fencedBySeq},
		{"FencedByTokenAndSeq", fencedByTokenAndSeq},
		{"FencedWritesNothing", fencedWritesNothing},
		{"SentTwiceIsDoneOnce", sentTwiceIsDoneOnce},
		{"TornIsRepairedByTheSameCheckpointOnly", tornIsRepairedByTheSameCheckpointOnly},
		{"RollbackIsNoticed", rollbackIsNoticed},
		{"LaterElementsWin", laterElementsWin},
		{"LargeCheckpoint", largeCheckpoint},
		{"BytesAreKeptAsTheyAre", bytesAreKeptAsTheyAre},
		{"LookUpKeepsTheOrderAsked", lookUpKeepsTheOrderAsked},
		{"LookUpEndsWithItsRoom", lookUpEndsWithItsRoom},
		{"LookUpOfLargeValues", lookUpOfLargeValues},
		{"DueIsWalkedInBounds", dueIsWalkedInBounds},
		{"DueEndsWithItsRoom", dueEndsWithItsRoom},
		{"DueSaysWhetherThereAreMore", dueSaysWhetherThereAreMore},
		{"PagesClose", pagesClose},
		{"KnownIDsAreComplete", knownIDsAreComplete},
		{"KnownIDsWhileTheyChange", knownIDsWhileTheyChange},
		{"KnownIDsInLargePages", knownIDsInLargePages},
		{"LoadReadsHashesWhole", loadReadsHashesWhole},
		{"PartitionsDoNotMix", partitionsDoNotMix},
		{"ReadsAreAtomicWithTheFence", readsAreAtomicWithTheFence},
		{"AgainstAModel", againstAModel},
		{"Ready", ready},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newWorld(t, open(t))) })
	}
}

// RunFollower runs the suite of a state.Follower, which must be the Subject's store.
func RunFollower(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*world, state.Follower)
	}{
		{"DeltasChain", deltasChain},
		{"DeltasChainOverAcquires", deltasChainOverAcquires},
		{"DeltasAreSentOnce", deltasAreSentOnce},
		{"DeltasShowAGap", deltasShowAGap},
		{"DeltasOfARollback", deltasOfARollback},
		{"LargeDeltas", largeDeltas},
		{"SumsMatchDeltas", sumsMatchDeltas},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			f, ok := s.Store.(state.Follower)
			require.True(t, ok, "the store is not a state.Follower")
			c.test(newWorld(t, s), f)
		})
	}
}

type world struct {
	*testing.T
	Subject
	ctx  context.Context
	next int // number of the next checkpoint's id
}

func newWorld(t *testing.T, s Subject) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &world{T: t, Subject: s, ctx: ctx}
}

func (w *world) hook() {
	if w.Hook != nil {
		w.Hook(w.T)
	}
}

// freshMeta is a cut with every field set.
func freshMeta() *state.Meta {
	return &state.Meta{
		Layout: 1, ClusterID: "cluster", TopicNames: []string{"impressions", "sel,\"ections\"", "payoffs", "rankings"},
		Partitions: 12,
		Inputs: []state.Position{
			{Offset: 7, Witness: state.Witness{Offset: 6, Timestamp: 1732183200123, Hash: 1<<64 - 1}},
			{Offset: 0, Witness: state.Witness{Offset: -1}},
			{Offset: 1 << 62, Witness: state.Witness{Offset: 1<<62 - 1, Timestamp: -5, Hash: 1}},
		},
		Rankings: 99, RankingsWitness: state.Witness{Offset: 98, Timestamp: 1, Hash: 0xabcdef},
		ProducerID: -1, ProducerEpoch: -1,
	}
}

type owner struct {
	w     *world
	store state.Store
	p     int32
	fence state.Fence
	meta  state.Meta
}

// begin acquires a fresh partition.
func (w *world) begin(p int32) *owner {
	w.Helper()
	m, err := w.Store.Acquire(w.ctx, p, 1, false, freshMeta())
	require.NoError(w, err)
	w.hook()
	return &owner{w: w, store: w.Store, p: p, fence: m.Fence, meta: m}
}

// takeOver acquires an existing partition, as another worker.
func (w *world) takeOver(p int32) *owner {
	w.Helper()
	m, err := w.Other.Acquire(w.ctx, p, 2, true, nil)
	require.NoError(w, err)
	w.hook()
	return &owner{w: w, store: w.Other, p: p, fence: m.Fence, meta: m}
}

// make returns a checkpoint that continues the owner's fence.
func (o *owner) make(c state.Changes) *state.Checkpoint {
	o.w.next++
	return &state.Checkpoint{Fence: o.fence, ID: fmt.Sprintf("checkpoint-%d", o.w.next), Meta: o.meta, Changes: begun(c)}
}

func (o *owner) send(c *state.Checkpoint) error {
	err := o.store.Checkpoint(o.w.ctx, o.p, c)
	o.w.hook()
	return err
}

func (o *owner) save(c state.Changes) *state.Checkpoint {
	o.w.Helper()
	cp := o.make(c)
	require.NoError(o.w, o.send(cp))
	o.fence.Seq++
	return cp
}

func (w *world) lookUp(p int32, ids ...string) (state.Fence, []string) {
	w.Helper()
	f, values, err := w.Store.LookUp(w.ctx, p, placesOf(ids), 1<<30)
	require.NoError(w, err)
	require.Len(w, values, len(ids))
	w.hook()
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = "-" // nil
		if v != nil {
			texts[i] = string(v)
		}
	}
	return f, texts
}

func (w *world) probe(p int32) state.Fence {
	w.Helper()
	f, err := w.Store.Probe(w.ctx, p)
	require.NoError(w, err)
	w.hook()
	return f
}

// load returns all fields of hashes, as "hash/field" -> value.
func (w *world) load(p int32, hashes ...string) map[string]string {
	w.Helper()
	fields, err := w.Store.Load(w.ctx, p, hashes)
	require.NoError(w, err)
	w.hook()
	return w.asMap(fields)
}

func (w *world) asMap(fields []state.Field) map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, f := range fields {
		key := f.Hash + "/" + string(f.Field)
		if _, twice := all[key]; twice { // require.NotContains compares every key
			w.Fatalf("%s came twice", key)
		}
		all[key] = string(f.Value)
	}
	return all
}

// due reads at most limit entries, as "page/id=value".
func (w *world) due(p int32, upTo int64, limit int) (state.Fence, []string) {
	w.Helper()
	f, entries, _, err := w.Store.Due(w.ctx, p, upTo, limit, 1<<30)
	require.NoError(w, err)
	w.hook()
	var texts []string
	for _, e := range entries {
		texts = append(texts, fmt.Sprintf("%d/%s=%s", e.Page, text(e.ID), e.Value))
	}
	return f, texts
}

// known counts all known ids as "page/id". Each page must have the bucket of bucketOf.
func (w *world) known(p int32, between func()) map[string]int {
	w.Helper()
	ids := map[string]int{}
	for cursor := uint64(0); ; {
		pages, next, err := w.Store.KnownIDs(w.ctx, p, cursor)
		require.NoError(w, err)
		for _, page := range pages {
			require.Equal(w, bucketOf(page.Number), page.Bucket)
			require.NotEmpty(w, page.IDs)
			for _, id := range page.IDs {
				ids[fmt.Sprintf("%d/%s", page.Number, text(id))]++
			}
		}
		if next == 0 {
			return ids
		}
		cursor = next
		between()
	}
}

func idOf(text string) (id state.ID) {
	if copy(id[:], text) < len(text) {
		panic("statetest: an id of more than 16 bytes")
	}
	return id
}

func text(id state.ID) string { return strings.TrimRight(string(id[:]), "\x00") }

// placeOf returns the place "page/id", or an id alone in page 1.
func placeOf(name string) state.Place {
	page := uint32(1)
	if before, id, ok := strings.Cut(name, "/"); ok {
		n, err := strconv.ParseUint(before, 10, 32)
		if err != nil {
			panic(err)
		}
		page, name = uint32(n), id
	}
	return state.Place{Page: page, ID: idOf(name)}
}

func placesOf(names []string) []state.Place {
	places := make([]state.Place, len(names))
	for i := range names {
		places[i] = placeOf(names[i])
	}
	return places
}

func entry(name, value string) state.Entry {
	return state.Entry{Place: placeOf(name), Value: []byte(value)}
}

func gone(name string) state.Entry { return state.Entry{Place: placeOf(name)} }

// bucketOf returns a page's bucket in this suite: ten pages share one.
func bucketOf(page uint32) int64 { return int64(page / 10) }

// begun adds the beginnings of all pages with entries in c, existing or not.
func begun(c state.Changes) state.Changes {
	seen := map[uint32]bool{}
	for _, e := range c.Entries {
		if e.Value != nil && !seen[e.Page] {
			seen[e.Page] = true
			c.Pages = append(c.Pages, state.Page{Number: e.Page, Bucket: bucketOf(e.Page)})
		}
	}
	return c
}

func write(hash, field, value string) state.Write {
	return state.Write{Hash: hash, Field: []byte(field), Value: []byte(value)}
}

func publish(hash, field, value string) state.Write {
	w := write(hash, field, value)
	w.Publish = true
	return w
}
