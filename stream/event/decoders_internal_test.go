package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sameAsDOM compares the decoder with the tree-building one on one value. Both must accept it or not, read the same
// record, report the same fault with the same text and place, and count the same misspelt fields.
func sameAsDOM(t require.TestingT, l Limits, key, value []byte) {
	sameBy(t, l, key, value, NewDecoder(l), &domDecoder{Decoder: *NewDecoder(l)})
	sameBy(t, l, key, value, NewDecoder(l).WithContext(), &domDecoder{Decoder: *NewDecoder(l).WithContext()})
}

func sameBy(t require.TestingT, l Limits, key, value []byte, d *Decoder, o *domDecoder) {
	before := bytes.Clone(value)
	hold := func(what string, got, want any, err error, fault *Fault) {
		if fault != nil {
			require.Equal(t, fault, err, "%s: %q", what, value)
			return
		}
		require.NoError(t, err, "%s: %q", what, value)
		require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got), "%s: %q", what, value)
	}
	if l.MaxRecordBytes == 0 || len(value) <= l.MaxRecordBytes {
		_, body, _ := SchemaID(value)
		var gotI, wantI Impression
		hold("impression", &gotI, &wantI, d.Impression(&gotI, key, value), o.impression(&wantI, key, body))
		var gotS, wantS Selection
		hold("selection", &gotS, &wantS, d.Selection(&gotS, key, value), o.selection(&wantS, key, body))
		var gotP, wantP Payoff
		hold("payoff", &gotP, &wantP, d.Payoff(&gotP, key, value), o.payoff(&wantP, key, body))
	}
	gotR, wantR := Ranking{}, Ranking{Decision: Decision{Instance: -1}}
	hold("ranking", &gotR, &wantR, d.Ranking(&gotR, value), o.ranking(&wantR, value))
	require.Equal(t, o.misspelt, d.misspelt, "%q", value)
	require.Equal(t, before, value, "a decoder must not change its input")
}

// FuzzDecoders holds both decoders together on any bytes.
func FuzzDecoders(f *testing.F) {
	for _, s := range []string{
		`{"impression_id":"i","learner":"feed","time":"2026-11-21T10:00:00.000Z","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":12345678.123456789012}]}`,
		` { "candidates" : [ { "utility" : null , "item" : "\u0061\ud83d\ude00é\n" , "x" : [ { } , [ ] , -1.5e+3 ] } ] , "impression_id" : "\u0069" } `,
		`{"impression_id":"i","item":"b","time":"2026-11-21T10:00:04Z","utility":-66e-2,"shown":"utility"}`,
		`{"impression_id":"i","payoff":0.8,"time":"2026-11-28T09:00:00+05:30","item":"b","eventId":"e-9","Item":true}`,
		`{"impression_id":"i","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{"group":"ranker","policy":"egreedy",` +
			`"delay":"direct","partition":3,"offset":1044,"layout":1,"propensities":[0.5,0.5],"expected":[0.25,-1.000001],"explored":false,` +
			`"ranks":[1,0],"undecided":[1],"seed":"9f00000000000a01","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`,
		`{"impression_id":"i","candidates":[{"item":"a","item":"b"},{"item":"a"},{"item":"a","utility":1}],"candidates":[]}`,
		`{"impression_id":"i","candidates":[{"item":"a","utility":1},{"item":"b"},{"utility":-3,"item":"c"}]}`,
		`{"impression_id":"i","candidates":[{"item":"a"},{"Item":"a"},7,{"item":"a"},{"utility":1e999}]}`,
		`{"impression_id":"i","features":[0.4,null],"candidates":[{"item":"a","features":[3,-0.2e1],"predicted":0.6},` +
			`{"item":"b","features":null,"predicted":null},{"item":"c","features":[true,1e999],"predicted":"1"}]}`,
		`{"impression_id":"i","segment":"new","candidates":[{"item":"a","category":"n\u0065ws"},{"item":"b","category":""},{"item":"c","category":7}]}`,
		`{"impression_id":"i","features":[""],"segment":["new"],"candidates":[{"item":"a"}]}`,
		"{\"x\":[{\"\n\":0}]}", ` { "candidates"[0`, `{"features"[0`, strings.Repeat("[", 70), `{"x":` + strings.Repeat(`{"":[`, 40), "\x00\x00\x00\x00\x01{}",
	} {
		f.Add([]byte("i"), []byte(s))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		sameAsDOM(t, Limits{MaxCandidates: 3, MaxRecordBytes: 4096}, key, value)
		sameAsDOM(t, Limits{}, key, value)
	})
}

// TestDecoders compares both decoders on JSON that is nearly a record, and on copies with a byte changed or the end
// cut off.
func TestDecoders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(drawRecord(t))
		sameAsDOM(t, Limits{MaxCandidates: 3}, []byte("i"), b)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		sameAsDOM(t, Limits{MaxCandidates: 3}, []byte("i"), b[:at])
		b[at] = rapid.SampledFrom([]byte("{}[]\",:\\0-.eE+n u\n\x00\xff\xc3d8")).Draw(t, "byte")
		sameAsDOM(t, Limits{MaxCandidates: 3}, []byte("i"), b)
	})
}

var (
	drawnTexts = []string{`"i"`, `"a"`, `"b"`, `"\u0061"`, `""`, `"c\n\"é😀"`, `"\ud83d\ude00\\"`, `"2026-11-21T10:00:00Z"`, `"utility"`,
		`"012345678901234567890123456789é\t"`}
	drawnNumbers = []string{"0", "-0", "1", "0.5", "-2e3", "0.12345678901234567", "9007199254740993", "123456789.0123456789012", "1e999",
		"0.000000000000000000001", "1E-400", "18446744073709551616.5"}
	drawnNames = append(slices.Compact(slices.Sorted(slices.Values(slices.Concat(impressions.names, candidates.names, selections.names, payoffs.names,
		rankings.names)))), "segments", "feature", "x", "", "Item", "impressionId", `c\u0061ndidates`, `\u0069tem`, `a\"b`, "candidate", "utilty")
)

// drawRecord draws JSON in which much is as in a record, in some order, and something may be odd anywhere.
func drawRecord(t *rapid.T) string {
	list := func(n int, each func(i int) string) string {
		var parts []string
		for i := range rapid.IntRange(0, n).Draw(t, "n") {
			parts = append(parts, each(i))
		}
		return strings.Join(parts, drawSpace(t)+","+drawSpace(t))
	}
	member := func(name, value string) string {
		return `"` + name + `"` + drawSpace(t) + ":" + drawSpace(t) + value
	}
	odd := func(usual string) string {
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			return drawJSON(t, 1)
		}
		return usual
	}
	candidate := func(i int) string {
		return odd("{" + list(3, func(int) string {
			switch rapid.IntRange(0, 11).Draw(t, "member") {
			case 11:
				return member("category", odd(rapid.SampledFrom(drawnTexts).Draw(t, "text")))
			case 0:
				return member(rapid.SampledFrom(drawnNames).Draw(t, "name"), drawJSON(t, 2))
			case 9:
				return member("features", odd(drawFeatures(t)))
			case 10:
				return member("predicted", odd("0.25"))
			case 1, 2, 3:
				return member("utility", odd(rapid.SampledFrom(drawnNumbers).Draw(t, "number")))
			}
			return member("item", odd(fmt.Sprintf(`"%d"`, rapid.IntRange(0, i+2).Draw(t, "item"))))
		}) + "}")
	}
	return drawSpace(t) + odd("{"+list(6, func(i int) string {
		if i == 0 {
			return member("impression_id", odd(`"i"`))
		}
		switch rapid.IntRange(0, 10).Draw(t, "member") {
		case 10:
			return member("segment", odd(rapid.SampledFrom(drawnTexts).Draw(t, "text")))
		case 9:
			return member("features", odd(drawFeatures(t)))
		case 0:
			return member("learner", odd(`"feed"`))
		case 1:
			return member("time", odd(`"2026-11-21T10:00:00.123+01:00"`))
		case 2, 3, 4:
			return member("candidates", odd("["+list(4, candidate)+"]"))
		case 5:
			return member("payoff", odd(rapid.SampledFrom(drawnNumbers).Draw(t, "number")))
		case 6:
			return member("item", odd(`"b"`))
		}
		return member(rapid.SampledFrom(drawnNames).Draw(t, "name"), drawJSON(t, 1))
	})+"}") + drawSpace(t)
}

// drawFeatures draws a list of numbers and null, sometimes one that is too long.
func drawFeatures(t *rapid.T) string {
	n := rapid.SampledFrom([]int{0, 1, 2, 3, MaxFeatures, MaxFeatures + 1}).Draw(t, "features")
	list := make([]string, n)
	for i := range list {
		list[i] = rapid.SampledFrom([]string{"1", "-0.5", "null", "2e3", "7", "1e999", "true"}).Draw(t, "feature")
		if n >= MaxFeatures {
			list[i] = "0"
		}
	}
	return "[" + drawSpace(t) + strings.Join(list, drawSpace(t)+",") + "]"
}

func drawSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"}).Draw(t, "space")
}

// drawJSON draws any JSON value.
func drawJSON(t *rapid.T, depth int) string {
	var parts []string
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind > 4 || depth == 4:
		scalars := append([]string{"null", "true", "false", "[]", "{}"}, append(drawnTexts, drawnNumbers...)...)
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	case kind > 1:
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			parts = append(parts, `"`+rapid.SampledFrom(drawnNames).Draw(t, "name")+`"`+drawSpace(t)+":"+drawSpace(t)+drawJSON(t, depth+1))
		}
		return "{" + drawSpace(t) + strings.Join(parts, drawSpace(t)+",") + drawSpace(t) + "}"
	}
	for range rapid.IntRange(0, 5).Draw(t, "elements") {
		parts = append(parts, drawJSON(t, depth+1))
	}
	return "[" + drawSpace(t) + strings.Join(parts, ","+drawSpace(t)) + drawSpace(t) + "]"
}
