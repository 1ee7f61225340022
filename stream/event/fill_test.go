package event_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// drawFilled takes some candidates' utilities away, and not all.
func drawFilled(t *rapid.T, r *event.Impression) {
	if !r.HasUtilities {
		return
	}
	var known []float64
	for i := range r.Candidates {
		if (len(known) > 0 || i < len(r.Candidates)-1) && rapid.IntRange(0, 3).Draw(t, "filled") == 0 {
			r.Filled = append(r.Filled, int32(i))
		} else {
			known = append(known, r.Candidates[i].Utility)
		}
	}
	for _, i := range r.Filled {
		r.Candidates[i].Utility = oracleMedian(known)
	}
}

// TestFill_StandsInTheMiddle: as JSON and as Protobuf, a candidate without a utility has the median of the others' utilities, and neither
// the lowest nor 0.
func TestFill_StandsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		json   string
		proto  []byte
		want   []float64
		filled []int32
	}{
		{`{"item":"a","utility":5},{"item":"b"},{"item":"c","utility":9},{"item":"d","utility":6}`,
			message(4, message(1, "a", 2, 5.0), 4, message(1, "b"), 4, message(1, "c", 2, 9.0), 4, message(1, "d", 2, 6.0)), []float64{5, 6, 9, 6}, []int32{1}},
		{`{"item":"a"},{"item":"b","utility":2},{"item":"c","utility":null},{"item":"d","utility":3}`,
			message(4, message(1, "a"), 4, message(1, "b", 2, 2.0), 4, message(1, "c"), 4, message(1, "d", 2, 3.0)), []float64{2.5, 2, 2.5, 3}, []int32{0, 2}},
		{`{"item":"a","utility":-7},{"item":"b"}`, message(4, message(1, "a", 2, -7.0), 4, message(1, "b")), []float64{-7, -7}, []int32{1}},
		{`{"item":"a"},{"item":"b"}`, message(4, message(1, "a"), 4, message(1, "b")), []float64{0, 0}, []int32{}},
		{`{"item":"a","utility":0},{"item":"b","utility":0}`, message(4, message(1, "a", 2, 0.0), 4, message(1, "b", 2, 0.0)), []float64{0, 0}, nil},
	} {
		for _, value := range []string{`{"impression_id":"i-1","candidates":[` + c.json + `]}`, string(append(message(1, "i-1"), c.proto...))} {
			var i event.Impression
			require.NoError(t, newProtobufDecoder().Impression(&i, []byte("i-1"), []byte(value)))
			var got []float64
			for k := range i.Candidates {
				got = append(got, i.Candidates[k].Utility)
			}
			require.Equal(t, c.want, got, c.json)
			require.Equal(t, c.filled, i.Filled, c.json)
			require.Equal(t, c.json != `{"item":"a"},{"item":"b"}`, i.HasUtilities)
			for k := range i.Candidates {
				require.Equal(t, i.HasUtilities && !slices.Contains(c.filled, int32(k)), i.HasUtility(k), c.json)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	const most, least = math.MaxFloat64, math.SmallestNonzeroFloat64
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{3}, 3}, {[]float64{1, 3}, 2}, {[]float64{-1, 0, 9}, 0}, {[]float64{most, most}, most}, {[]float64{-most, most}, 0},
		{[]float64{least, least}, least}, {[]float64{0, math.Copysign(0, -1)}, 0},
	} {
		require.Equal(t, math.Float64bits(c.want), math.Float64bits(event.Median(c.of)), "%v", c.of)
	}
}

// TestFill_DoesNotAllocate: once a decoder has seen an impression of the size.
func TestFill_DoesNotAllocate(t *testing.T) {
	value := []byte(`{"impression_id":"i","candidates":[{"item":"a","utility":5},{"item":"b"},{"item":"c","utility":9}]}`)
	d, i, key := event.NewDecoder(limits), event.Impression{}, []byte("i")
	var err error
	decode := func() { err = d.Impression(&i, key, value) }
	decode()
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, decode))
}
