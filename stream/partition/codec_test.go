package partition

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func drawEntry(t *rapid.T) *entry {
	e := new(entry)
	e.reset()
	millis := rapid.Int64Range(-1<<40, 1<<48)
	e.kind = kind(rapid.IntRange(int(parkedOnly), int(tombstone)).Draw(t, "kind"))
	e.bucket = rapid.Int64Range(0, 1<<40).Draw(t, "bucket")
	if e.kind != parkedOnly {
		e.learner = rapid.Int32Range(0, math.MaxInt32).Draw(t, "learner")
	}
	switch e.kind {
	case tombstone:
		e.forgetAt = bucketEnd(e.bucket)
		e.wasSelected, e.paidOnce = rapid.Bool().Draw(t, "selected"), rapid.Bool().Draw(t, "paid")
		return e
	case pending:
		if rapid.Bool().Draw(t, "has offset") {
			e.offset = rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset")
		}
		round := rapid.SampledFrom([]event.Millis{1, 1000, 60_000, 3_600_000}).Draw(t, "unit")
		e.began = millis.Draw(t, "began")
		if rapid.Bool().Draw(t, "near its bucket") {
			e.began = bucketStart(e.bucket) - 30_000
		}
		e.payoffDeadline = e.began + round*rapid.Int64Range(-1<<20, 1<<40).Draw(t, "horizon")
		drawDecision(t, e)
		if e.hasSelectionDeadline && e.selected < 0 {
			e.selectionDeadline = e.began + round*rapid.Int64Range(-1<<20, 1<<40).Draw(t, "timeout")
		}
	}
	for range rapid.IntRange(0, 16).Draw(t, "parked") {
		form, plain := event.Form(rapid.IntRange(0, event.Forms-1).Draw(t, "form")), []byte(nil)
		if form == event.Avro {
			plain = []byte(rapid.String().Draw(t, "plain"))
		}
		e.parked = append(e.parked, parkedRecord{
			form: form, plain: plain,
			topic:  rapid.SampledFrom([]event.Topic{event.Selections, event.Payoffs}).Draw(t, "topic"),
			offset: rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset"), timestamp: millis.Draw(t, "timestamp"),
			effective: millis.Draw(t, "effective"), deadline: millis.Draw(t, "deadline"),
			value: []byte(rapid.String().Draw(t, "value")),
		})
	}
	if e.kind == parkedOnly && len(e.parked) == 0 {
		e.parked = append(e.parked, parkedRecord{topic: event.Payoffs, value: []byte("{}")})
	}
	return e
}

func drawDecision(t *rapid.T, e *entry) {
	finite := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
	e.hasSelectionDeadline = rapid.Bool().Draw(t, "has selection deadline")
	e.items = append(e.items, rapid.SliceOfN(rapid.Int32Range(0, math.MaxInt32), 0, 30).Draw(t, "items")...)
	if n := len(e.items); n > 0 {
		if rapid.Bool().Draw(t, "has propensities") {
			e.propensities = append(e.propensities, rapid.SliceOfN(finite, n, n).Draw(t, "propensities")...)
			if rapid.Bool().Draw(t, "of 32 bits") {
				for k := range e.propensities {
					e.propensities[k] = rapid.Float64Range(0, 1).Draw(t, "propensity")
					e.propensities[k] = float64(float32(e.propensities[k]))
				}
			}
		}
		if rapid.Bool().Draw(t, "has ranks") {
			e.ranks = append(e.ranks, rapid.SliceOfN(rapid.Int32Range(0, int32(n-1)), n, n).Draw(t, "ranks")...)
			if rapid.Bool().Draw(t, "of leaders") {
				keepLeaders(e.ranks)
			}
			for r := 1; r < n; r++ {
				if rapid.Bool().Draw(t, "undecided") {
					e.undecided = append(e.undecided, int32(r))
				}
			}
			if n > 1 && rapid.Bool().Draw(t, "guessed") {
				e.undecided = append(e.undecided[:0], 0)
			}
		}
		e.selected = rapid.Int32Range(-1, int32(n-1)).Draw(t, "selected")
		if rapid.Bool().Draw(t, "has context") {
			drawSteps(t, e, n)
		}
		if rapid.Bool().Draw(t, "has expected") {
			drawExpected(t, e, n)
		}
		if e.selected >= 0 {
			e.shrink(delay.Needs{Ref: rapid.Bool().Draw(t, "offset needed"), Candidates: rapid.Bool().Draw(t, "candidates needed")})
		}
	}
	e.instance = rapid.Int32Range(-1, math.MaxInt32).Draw(t, "instance")
	if e.count = rapid.Int64Range(0, math.MaxInt64).Draw(t, "payoffs"); e.count > 0 {
		e.sum = finite.Draw(t, "sum")
		e.events = append(e.events, rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "events")...)
		e.inParts = rapid.Bool().Draw(t, "in parts")
	}
}

// drawSteps adds a context of each item, or of the selected one.
func drawSteps(t *rapid.T, e *entry, n int) {
	if e.selected >= 0 {
		n = 1
	}
	e.hasContext, e.ofUser = true, rapid.IntRange(0, 5).Draw(t, "of the user")
	all := e.ofUser + n*rapid.IntRange(0, 5).Draw(t, "of each item")
	e.context = append(e.context, rapid.SliceOfN(rapid.Int8(), all, all).Draw(t, "steps")...)
}

// drawExpected adds expected payoffs of each item, or of the selected one.
func drawExpected(t *rapid.T, e *entry, n int) {
	if e.selected >= 0 {
		n = 1
	}
	most := event.Millionths(event.MaxExpected)
	e.expected = append(e.expected, rapid.SliceOfN(rapid.Int64Range(-most, most), n, n).Draw(t, "expected")...)
}

func requireSameEntry(t require.TestingT, want, got *entry) {
	a, b := *want, *got
	for _, e := range []*entry{&a, &b} { // empty is empty, whatever memory it has
		e.items = append([]policy.Item{}, e.items...)
		e.propensities = append([]float64{}, e.propensities...)
		e.ranks = append([]int32{}, e.ranks...)
		e.expected = append([]int64{}, e.expected...)
		e.undecided = append([]int32{}, e.undecided...)
		e.context = append([]int8{}, e.context...)
		e.events = append([]uint64{}, e.events...)
		e.parked = append([]parkedRecord{}, e.parked...)
		for i := range e.parked {
			e.parked[i].value = append([]byte{}, e.parked[i].value...)
			if e.parked[i].form == event.Avro {
				e.parked[i].plain = append([]byte{}, e.parked[i].plain...)
			}
		}
	}
	require.Equal(t, a, b)
}

// TestEntryRoundTrip: a stored entry decodes to an equal one, and no prefix of it decodes.
func TestEntryRoundTrip(t *testing.T) {
	var got entry // reused, as in the machine
	rapid.Check(t, func(t *rapid.T) {
		want := drawEntry(t)
		b := appendEntry(nil, want)
		require.NoError(t, decodeEntry(b, want.bucket, &got))
		requireSameEntry(t, want, &got)
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		require.ErrorIs(t, decodeEntry(b[:cut], want.bucket, &got), errEntry)
		require.ErrorIs(t, decodeEntry(append(b, 0), want.bucket, &got), errEntry)
	})
}

// someEntries are an entry of each shape.
var someEntries = map[string]func(e *entry){
	"undecided": undecided,
	"undecided, with all": func(e *entry) {
		undecided(e)
		e.propensities, e.ranks, e.undecided = []float64{.5, .25, .25}, []int32{2, 0, 1}, []int32{1}
		e.instance, e.expected = 4, []int64{5, -6, 7}
	},
	"undecided, with leaders": func(e *entry) {
		undecided(e)
		e.ranks = []int32{1, 0, 2}
	},
	"selected": selected,
	"paid in parts": func(e *entry) {
		selected(e)
		e.sum, e.count, e.events, e.inParts = 1.5, 2, []uint64{1, 2}, true
	},
	"ended, paid": func(e *entry) {
		e.kind, e.learner, e.wasSelected, e.paidOnce = tombstone, 2, true, true
		e.forgetAt = bucketEnd(e.bucket)
	},
	"waiting": func(e *entry) {
		e.kind = parkedOnly
		e.parked = []parkedRecord{{topic: event.Payoffs, offset: 3, timestamp: day, effective: day - 1, deadline: day + 60_000, value: []byte("{}")}}
	},
}

func undecided(e *entry) {
	e.kind, e.learner, e.offset, e.hasSelectionDeadline = pending, 2, 1_000_000, true
	e.began, e.selectionDeadline, e.payoffDeadline = day, day+1_800_000, day+30*86_400_000
	e.items = []policy.Item{30000, 10, 200}
}

func selected(e *entry) {
	undecided(e)
	e.selected, e.selectionDeadline, e.propensities, e.expected = 1, 0, []float64{.25}, []int64{-6}
	e.ranks, e.instance, e.ordered = []int32{2, 0, 1}, 4, true
}

// storedEntry is the entry that an entry of someEntries is stored as, in bucket 7.
func storedEntry(fill func(e *entry)) []byte {
	var e entry
	e.reset()
	e.bucket = 7
	fill(&e)
	return appendEntry(nil, &e)
}

// TestEntry_OfAnotherVersion: an entry of another version, and one with a flag that this version does not have, is refused.
func TestEntry_OfAnotherVersion(t *testing.T) {
	for what, fill := range someEntries {
		b := storedEntry(fill)
		require.EqualValues(t, entryVersion, b[0]&versionMask, what)
		require.NoError(t, decodeEntry(b, 7, new(entry)), what)
		for version := byte(0); version <= versionMask; version++ {
			if version != entryVersion {
				b[0] = b[0]&^versionMask | version
				require.ErrorIs(t, decodeEntry(b, 7, new(entry)), errEntry, "%s, version %d", what, version)
			}
		}
	}
	closedOne := binary.AppendUvarint([]byte{entryVersion | byte(tombstone)<<kindShift | headFlags}, flagUnknown)
	require.ErrorIs(t, decodeEntry(append(closedOne, 0), 7, new(entry)), errEntry)
}

// FuzzDecodeEntry: stored bytes are decoded or refused, and a decoded entry round-trips.
func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	for _, fill := range someEntries {
		f.Add(storedEntry(fill))
	}
	f.Add(storedEntry(func(e *entry) {
		selected(e)
		e.shrink(delay.Needs{})
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second entry
		var err error
		took := memcap.Allocated(func() { err = decodeEntry(b, 7, &first) })
		require.LessOrEqual(t, took, uint64(64<<10+200*len(b)), "no length that the bytes announce is believed")
		if err != nil {
			require.ErrorIs(t, err, errEntry)
			require.Equal(t, nothing, first.kind)
			return
		}
		require.NoError(t, decodeEntry(appendEntry(nil, &first), first.bucket, &second))
		requireSameEntry(t, &first, &second)
	})
}

// TestEntrySize checks the documented sizes, without the bucket, in a partition that
// has ranked a hundred million impressions of 200,000 items with the default timeouts.
func TestEntrySize(t *testing.T) {
	size := func(e *entry) int {
		return len(appendEntry(nil, e))
	}
	var e entry
	decide := func() {
		e.reset()
		e.kind, e.offset, e.hasSelectionDeadline = pending, 100_000_000, true
		e.began = 20_000*86_400_000 + 12_345_678
		e.selectionDeadline, e.payoffDeadline = e.began+1_800_000, e.began+30*86_400_000
		e.bucket = bucketOf(e.selectionDeadline, e.selectionDeadline)
		for i := range policy.Item(20) {
			e.items = append(e.items, 199_999-i*100)
		}
	}
	decide()
	require.LessOrEqual(t, size(&e), 60)
	without := size(&e)
	for range e.items {
		e.expected = append(e.expected, 999_999)
	}
	require.LessOrEqual(t, size(&e), without+1+3*len(e.items), "three bytes for each that was expected")

	decide()
	e.choose(7)
	e.shrink(delay.Needs{})
	require.LessOrEqual(t, size(&e), 12, "in the bucket of the selection deadline")
	e.bucket = bucketOf(e.payoffDeadline, e.payoffDeadline)
	require.LessOrEqual(t, size(&e), 12, "in that of the payoff deadline")
	without = size(&e)
	e.expected, e.propensities = append(e.expected, 999_999), append(e.propensities, float64(float32(0.1)))
	require.LessOrEqual(t, size(&e), without+1+3+4, "with robust")

	e.close(e.payoffDeadline, e.payoffDeadline, true)
	e.bucket = bucketOf(e.forgetAt, e.forgetAt)
	require.Equal(t, 2, size(&e))
}

// TestPacked: numbers take as many bits as the largest.
func TestPacked(t *testing.T) {
	require.Equal(t, []byte{3, 0b11_010_101, 0b1001}, appendPacked(nil, []int32{5, 2, 7, 4}))
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Int32Range(0, rapid.Int32Range(0, math.MaxInt32).Draw(t, "most")), 1, 40).Draw(t, "numbers")
		b := appendPacked(nil, want)
		require.Len(t, b, 1+(max(bits.Len32(uint32(slices.Max(want))), 1)*len(want)+7)/8)
		d := entryReader{binaryReader{rest: append(b, 77)}}
		require.Equal(t, want, d.packed(nil, int64(len(want)), math.MaxInt32, "number"))
		require.NoError(t, d.err)
		require.Equal(t, []byte{77}, d.rest)
	})
}

// TestItemRoundTrip: an item's sums are read back to the last bit, and until when it is kept.
func TestItemRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policy.Sums{N: rapid.Int64Range(1, math.MaxInt64).Draw(t, "n"),
			R: rapid.Float64Range(-1e300, 1e300).Draw(t, "sum"), Q: rapid.Float64Range(0, 1e300).Draw(t, "squares")}
		number := rapid.Int32Range(0, math.MaxInt32).Draw(t, "number")
		until := rapid.Int64Range(0, math.MaxInt64).Draw(t, "until")
		got, err := parseItem(new(fastjson.Parser), appendItem(nil, number, want, until))
		require.NoError(t, err)
		require.Equal(t, storedItem{number: number, sums: want, until: until}, got)
	})
}

// FuzzParseItem: stored statistics are read, or refused.
func FuzzParseItem(f *testing.F) {
	f.Add(appendItem(nil, 17, policy.Sums{N: 12, R: 7.25, Q: 4.5}, 0))
	f.Add(appendItem(nil, 18, policy.Sums{}, 1_700_000_000_000))
	f.Add([]byte(`{"no":1,"n":"x"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := parseItem(new(fastjson.Parser), b)
		if err != nil {
			return
		}
		require.NoError(t, it.sums.Check())
		again, err := parseItem(new(fastjson.Parser), appendItem(nil, it.number, it.sums, it.until))
		require.NoError(t, err)
		require.Equal(t, it, again)
	})
}
