package partition

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/memcap"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func drawEntry(t *rapid.T) *entry {
	e := new(entry)
	e.reset()
	millis := rapid.Int64Range(-1<<40, 1<<48)
	e.bucket = rapid.Int64Range(0, 1<<40).Draw(t, "bucket")
	e.kind = kind(rapid.IntRange(int(waiting), int(closed)).Draw(t, "kind"))
	if e.kind != waiting {
		e.learner = rapid.Int32Range(0, math.MaxInt32).Draw(t, "learner")
		e.offset = rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset")
		e.payoffDeadline, e.forgetAt = millis.Draw(t, "payoff deadline"), millis.Draw(t, "forgotten")
		e.began = millis.Draw(t, "began")
	}
	if rapid.Bool().Draw(t, "written by a later version") {
		drawForeign(t, e)
	}
	switch e.kind {
	case closed:
		e.outcome = outcome(rapid.IntRange(int(paid), int(unselected)).Draw(t, "outcome"))
		e.wasSelected, e.summed = rapid.Bool().Draw(t, "selected"), rapid.Bool().Draw(t, "summed")
		return e
	case pending:
		drawDecision(t, e)
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
	if e.kind == waiting && len(e.parked) == 0 {
		e.parked = append(e.parked, parkedRecord{topic: event.Payoffs, value: []byte("{}")})
	}
	return e
}

// drawForeign adds parts that this version does not know.
func drawForeign(t *rapid.T, e *entry) {
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		flag := uint64(flagForeign) << rapid.IntRange(0, 40).Draw(t, "flag")
		if e.foreign&flag == 0 {
			part := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "part")
			e.foreign |= flag
			e.foreignBytes = append(binary.AppendUvarint(e.foreignBytes, uint64(len(part))), part...)
		}
	}
}

func drawDecision(t *rapid.T, e *entry) {
	finite := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
	if e.hasSelectionDeadline = rapid.Bool().Draw(t, "has selection deadline"); e.hasSelectionDeadline {
		e.selectionDeadline = rapid.Int64Range(-1<<40, 1<<48).Draw(t, "selection deadline")
	}
	e.items = append(e.items, rapid.SliceOfN(rapid.Int32Range(0, math.MaxInt32), 0, 30).Draw(t, "items")...)
	if n := len(e.items); n > 0 {
		if rapid.Bool().Draw(t, "has propensities") {
			e.propensities = append(e.propensities, rapid.SliceOfN(finite, n, n).Draw(t, "propensities")...)
		}
		if rapid.Bool().Draw(t, "has ranks") {
			e.ranks = append(e.ranks, rapid.SliceOfN(rapid.Int32Range(0, int32(n-1)), n, n).Draw(t, "ranks")...)
			for r := 1; r < n; r++ {
				if rapid.Bool().Draw(t, "undecided") {
					e.undecided = append(e.undecided, int32(r))
				}
			}
		}
		e.selected = rapid.Int32Range(-1, int32(n-1)).Draw(t, "selected")
		if rapid.Bool().Draw(t, "has expected") {
			drawExpected(t, e, n)
		}
	}
	e.instance = rapid.Int32Range(-1, math.MaxInt32).Draw(t, "instance")
	if e.count = rapid.Int64Range(0, math.MaxInt64).Draw(t, "payoffs"); e.count > 0 {
		e.sum = finite.Draw(t, "sum")
		e.events = append(e.events, rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "events")...)
		e.inParts = rapid.Bool().Draw(t, "in parts")
		e.weakEvents = len(e.events) > 0 && rapid.Bool().Draw(t, "weak")
	}
}

// drawExpected adds what was expected of each item, or of the selected one.
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
		e.events = append([]uint64{}, e.events...)
		e.foreignBytes = append([]byte{}, e.foreignBytes...)
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

// TestEntryRoundTrip: what is stored is read back as the very same entry, and no prefix of it passes for one.
func TestEntryRoundTrip(t *testing.T) {
	var got entry // reused, as in the machine
	rapid.Check(t, func(t *rapid.T) {
		want := drawEntry(t)
		b := appendEntry(nil, want)
		require.NoError(t, decodeEntry(b, &got))
		requireSameEntry(t, want, &got)
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		require.ErrorIs(t, decodeEntry(b[:cut], &got), errEntry)
		require.ErrorIs(t, decodeEntry(append(b, 0), &got), errEntry)
	})
}

// FuzzDecodeEntry: stored bytes are read, or refused; what is read can be stored and read again.
func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	var e entry
	e.reset()
	e.kind, e.bucket, e.items, e.selected = pending, 7, []policy.Item{3, 1, 2}, 1
	e.propensities, e.ranks, e.instance, e.count, e.sum = []float64{.5, .25, .25}, []int32{2, 0, 1}, 4, 2, 1.5
	e.events, e.hasSelectionDeadline = []uint64{1, 2}, true
	f.Add(appendEntry(nil, &e))
	e.parked = []parkedRecord{{topic: event.Payoffs, offset: 3, value: []byte("{}")}}
	f.Add(appendEntry(nil, &e))
	e.parked = nil
	e.expected, e.inParts = []int64{-1}, true
	f.Add(appendEntry(nil, &e))
	e.selected, e.expected = -1, []int64{1, 250_000, -1_000_000_000_000}
	f.Add(appendEntry(nil, &e))
	e.selected = 0 // by a version that does not know of it
	f.Add(appendEntry(nil, &e))
	e.close(paid, true)
	f.Add(appendEntry(nil, &e))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second entry
		var err error
		took := memcap.Allocated(func() { err = decodeEntry(b, &first) })
		require.LessOrEqual(t, took, uint64(64<<10+200*len(b)), "no length that the bytes announce is believed")
		if err != nil {
			require.ErrorIs(t, err, errEntry)
			require.Equal(t, nothing, first.kind)
			return
		}
		require.NoError(t, decodeEntry(appendEntry(nil, &first), &second))
		requireSameEntry(t, &first, &second)
	})
}

// TestEntrySize holds the documented size: a pending impression of 20 items takes about 60 bytes.
func TestEntrySize(t *testing.T) {
	var e entry
	e.reset()
	e.kind, e.bucket, e.offset, e.hasSelectionDeadline = pending, bucketOf(day), 1_000_000, true
	e.selectionDeadline, e.payoffDeadline, e.forgetAt = day+1_800_000, day+30*86_400_000, day+30*86_400_000+3_600_000
	for i := range policy.Item(20) {
		e.items = append(e.items, i*100)
	}
	require.Less(t, len(appendEntry(nil, &e)), 75)
	without := len(appendEntry(nil, &e))
	for range e.items {
		e.expected = append(e.expected, 999_999)
	}
	require.LessOrEqual(t, len(appendEntry(nil, &e)), without+2+3*len(e.items), "three bytes for each that was expected")
	without, e.expected = without+1, e.expected[:0] // a position
	e.selected = 7
	require.Len(t, appendEntry(nil, &e), without)
	e.expected = append(e.expected, 999_999)
	require.LessOrEqual(t, len(appendEntry(nil, &e)), without+2+3, "and for that of the selected one")
	e.close(paid, false)
	require.Less(t, len(appendEntry(nil, &e)), 30)
}

// TestExpected_OfVersionsThatPassItOn: a version that does not know what was expected leaves it where it was when an item is
// selected, and when the impression ends.
func TestExpected_OfVersionsThatPassItOn(t *testing.T) {
	var e, got entry
	e.reset()
	e.kind, e.bucket, e.items, e.expected = pending, 7, []policy.Item{3, 1, 2}, []int64{5, 6, 7}
	require.NoError(t, decodeEntry(appendEntry(nil, &e), &got))
	require.Equal(t, []int64{5, 6, 7}, got.expected)
	e.selected = 1
	require.NoError(t, decodeEntry(appendEntry(nil, &e), &got))
	require.Equal(t, []int64{6}, got.expected)

	var old entry
	old.reset()
	old.foreign, old.foreignBytes = flagExpected, []byte{3, 10, 12, 14}
	old.kind, old.bucket, old.outcome, old.wasSelected = closed, 7, paid, true
	require.NoError(t, decodeEntry(appendEntry(nil, &old), &got))
	require.Empty(t, got.expected)
	require.Zero(t, got.foreign)

	for what, faulty := range map[string]entry{
		"too few":        {kind: pending, items: []policy.Item{3, 1, 2}, selected: -1, expected: []int64{5}},
		"too many":       {kind: pending, items: []policy.Item{3, 1, 2}, selected: 1, expected: []int64{5, 6}},
		"none":           {kind: pending, items: []policy.Item{3}, selected: -1, foreign: flagExpected, foreignBytes: []byte{0}},
		"half a number":  {kind: pending, items: []policy.Item{3}, selected: -1, foreign: flagExpected, foreignBytes: []byte{1, 0x80}},
		"half a part":    {kind: pending, items: []policy.Item{3}, selected: -1, foreign: flagExpected, foreignBytes: []byte{2, 1}},
		"more than most": {kind: pending, items: []policy.Item{3}, selected: -1, expected: []int64{-1_000_000_000_001}},
		"of no items":    {kind: waiting, selected: -1, expected: []int64{5}, parked: []parkedRecord{{topic: event.Payoffs}}},
	} {
		faulty.instance = -1
		require.ErrorIs(t, decodeEntry(appendEntry(nil, &faulty), &got), errEntry, what)
	}
}

// TestItemRoundTrip: an item's sums are read back to the last bit.
func TestItemRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policy.Sums{N: rapid.Int64Range(1, math.MaxInt64).Draw(t, "n"),
			R: rapid.Float64Range(-1e300, 1e300).Draw(t, "sum"), Q: rapid.Float64Range(0, 1e300).Draw(t, "squares")}
		number := rapid.Int32Range(0, math.MaxInt32).Draw(t, "number")
		i, got, err := ParseItem(appendItem(nil, number, want))
		require.NoError(t, err)
		require.Equal(t, number, i)
		require.Equal(t, want, got)
	})
}

// FuzzParseItem: stored statistics are read, or refused.
func FuzzParseItem(f *testing.F) {
	f.Add(appendItem(nil, 17, policy.Sums{N: 12, R: 7.25, Q: 4.5}))
	f.Add([]byte(`{"no":1,"n":"x"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, s, err := ParseItem(b)
		if err != nil {
			return
		}
		require.NoError(t, s.Check())
		again, s2, err := ParseItem(appendItem(nil, i, s))
		require.NoError(t, err)
		require.Equal(t, i, again)
		require.Equal(t, s, s2)
	})
}
