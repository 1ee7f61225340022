package event_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The cases are those of Nicolas Seriot's JSONTestSuite, some merged, and RFC 7493's rules for text. Where the suite
// leaves the result open (numbers beyond floats, deep nesting), it is fixed here.
var (
	// soundValues may stand wherever a value may.
	soundValues = []string{
		`null`, `true`, `false`, `""`, `[]`, `{}`, `[ ]`, `{ }`, "[\t\n\r ]", `[[]   ]`, `[""]`, `[null, 1, "1", {}]`, `[1
]`, `[null,null]`, `[2] `, ` [1]`,
		`{"":0}`, `{"a":null,"b":[]}`, "{\n\"a\" : 1 }", `{"a":{"a":{"a":[]}}}`, `{"a":"b","a":"c"}`, `{"a":"b","a":"b"}`, `{"foo\u0000bar":42}`,
		`{"min":-1.0e+28,"max":1.0e+28}`, `{"\u041f\u043e":"\u0437\u0435"}`,
		`0`, `-0`, `-1`, `-123`, `123`, `123.456789`, `0e1`, `0e+1`, `0E1`, `-0e-0`, `1E22`, `1E-2`, `1E+2`, `123e45`, `123.456e78`, `20e1`, `-0.000000000000000000000000000000000000001`,
		`1e-10000`, `1.5e+9999`, `-1e+9999`, `0.4e00669999999999999999999999999999`, `123123e100000`, `100000000000000000000`, `-237462374673276894279832749832423479823246327846`,
		`"a"`, `" "`, `"a/*b*/c/*d//e"`, `"\"\\\/\b\f\n\r\t"`, `"\\a"`, `"\\n"`, `"\""`, `"\u0060\u012a\u12AB"`, `"\u0000"`, `"\u0012"`, `"\u0022\u005c"`, `"\uFFFF"`, `"\uFDD0\uFFFE"`,
		`"\u00A0\u200B\u2064"`, `"\uD801\udc37"`, `"\ud83d\ude39\ud83d\udc8d"`, `"\uDBFF\uDFFF"`, `"new\u000Aline"`, `"\uA66D"`,
		"\"\x7f\"", "\"\u00a0\"", "\"\u0821\"", "\"\u2028\u2029\"", "\"\uffff\"", "\"\ufdd0\"", "\"\U0010ffff\"", "\"\U0001bfff\"", "\"€𝄞\"", "\"\ufeff\"", "[\"\U0001f600 \"]",
	}
	// flawedValues may stand nowhere.
	flawedValues = []string{
		// numbers
		`+1`, `++1234`, `+Inf`, `-01`, `-1.0.`, `-2.`, `-NaN`, `-foo`, `-`, `- 1`, `--1`, `.-1`, `.2e-3`, `.5`, `0.1.2`, `0.3e+`, `0.3e`, `0.e1`, `0E+`, `0E`, `0e+`, `0e`, `1.0e+`, `1.0e-`,
		`1.0e`, `1 000.0`, `1eE2`, `2.e+3`, `2.e-3`, `2.e3`, `9.e+`, `1.`, `1.a`, `1e1.5`, `1e++1`, `012`, `-012`, `00`, `-00`, `0x1`, `0x42`, `1_000`, `1,000.5x`, `1a`, `1+2`, `1-1`, `1ea`, `0e1x`, `-1x`, `123\u0000`,
		"１", "1\ufeff", `Inf`, `Infinity`, `-Infinity`, `NaN`, `nan`, `1e1é`, "1\xe5", "-123.123foo", "1e1\xe5", "0\xe5",
		// words
		`nul`, `tru`, `fals`, `True`, `NULL`, `truefalse`, `nulll`, `true1`, `undefined`, `a`, `*`, `@`, `\u000A`, "\u2060", "å", "\xe5", "\x00",
		// strings
		`"`, `"a`, `"a` + "\x00" + `a"`, "\"\x1f\"", "\"\n\"", "\"\t\"", "\"\r\"", "\"\x08\"", `'a'`, `"\`, `"\"`, `"\\\"`, `"\a"`, `"\x00"`, `"\v"`, `"\0"`, `"\'"`, `"\ "`, `"\U0041"`, `"\🌀"`, `"\u"`, `"\u1"`, `"\u12"`, `"\u123"`,
		`"\u00A"`, `"\u 041"`, `"\u+041"`, `"\uqqqq"`, `"\u{41}"`, `"\ud8000"`, `"\ud800`, `"a"x`, `"a""b"`, "\"\\\t\"", `\"a\"`, "“a”",
		// text that is not Unicode
		"\"\xff\"", "\"\x80\"", "\"\xe0\xff\"", "\"\xe5\"", "\"\\\xe5\"", "\"\\u\xe5\"", "\"\xc0\xaf\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xf0\x9f\x98\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"", "\"\xf4\xbf\xbf\xbf\"",
		"\"\xfc\x83\xbf\xbf\xbf\xbf\"", "\"\xfc\x80\x80\x80\x80\x80\"", "\"\xe0\x80\xaf\"", "\"\xf0\x80\x80\x80\"", `"\ud800"`, `"\uDFAA"`, `"\uDADA"`, `"\uD888\u1234"`, `"\uD800\n"`, `"\uD800\uD800\uDC00"`,
		`"\uD800\uD800\n"`, `"\ud800abc"`, `"\uDd1e\uD834"`, `"\uD800\`, `"\uD800\u"`, `"\uD800\u1"`, `"\uD800\u1x"`, `"\uD834\uDd"`, `"\udc00"`,
		// arrays
		`[`, `]`, `[1`, `[1,`, `[,`, `[,]`, `[,1]`, `[1,,2]`, `["",]`, `["x",,]`, `[1,]`, `[1 true]`, `["a" 1]`, `[3[4]]`, `[1:2]`, `[1;2]`, `[x]`, `[a`, `[""`, `[""],`, `["x"]]`, `[1]]`, `[1}`, `[*]`, `["a` + "\n" + `]`, `[}`, `[{]}`, "[\f]", "[\v]", "[\u00a0]", "[\u2060]",
		`[0,"x":1]`, `["": 1]`, `[<null>]`, `[1,2` + "\n", `[{}`, `[{`, `[][]`, `[` + "\xff" + `]`, `[1//a` + "\n" + `]`, `[1/* */]`, `["asd]`, `['a']`, `[\n]`, `[\u0020""]`,
		// objects
		`{`, `}`, `{]`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":"b",`, `{,}`, `{,"a":1}`, `{"a":1,}`, `{"a":1,,"b":2}`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a" "b"}`, `{"a",1}`, `{"a"::1}`, `{"a":1:2}`, `{:"b"}`, `{"":`, `{a:1}`, `{'a':1}`, `{1:1}`, `{9999E9999:1}`, `{null:null}`,
		`{true:1}`, `{[]:1}`, `{{}:1}`, `{"a":1}}`, `{"a":1]`, `{"a":tru}`, `{"a":"a`, `{"a":/*c*/1}`, `{"a":1}/**/`, `{"a":1}//`, `{"a":1}#`, `{"a":1,"b"}`, `{"x", null}`, `{"\uD800":1}`, "{\"\xb9\":1}", "{\"a\n\":1}", "{\"a\":\v1}", "{\u00a0}", `{"a":1;"b":2}`, `{"a"=1}`, `{"a"}`, `{"a":1}x`, `{🇨🇭}`,
		`<.>`, `<null>`, `[<null>]`, `//`, `/**/`, `#`,
	}
	// flawedDocuments are none as a whole.
	flawedDocuments = []string{
		"", " ", "\n", "\ufeff", "\ufeff{}", "\xff\xfe{\x00}\x00", "\x00{\x00}", "{}\x00", "{}\ufeff", "{}\f", "\f{}", "{}{}", "{}[]", "{}1", "{},", `{}"`, `,`, `:`, `{} x`, "{}\u2060", "{}\xa0",
	}
)

// places are documents with a place for a value, read in each of the ways that there are.
var places = map[string]string{
	"document":               "%",
	"document, spaced":       " \t\r\n%\r",
	"ignored":                `{"impression_id":"i","x":%}`,
	"ignored, in an array":   `{"x":[0,%,0],"impression_id":"i"}`,
	"ignored, in an object":  `{"x":{"y":{},"z":%}}`,
	"ignored, in a list":     `{"candidates":[{"item":"a"},{"x":%},{}]}`,
	"behind a fault":         `{"candidates":[7,%,{"item":%}]}`,
	"impression id":          `{"impression_id":%}`,
	"time":                   `{"time": % ,"x":0}`,
	"candidates":             `{"candidates":%}`,
	"a candidate":            `{"candidates":[%]}`,
	"item":                   `{"candidates":[{"item":%}]}`,
	"utility":                `{"candidates":[{"utility":%,"item":"a"}]}`,
	"given twice":            `{"impression_id":"i","impression_id":%,"candidates":[{"item":"a","item":%}],"candidates":[%]}`,
	"among misspelt members": `{"impressionId":%,"candidates":[{"Item":%}]}`,
}

func requireSyntax(t *testing.T, sound bool, document string) {
	t.Helper()
	b := []byte(document)
	require.Equal(t, sound, oracleSound(b), "the standard library on %q", document)
	d := event.NewDecoder(event.Limits{MaxCandidates: 2})
	for kind, err := range map[string]error{
		"impression": d.Impression(new(event.Impression), []byte("i"), b),
		"selection":  d.Selection(new(event.Selection), []byte("i"), b),
		"payoff":     d.Payoff(new(event.Payoff), []byte("i"), b),
		"ranking":    d.Ranking(new(event.Ranking), b),
	} {
		var fault *event.Fault
		malformed := errors.As(err, &fault) && fault.Reason == event.MalformedJSON
		require.Equal(t, sound, !malformed, "%s: %q: %v", kind, document, err)
	}
}

// TestSyntax: JSON is read as in RFC 8259, with RFC 7493's rules for text, anywhere in a record and in unknown fields
// too.
func TestSyntax(t *testing.T) {
	for where, place := range places {
		t.Run(where, func(t *testing.T) {
			for _, v := range soundValues {
				requireSyntax(t, true, strings.ReplaceAll(place, "%", v))
			}
			for _, v := range flawedValues {
				requireSyntax(t, false, strings.ReplaceAll(place, "%", v))
			}
			// No record may end within itself.
			whole := strings.ReplaceAll(place, "%", `{"a":["\ud83d\ude00",-1.5e+2,true]}`)
			for end := range strings.TrimSpace(whole) {
				requireSyntax(t, false, whole[:end])
			}
		})
	}
	for _, d := range flawedDocuments {
		requireSyntax(t, false, d)
	}
	for _, v := range flawedValues { // as names, too, all but sound strings are flawed
		requireSyntax(t, false, `{"impression_id":"i",`+v+`:1}`)
	}
	for _, v := range soundValues {
		if v[0] == '"' {
			requireSyntax(t, true, `{"impression_id":"i",`+v+`:1,"x":{`+v+`:[]},"candidates":[{`+v+`:0}]}`)
		} else {
			requireSyntax(t, false, `{"impression_id":"i",`+v+`:1}`)
		}
	}
}

// TestSyntax_Depth: nesting is bounded anywhere in a record; closed levels do not count.
func TestSyntax_Depth(t *testing.T) {
	nested := func(n int, opening, closing string) string {
		return strings.Repeat(opening, n) + strings.Repeat(closing, n)
	}
	for place, at := range map[string]int{"%": 0, `{"x":%}`: 1, `{"candidates":[%]}`: 2, `{"candidates":[{"item":%}]}`: 3, `{"candidates":[{"x":[%]}]}`: 4} {
		for _, brackets := range [][2]string{{"[", "]"}, {`[0,`, `]`}, {`{"a":`, `}`}} {
			filled := func(n int) string {
				return strings.Replace(place, "%", strings.Repeat(brackets[0], n)+"1"+strings.Repeat(brackets[1], n), 1)
			}
			requireSyntax(t, true, filled(event.MaxDepth-at))
			requireSyntax(t, false, filled(event.MaxDepth-at+1))
			requireSyntax(t, false, filled(100_000))
		}
		requireSyntax(t, true, strings.Replace(place, "%", "["+strings.Repeat("[[]],", 1000)+"[]]", 1))
		requireSyntax(t, true, strings.Replace(place, "%", nested(event.MaxDepth-at, "[", "]"), 1))
		requireSyntax(t, false, strings.Replace(place, "%", nested(event.MaxDepth-at+1, "[", "]"), 1))
		requireSyntax(t, false, strings.Replace(place, "%", strings.Repeat(`[{"":`, 50_000), 1))
	}
}
