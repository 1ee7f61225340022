package event_test

import (
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

var protobuf = event.Formats{event.Protobuf, event.Protobuf, event.Protobuf}

func newProtobufDecoder() *event.Decoder { return event.NewFormatsDecoder(limits, protobuf) }

func drawImpression(t *rapid.T) *event.Impression {
	r := &event.Impression{ID: ids(t, "id"), Learner: optionalID(t, "learner"), User: optionalID(t, "user"), HasTime: rapid.Bool().Draw(t, "has time"),
		HasUtilities: rapid.Bool().Draw(t, "has utilities")}
	if r.HasTime {
		r.Time = times.Draw(t, "time")
	}
	for _, item := range items(t) {
		c := event.Candidate{Item: item}
		if r.HasUtilities {
			c.Utility = floats.Draw(t, "utility")
		}
		if rapid.Bool().Draw(t, "pinned") {
			c.Pin = int32(1 + 3*len(r.Candidates))
		}
		r.Candidates = append(r.Candidates, c)
	}
	drawFilled(t, r)
	drawContext(t, r)
	return r
}

// headers are possible headers of a message.
var headers = rapid.SampledFrom([]string{"", "\x00\x00\x00\x00\x07\x00", "\x00\xff\xff\xff\xff\x02\x02", "\x00\x00\x00\x00\x07\x04\x00\x06"})

// JSON and Protobuf of one record are read as the same values, bit for bit, with a header or without, and with any
// unknown fields.
func TestProtobuf_SaysTheSameAsJSON(t *testing.T) {
	plain, d := event.NewDecoder(event.Limits{}), event.NewFormatsDecoder(event.Limits{}, protobuf)
	contextual := event.NewFormatsDecoder(event.Limits{}, protobuf).WithContext()
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 77, protowire.BytesType), []byte("x"))
	unknown = append(protowire.AppendTag(unknown, 78, protowire.StartGroupType), message(1, 5, 2, "x")...)
	unknown = protowire.AppendTag(unknown, 78, protowire.EndGroupType)
	unknown = protowire.AppendVarint(protowire.AppendTag(unknown, 79, protowire.VarintType), 1<<60)
	both := func(t *rapid.T, message []byte) []byte {
		m := append([]byte(headers.Draw(t, "header")), message...)
		if rapid.Bool().Draw(t, "unknown") {
			m = append(m, unknown...)
		}
		return m
	}
	t.Run("impression", rapid.MakeCheck(func(t *rapid.T) {
		r := drawImpression(t)
		var a, b event.Impression
		require.NoError(t, plain.Impression(&a, r.ID, event.AppendImpression(nil, r)))
		value := both(t, event.AppendProtobufImpression(nil, r))
		require.NoError(t, d.Impression(&b, r.ID, value))
		require.Equal(t, show(a), show(b))
		require.NoError(t, d.Impression(&b, r.ID, event.AppendImpression(nil, r)), "JSON is read too")
		require.Equal(t, show(a), show(b))
		require.NoError(t, contextual.Impression(&b, r.ID, value))
		require.Equal(t, show(*r), show(b))
	}))
	t.Run("selection", rapid.MakeCheck(func(t *rapid.T) {
		r := &event.Selection{ID: ids(t, "id"), Item: ids(t, "item"), HasTime: rapid.Bool().Draw(t, "has time"),
			HasUtility: rapid.Bool().Draw(t, "has utility"), ByUtility: rapid.Bool().Draw(t, "by utility")}
		if r.HasTime {
			r.Time = times.Draw(t, "time")
		}
		if r.HasUtility {
			r.Utility = floats.Draw(t, "utility")
		}
		var a, b event.Selection
		require.NoError(t, plain.Selection(&a, r.ID, event.AppendSelection(nil, r)))
		require.NoError(t, d.Selection(&b, r.ID, both(t, event.AppendProtobufSelection(nil, r))))
		require.Equal(t, show(a), show(b))
	}))
	t.Run("payoff", rapid.MakeCheck(func(t *rapid.T) {
		r := &event.Payoff{ID: ids(t, "id"), Payoff: floats.Draw(t, "payoff"), HasTime: rapid.Bool().Draw(t, "has time"),
			Item: optionalID(t, "item"), EventID: optionalID(t, "event")}
		if r.HasTime {
			r.Time = times.Draw(t, "time")
		}
		var a, b event.Payoff
		require.NoError(t, plain.Payoff(&a, r.ID, event.AppendPayoff(nil, r)))
		require.NoError(t, d.Payoff(&b, r.ID, both(t, event.AppendProtobufPayoff(nil, r))))
		require.Equal(t, show(a), show(b))
	}))
}

// message writes fields: a string is text, a float a double, an int a varint, bytes are a message.
func message(parts ...any) []byte {
	var b []byte
	for i := 0; i < len(parts); i += 2 {
		number := protowire.Number(parts[i].(int))
		switch v := parts[i+1].(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		case float64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), math.Float64bits(v))
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		}
	}
	return b
}

// The bytes in docs/records.md encode the record that it names.
func TestProtobuf_TheExampleOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/records.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "in Protobuf:\n")
	require.True(t, found)
	line, _, _ := strings.Cut(rest, "\n")
	value, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
	require.NoError(t, err)
	require.Equal(t, event.AppendProtobufImpression(nil, &event.Impression{ID: []byte("i-1"), HasUtilities: true,
		Candidates: []event.Candidate{{Item: []byte("a"), Utility: 0.1}, {Item: []byte("b"), Utility: 0.7}}}), value)
}

func TestProtobuf_Faults(t *testing.T) {
	a := message(1, "a")
	for _, c := range []struct {
		kind    byte
		value   []byte
		reason  event.Reason
		pointer string
	}{
		{'i', nil, event.MissingImpressionID, "/impression_id"},
		{'i', message(1, ""), event.MissingImpressionID, "/impression_id"},
		{'i', message(1, "other"), event.KeyMismatch, "/impression_id"},
		{'i', message(1, "i-1", 4, a)[:6], event.MalformedProtobuf, ""},
		{'i', []byte{0}, event.MalformedProtobuf, ""},
		{'i', []byte{0, 0, 0, 0, 7}, event.MalformedProtobuf, ""},
		{'i', []byte{0, 0, 0, 0, 7, 1}, event.MalformedProtobuf, ""},
		{'i', []byte{0, 0, 0, 0, 7, 4, 0}, event.MalformedProtobuf, ""},
		{'i', []byte{0x0f}, event.MalformedProtobuf, ""},
		{'i', append(message(1, "i-1", 4, a), 0x80, 0x80, 0x80, 0x80, 0x10, 0), event.MalformedProtobuf, ""}, // field 2²⁹
		{'i', message(1, 5), event.WrongType, "/impression_id"},
		{'i', message(1, "i-1", 2, "\xff", 4, a), event.MalformedProtobuf, "/learner"},
		{'i', message(1, "i-1", 2, strings.Repeat("x", event.MaxIDBytes+1), 4, a), event.IDTooLong, "/learner"},
		{'i', message(1, "i-1"), event.NoCandidates, "/candidates"},
		{'i', message(1, "i-1", 4, 3), event.WrongType, "/candidates/0"},
		{'i', message(1, "i-1", 4, a, 4, a), event.DuplicateItem, "/candidates/1/item"},
		{'i', message(1, "i-1", 4, a, 4, message(2, 0.5)), event.MissingItem, "/candidates/1/item"},
		{'i', message(1, "i-1", 4, message(1, "b", 2, math.NaN())), event.NotFinite, "/candidates/0/utility"},
		{'i', message(1, "i-1", 4, message(1, "b", 2, "0.5")), event.WrongType, "/candidates/0/utility"},
		{'i', message(1, "i-1", 3, "\xff", 4, a), event.MalformedProtobuf, "/time"},
		{'i', message(1, "i-1", 3, 1795255200123, 4, a), event.WrongType, "/time"},
		{'i', message(1, "i-1", 3, message(1, 1.5), 4, a), event.WrongType, "/time/seconds"},
		{'i', message(1, "i-1", 3, message(1, 1<<40), 4, a), event.InvalidTime, "/time"},
		{'i', message(1, "i-1", 3, message(2, 1_000_000_000), 4, a), event.InvalidTime, "/time"},
		{'s', message(1, "i-1"), event.MissingItem, "/item"},
		{'s', message(1, "i-1", 2, "a", 5, "ranking"), event.WrongType, "/shown"},
		{'s', message(1, "i-1", 2, "a", 4, math.Inf(1)), event.NotFinite, "/utility"},
		{'p', message(1, "i-1"), event.MissingPayoff, "/payoff"},
		{'p', message(1, "i-1", 2, math.Inf(-1)), event.NotFinite, "/payoff"},
		{'p', message(1, "i-1", 2, 1), event.WrongType, "/payoff"},
		{'i', message(1, strings.Repeat("x", limits.MaxRecordBytes)), event.RecordTooLarge, ""},
	} {
		d := newProtobufDecoder()
		var err error
		switch c.kind {
		case 'i':
			err = d.Impression(&event.Impression{}, []byte("i-1"), c.value)
		case 's':
			err = d.Selection(&event.Selection{}, []byte("i-1"), c.value)
		default:
			err = d.Payoff(&event.Payoff{}, []byte("i-1"), c.value)
		}
		require.Error(t, err, "%q", c.value)
		f := requireFault(t, err)
		require.Equal(t, c.reason, f.Reason, "%q: %v", c.value, err)
		require.Equal(t, c.pointer, f.Pointer, "%q: %v", c.value, err)
	}
	many := message(1, "i-1")
	for i := range limits.MaxCandidates + 1 {
		many = append(many, message(4, message(1, strings.Repeat("x", i+1)))...)
	}
	require.Equal(t, event.TooManyCandidates, requireFault(t, newProtobufDecoder().Impression(&event.Impression{}, []byte("i-1"), many)).Reason)
}

// Of a field that is given several times the last counts, and times are merged, as Protobuf has it.
func TestProtobuf_TheLastCounts(t *testing.T) {
	var p event.Payoff
	require.NoError(t, newProtobufDecoder().Payoff(&p, []byte("i-1"),
		message(1, "x", 2, math.NaN(), 3, message(1, 5, 2, 7_999_999), 4, "a", 1, "i-1", 2, 0.25, 3, message(1, 6), 4, "")))
	require.Equal(t, event.Payoff{ID: []byte("i-1"), Payoff: 0.25, HasTime: true, Time: 6007, Item: []byte{}}, p)
	require.NoError(t, newProtobufDecoder().Payoff(&p, []byte("i-1"), message(1, "i-1", 2, 0.0, 3, message(1, -1, 2, 999_000_000))))
	require.Equal(t, event.Millis(-1), p.Time)
}

// No header and no bytes cause more than a fault, and a record read is read again from its re-encoding.
func FuzzProtobuf(f *testing.F) {
	_, _, r := typical(3)
	r.Context = event.Context{Features: []float64{1, math.NaN()}, Segment: []byte("new"), Candidates: []event.CandidateContext{
		{Features: []float64{1, -2}, Predicted: 0.5, Category: []byte("news")}, {Predicted: math.NaN()}, {Predicted: 1}}}
	whole := event.AppendProtobufImpression(nil, r)
	for i := range whole {
		f.Add(whole[:i])
		f.Add(append([]byte("\x00\x00\x00\x00\x07\x02\x00"), whole[i:]...))
	}
	f.Add(message(1, "i", 2, 0.5, 3, message(1, 5, 2, 7), 4, "a", 5, "e"))
	f.Add(message(1, "i", 2, "a", 3, message(1, 5, 2, 7), 4, 0.5, 5, "utility"))
	d := event.NewFormatsDecoder(event.Limits{}, protobuf).WithContext()
	keyless := event.NewKeylessDecoder(event.Limits{}).WithContext()
	f.Fuzz(func(t *testing.T, value []byte) {
		c := event.Content{Form: event.Protobuf, Value: value}
		var i, i2 event.Impression
		if err := keyless.ImpressionIn(&i, nil, c); err != nil {
			requireFault(t, err)
		} else if i.Context.Fault == nil {
			require.NoError(t, d.Impression(&i2, i.ID, event.AppendProtobufImpression(nil, &i)))
			require.Equal(t, show(i), show(i2))
		}
		var s, s2 event.Selection
		if err := keyless.SelectionIn(&s, nil, c); err != nil {
			requireFault(t, err)
		} else {
			require.NoError(t, d.Selection(&s2, s.ID, event.AppendProtobufSelection(nil, &s)))
			require.Equal(t, show(s), show(s2))
		}
		var p, p2 event.Payoff
		if err := keyless.PayoffIn(&p, nil, c); err != nil {
			requireFault(t, err)
		} else {
			require.NoError(t, d.Payoff(&p2, p.ID, event.AppendProtobufPayoff(nil, &p)))
			require.Equal(t, show(p), show(p2))
		}
	})
}
