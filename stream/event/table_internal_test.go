package event

import (
	"fmt"
	"math"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	drawnIDs    = rapid.StringN(1, 40, MaxIDBytes).Filter(utf8.ValidString)
	drawnFloats = rapid.OneOf(rapid.Float64Range(0, 1), rapid.Map(rapid.Uint64(), math.Float64frombits).Filter(func(x float64) bool {
		return finite(x, "") == nil
	}))
)

// drawFields draws a record that a decoder returns, by its table.
func drawFields[R any](t *rapid.T, of *table[R]) (r R) {
	for i := range of.rows {
		c := &of.rows[i]
		if c.given != nil {
			if *c.given(&r) = rapid.Bool().Draw(t, c.name+" given"); !*c.given(&r) {
				continue
			}
		}
		switch {
		case c.text != nil && (c.need != "" || rapid.Bool().Draw(t, c.name+" given")):
			*c.text(&r) = []byte(drawnIDs.Draw(t, c.name))
		case c.number != nil:
			*c.number(&r) = drawnFloats.Draw(t, c.name)
		case c.time != nil:
			*c.time(&r) = rapid.Int64Range(MinTime, MaxTime).Draw(t, c.name)
		}
	}
	return r
}

// testRoundTrip: in both forms, decoding returns the encoded values, bit for bit, and encoding does not depend on the contents of dst.
func testRoundTrip[R any](t *testing.T, of *table[R], decode func(*Decoder, *R, []byte, Content) error, encoders map[Form]func([]byte, *R) []byte) {
	t.Helper()
	d := NewDecoder(Limits{})
	rapid.Check(t, func(t *rapid.T) {
		want := drawFields(t, of)
		for form, encode := range encoders {
			const prefix = "prefix"
			c := Content{Form: form, Value: encode([]byte(prefix), &want)[len(prefix):]}
			var got R
			require.NoError(t, decode(d, &got, *of.rows[0].text(&want), c))
			require.Equal(t, fmt.Sprintf("%q", fmt.Sprintf("%+v", want)), fmt.Sprintf("%q", fmt.Sprintf("%+v", got)))
		}
	})
}

func TestTables_RoundTrip(t *testing.T) {
	t.Run("selection", func(t *testing.T) {
		testRoundTrip(t, selections, (*Decoder).SelectionIn, map[Form]func([]byte, *Selection) []byte{JSON: AppendSelection,
			Protobuf: AppendProtobufSelection})
	})
	t.Run("payoff", func(t *testing.T) {
		testRoundTrip(t, payoffs, (*Decoder).PayoffIn, map[Form]func([]byte, *Payoff) []byte{JSON: AppendPayoff, Protobuf: AppendProtobufPayoff})
	})
}

// testRows: each row has a name and a place of its own, and the table fits the decoders' arrays.
func testRows[R any](t *testing.T, of *table[R], most int) {
	t.Helper()
	require.LessOrEqual(t, len(of.rows), most)
	var r R
	names := map[any]string{}
	for i := range of.rows {
		c := &of.rows[i]
		places := []any{c.name}
		if c.text != nil {
			places = append(places, c.text(&r))
		}
		if c.number != nil {
			places = append(places, c.number(&r))
		}
		if c.time != nil {
			places = append(places, c.time(&r))
		}
		if c.given != nil {
			places = append(places, c.given(&r))
		}
		if c.word != nil {
			places = append(places, c.word(&r))
		}
		if c.integer != nil {
			places = append(places, c.integer(&r))
		}
		if c.truth != nil {
			places = append(places, c.truth(&r))
		}
		for _, place := range places {
			require.Empty(t, names[place], "%s has the place of another", c.name)
			names[place] = c.name
		}
	}
}

func TestTables_HavePlacesOfTheirOwn(t *testing.T) {
	testRows(t, impressions, mostFields)
	testRows(t, candidates, mostFields)
	testRows(t, selections, mostFields)
	testRows(t, payoffs, mostFields)
	testRows(t, rankings, mostFields)
	testRows(t, decisions, mostNestedFields)
	testRows(t, verdicts, mostNestedFields)
}
