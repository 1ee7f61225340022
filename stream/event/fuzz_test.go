package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

var limits = event.Limits{MaxCandidates: 50, MaxRecordBytes: 4096}

// examine compares a decoder with the oracle, and the record with its re-encoding. Both accept the value or neither
// does, with the same contents; encoding and decoding again changes nothing. A refusal is a fault with a known
// reason, and a detail that fits a header.
func examine[R any](t *testing.T, value []byte, decode func(*R, []byte) error, oracle func([]byte) (*R, error),
	encode func([]byte, *R) []byte) {
	t.Helper()
	before := bytes.Clone(value)
	got, want := new(R), (*R)(nil)
	err := decode(got, value)
	require.Equal(t, before, value, "the decoder must not change its input")
	content := value
	if len(value) >= event.SchemaHeader && len(value) <= limits.MaxRecordBytes && value[0] == 0 { // JSON Schema's serializer writes so
		content = value[event.SchemaHeader:]
	}
	want, oracleErr := oracle(content)
	if err != nil {
		requireFault(t, err)
		require.Error(t, oracleErr, "refused (%v), accepted by encoding/json: %q", err, value)
		return
	}
	require.NoError(t, oracleErr, "accepted, refused by encoding/json: %q", value)
	require.Equal(t, show(want), show(got), "%q", value)
	encoded := encode(nil, got)
	require.True(t, json.Valid(encoded), "%s", encoded)
	again := new(R)
	require.NoError(t, decode(again, encoded), "%s", encoded)
	require.Equal(t, show(want), show(again))
	require.Equal(t, string(encoded), string(encode(nil, again)))
}

// show prints a record so that equal records, and only they, look the same: nil and empty slices do, -0 and 0 do not.
func show(r any) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%+v", r))
}

func requireFault(t *testing.T, err error) *event.Fault {
	t.Helper()
	var fault *event.Fault
	require.True(t, errors.As(err, &fault), "%T: %v", err, err)
	require.Contains(t, event.Reasons(), fault.Reason)
	require.NotEmpty(t, fault.Detail)
	if fault.Reason == event.MalformedJSON {
		require.Contains(t, fault.Detail, "at byte", "the library refused what had passed our own check")
	}
	require.Less(t, len(fault.Detail), 1000)
	require.True(t, utf8.ValidString(fault.Detail))
	for _, r := range fault.Detail {
		require.True(t, unicode.IsPrint(r), "%q", fault.Detail)
	}
	return fault
}

// oddities are values that JSON libraries disagree on, to be put where a value stands.
var oddities = []string{
	"NaN", "nan", "Infinity", "-inf", "+1", "01", "-01", "1.", ".5", "-", "1e", "1e+", "0x10", "1_0", "-0", "0.0e-0", "1e999",
	"-1e999", "1e-999", "5e-324", "2.2250738585072011e-308", "9007199254740993", "1.7976931348623159e308", "0.1e1", "1e23",
	"123456789012345678901234567890", "null", "true", "false", "truefalse", "nul", `""`, `"a\u0000b"`, `"\ud83d\ude00"`,
	`"\ud800"`, `"\udc00\ud800"`, `"\ud800\u0041"`, `"\ud800\ud800"`, `"\u12"`, `"\x41"`, `"\`, `"\"`, "\"\x01\"", "\"\x7f\"",
	"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\u2028\ufffd\"", "[]", "{}", "[1,]", "{,}", `{"a":1,}`, "[", "{", `{"a"`,
	`{"a":`, "]", "}", "", " ", "\v", "\ufeff", "//", "[[[[]]]]", `{"a":{"a":[{"a":1}]}}`,
}

// seeds are records in which one value is replaced by each oddity, and some that are odd as a whole.
func seeds(f *testing.F, templates ...string) {
	for _, t := range templates {
		f.Add([]byte("i-1"), []byte(t))
		f.Add([]byte("i-2"), []byte(t))
		for at := 0; at < len(t); at++ {
			if t[at] != ':' || t[at-1] != '"' {
				continue
			}
			end := at + 1 + bytes.IndexAny([]byte(t[at+1:]), ",}]")
			for _, o := range oddities {
				f.Add([]byte("i-1"), []byte(t[:at+1]+o+t[end:]))
			}
			f.Add([]byte("i-1"), []byte(t[:at+1]))
		}
		f.Add([]byte("i-1"), []byte(" \t\r\n"+t+"\n"))
		f.Add([]byte("i-1"), []byte(t+"x"))
		f.Add([]byte("i-1"), []byte(t+t))
	}
	for _, o := range oddities {
		f.Add([]byte("i-1"), []byte(o))
	}
	for _, n := range []int{event.MaxDepth, event.MaxDepth + 1, 1500} {
		f.Add([]byte("i-1"), append(bytes.Repeat([]byte("["), n), bytes.Repeat([]byte("]"), n)...))
	}
}

// FuzzMemory: a new decoder never takes more memory than a value's length allows; it believes no count or nesting
// that the value claims. A list in many pieces takes no more than one in one.
func FuzzMemory(f *testing.F) {
	seeds(f, `{"impression_id":"i-1","learner":"feed","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`, sampleRanking)
	f.Add([]byte("i-1"), append([]byte(`{"impression_id":"i-1","candidates":[`), bytes.Repeat([]byte(`{"item":"a"},`), 5000)...))
	f.Add([]byte("i-1"), append([]byte(`{"impression_id":"i-1","x":`), bytes.Repeat([]byte(`[`), 60_000)...))
	numbers := string(make([]byte, 8*event.MaxFeatures))
	f.Add([]byte("i-1"), append(message(1, "i-1", 4, message(1, "a"), 7, numbers), bytes.Repeat(message(7, ""), 5000)...))
	f.Add([]byte("i-1"), message(1, "i-1", 4, append(message(1, "a", 4, numbers), bytes.Repeat(message(4, ""), 5000)...)))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		took := memcap.Allocated(func() {
			d := event.NewDecoder(event.Limits{MaxCandidates: 1 << 30, MaxRecordBytes: 1 << 30}).WithContext()
			_ = d.Impression(new(event.Impression), key, value)
			_ = d.Selection(new(event.Selection), key, value)
			_ = d.Payoff(new(event.Payoff), key, value)
			_ = d.Ranking(new(event.Ranking), value)
			_ = d.ImpressionIn(new(event.Impression), key, event.Content{Form: event.Protobuf, Value: value})
		})
		require.LessOrEqual(t, took, uint64(256<<10+400*(len(key)+len(value))))
	})
}

func FuzzImpression(f *testing.F) {
	seeds(f, `{"impression_id":"i-1","learner":"feed","time":"2026-11-21T10:00:00.000Z","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`,
		`{"impression_id":"i-1","candidates":[{"item":"a"},{"item":"b"}],"x":{"impression_id":"i-3"}}`,
		`{"impression_id":"i-1","candidates":[{"item":"a","utility":0.3},{"item":"b"},{"item":"c","utility":-1},{"item":"d","utility":null}]}`,
		`{"impression_id":"i-1","impression_\u0069d":"i-1","candidates":[{"item":"a"}]}`,
		`{"impression_id":"i-1","candidates":[{"item":"a","item":"b"}]}`,
		`{"impression_id":"i-1","candidates":[{"item":"a"},{"item":"\u0061"}]}`)
	d := event.NewDecoder(limits)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		examine(t, value,
			func(dst *event.Impression, b []byte) error {
				if len(b) > limits.MaxRecordBytes && len(value) <= limits.MaxRecordBytes {
					return event.NewDecoder(event.Limits{}).Impression(dst, key, b) // grown by encoding
				}
				return d.Impression(dst, key, b)
			},
			func(b []byte) (*event.Impression, error) { return oracleImpression(limits, key, b) },
			event.AppendImpression)
	})
}

func FuzzSelection(f *testing.F) {
	seeds(f, `{"impression_id":"i-1","item":"b","time":"2026-11-21T10:00:04Z","utility":0.66}`)
	d := event.NewDecoder(event.Limits{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		examine(t, value,
			func(dst *event.Selection, b []byte) error { return d.Selection(dst, key, b) },
			func(b []byte) (*event.Selection, error) {
				return oracleSelection(event.Limits{MaxRecordBytes: len(b)}, key, b)
			},
			event.AppendSelection)
	})
}

func FuzzPayoff(f *testing.F) {
	seeds(f, `{"impression_id":"i-1","payoff":0.8,"time":"2026-11-28T09:00:00+05:30","item":"b","event_id":"e-9"}`)
	d := event.NewDecoder(event.Limits{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		examine(t, value,
			func(dst *event.Payoff, b []byte) error { return d.Payoff(dst, key, b) },
			func(b []byte) (*event.Payoff, error) {
				return oraclePayoff(event.Limits{MaxRecordBytes: len(b)}, key, b)
			},
			event.AppendPayoff)
	})
}

func FuzzRanking(f *testing.F) {
	seeds(f, sampleRanking, sampleExpected, sampleArm, `{"impression_id":"i-1","time":"2026-11-21T10:00:00.000Z","items":["b"],"decision":{"group":"","policy":"","delay":"",`+
		`"partition":0,"offset":9223372036854775807,"layout":0,"seed":"ABCDEFabcdef0123","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00Z","propensities":[]}}`)
	for _, x := range []string{"0.000001", "1e-6", "-0", "-0.0000001", "5e-7", "1000000", "-1e6", "1000000.000001", "999999.999999",
		"123456.7890125", "0.1234565", "0.1234560", "1e400", `"1"`, "null", "0.1,0.2", ""} {
		f.Add([]byte("i-1"), []byte(strings.Replace(sampleExpected, "[0.25,-1.000001]", "["+x+"]", 1)))
		f.Add([]byte("i-1"), []byte(strings.Replace(sampleExpected, "0.25", x, 1)))
	}
	d := event.NewDecoder(limits)
	f.Fuzz(func(t *testing.T, _, value []byte) {
		examine(t, value, d.Ranking, oracleRanking, event.AppendRanking)
	})
}
