package event_test

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

var long = strings.Repeat("x", event.MaxIDBytes+1)

// TestFaults: every way in which a record can be faulty, with the reason it is refused for.
func TestFaults(t *testing.T) {
	d := event.NewDecoder(event.Limits{MaxCandidates: 3, MaxRecordBytes: 3000})
	for kind, cases := range map[string]map[event.Reason][]string{
		"impression": {
			event.RecordTooLarge:      {strings.Repeat(" ", 3001), `{"impression_id":"i","candidates":[{"item":"a"}],"x":"` + strings.Repeat("x", 3000) + `"}`},
			event.MalformedJSON:       append([]string{"", "{", `{"impression_id":"i","candidates":[{"item":"a","utility":NaN}]}`, "\xef\xbb\xbf{}", `{"impression_id":"i"}{}`}, malformed...),
			event.WrongType:           {`[]`, `3`, `null`, `"i"`, `{"impression_id":3}`, `{"impression_id":"i","learner":{}}`, `{"impression_id":"i","time":1763719200}`, `{"impression_id":"i","candidates":{}}`, `{"impression_id":"i","candidates":["a"]}`, `{"impression_id":"i","candidates":[null]}`, `{"impression_id":"i","candidates":[{"item":1}]}`, `{"impression_id":"i","candidates":[{"item":"a","utility":"0.5"}]}`, `{"impression_id":"i","candidates":[{"item":"a","utility":true}]}`, `{"impression_id":"i","candidates":[{"item":"a","pin":0}]}`, `{"impression_id":"i","candidates":[{"item":"a","pin":1.5}]}`, `{"impression_id":"i","candidates":[{"item":"a","pin":"1"}]}`, `{"impression_id":"i","exclude":"a","candidates":[{"item":"b"}]}`, `{"impression_id":"i","exclude":[null],"candidates":[{"item":"b"}]}`},
			event.DuplicatePin:        {`{"impression_id":"i","candidates":[{"item":"a","pin":2},{"item":"b"},{"item":"c","pin":2}]}`},
			event.DuplicateField:      {`{"impression_id":"i","impression_id":"i","candidates":[{"item":"a"}]}`, `{"impression_id":null,"impression_id":"i","candidates":[{"item":"a"}]}`, `{"impression_id":"i","time":null,"\u0074ime":null,"candidates":[{"item":"a"}]}`, `{"impression_id":"i","candidates":[{"item":"a","utility":1,"utility":1}]}`},
			event.MissingImpressionID: {`{}`, `{"impression_id":""}`, `{"impression_id":null,"candidates":[{"item":"a"}]}`, `{"Impression_ID":"i","candidates":[{"item":"a"}]}`},
			event.KeyMismatch:         {`{"impression_id":"j","candidates":[{"item":"a"}]}`, `{"impression_id":"i ","candidates":[{"item":"a"}]}`},
			event.IDTooLong:           {`{"impression_id":"` + long + `"}`, `{"impression_id":"i","learner":"` + long + `"}`, `{"impression_id":"i","candidates":[{"item":"` + long + `"}]}`},
			event.InvalidTime:         {`{"impression_id":"i","time":"yesterday","candidates":[{"item":"a"}]}`, `{"impression_id":"i","time":"","candidates":[{"item":"a"}]}`, `{"impression_id":"i","time":"2026-11-21T10:00:00"}`},
			event.NoCandidates:        {`{"impression_id":"i"}`, `{"impression_id":"i","candidates":null}`, `{"impression_id":"i","candidates":[]}`, `{"impression_id":"i","exclude":["b","a"],"candidates":[{"item":"a"},{"item":"b"}]}`},
			event.TooManyCandidates:   {`{"impression_id":"i","candidates":[{"item":"a"},{"item":"b"},{"item":"c"},{"item":"d"}]}`},
			event.DuplicateItem:       {`{"impression_id":"i","candidates":[{"item":"a"},{"item":"b"},{"item":"a"}]}`, `{"impression_id":"i","candidates":[{"item":"é"},{"item":"\u00e9"}]}`},
			event.MissingItem:         {`{"impression_id":"i","candidates":[{}]}`, `{"impression_id":"i","candidates":[{"item":""}]}`, `{"impression_id":"i","candidates":[{"item":null,"utility":1}]}`},
			event.NotFinite:           {`{"impression_id":"i","candidates":[{"item":"a","utility":1e999}]}`, `{"impression_id":"i","candidates":[{"item":"a","utility":-1e309}]}`, `{"impression_id":"i","candidates":[{"item":"a","utility":1` + strings.Repeat("0", 400) + `}]}`},
		},
		"selection": {
			event.RecordTooLarge:      {strings.Repeat(" ", 3001)},
			event.MalformedJSON:       malformed,
			event.WrongType:           {`[]`, `{"impression_id":"i","item":["a"]}`, `{"impression_id":"i","item":"a","utility":"1"}`, `{"impression_id":"i","item":"a","time":3}`, `{"impression_id":"i","item":"a","shown":"ranking"}`, `{"impression_id":"i","item":"a","shown":1}`},
			event.DuplicateField:      {`{"impression_id":"i","item":"a","item":"a"}`},
			event.MissingImpressionID: {`{"item":"a"}`},
			event.KeyMismatch:         {`{"impression_id":"j","item":"a"}`},
			event.IDTooLong:           {`{"impression_id":"i","item":"` + long + `"}`},
			event.InvalidTime:         {`{"impression_id":"i","item":"a","time":"2026-02-30T00:00:00Z"}`},
			event.MissingItem:         {`{"impression_id":"i"}`, `{"impression_id":"i","item":""}`, `{"impression_id":"i","item":null}`},
			event.NotFinite:           {`{"impression_id":"i","item":"a","utility":1e999}`},
		},
		"payoff": {
			event.RecordTooLarge:      {strings.Repeat(" ", 3001)},
			event.MalformedJSON:       malformed,
			event.WrongType:           {`true`, `{"impression_id":"i","payoff":"0.5"}`, `{"impression_id":"i","payoff":false}`, `{"impression_id":"i","payoff":1,"item":7}`, `{"impression_id":"i","payoff":1,"event_id":7}`},
			event.DuplicateField:      {`{"impression_id":"i","payoff":1,"payoff":2}`},
			event.MissingImpressionID: {`{"payoff":1}`},
			event.KeyMismatch:         {`{"impression_id":"j","payoff":1}`},
			event.IDTooLong:           {`{"impression_id":"i","payoff":1,"event_id":"` + long + `"}`, `{"impression_id":"i","payoff":1,"item":"` + long + `"}`},
			event.InvalidTime:         {`{"impression_id":"i","payoff":1,"time":"2026-11-21"}`},
			event.MissingPayoff:       {`{"impression_id":"i"}`, `{"impression_id":"i","payoff":null}`},
			event.NotFinite:           {`{"impression_id":"i","payoff":-1e999}`},
		},
		"ranking": rankingFaults(),
	} {
		for reason, values := range cases {
			for _, value := range values {
				requireRefused(t, d, kind, value, reason)
			}
		}
	}
}

// malformed is JSON that does not parse, whatever the kind of record; a lenient library takes some of it.
var malformed = []string{
	" ", "{]", `{"a":1]`, `[1}`, `[{"a":[1}]]`, `{"a":1,}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":--1}`, `{"a":1-1}`, `{"a":nan}`, `{"a":-Inf}`,
	`{"a":Infinity}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "{\"\xff\":1}", `{"a":"\ud800"}`,
	`{"a":"\udc00"}`, `{"a":"\ud800\u0041"}`, `{a:1}`, `{'a':1}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":[1 2]}`, `{"a":[1,]}`, `{"a":"`, `{"a":"\"}`,
	`{"a":1}x`, `{"a":/**/1}`, "{\"a\":\v1}", strings.Repeat("[", event.MaxDepth+1) + strings.Repeat("]", event.MaxDepth+1),
	`{"a":` + strings.Repeat("[", 2000), strings.Repeat(`{"a":`, 500) + "1",
}

// rankingFaults are made by replacing a part of the sample.
func rankingFaults() map[event.Reason][]string {
	replaced := func(oldnew ...string) (out []string) {
		for k := 0; k < len(oldnew); k += 2 {
			out = append(out, strings.Replace(sampleRanking, oldnew[k], oldnew[k+1], 1))
		}
		return out
	}
	return map[event.Reason][]string{
		event.MalformedJSON: malformed,
		event.WrongType: append([]string{`[]`}, replaced(`"items":["b","a"]`, `"items":"b"`, `["b","a"]`, `["b",1]`, `"partition":3`, `"partition":3.0`,
			`"partition":3`, `"partition":2147483648`, `"partition":3`, `"partition":-1`, `1042`, `"1042"`, `1042`, `9223372036854775808`, `"layout":1`, `"layout":1e0`,
			`[0.82,0.18]`, `[0.82]`, `[0.82,0.18]`, `[0.82,null]`, `[0.82,0.18]`, `0.82`, `"layout":1`, `"layout":1,"decided":[0]`, `"layout":1`, `"layout":1,"decided":[0,0]`, `"instance":4`, `"instance":-1`, `false`, `"false"`, `9f00000000000a01`, `9f`,
			`9f00000000000a01`, ``, `9f00000000000a01`, `9f00000000000a0g`, `"group":"ranker"`, `"group":1`, `"decision":{`, `"decision":[],"x":{`)...),
		event.DuplicateField: replaced(`"layout":1`, `"layout":1,"layout":1`, `"learner":"feed"`, `"learner":"feed","learner":"feed"`),
		event.MissingField: replaced(`"group"`, `"Group"`, `"policy"`, `"x"`, `"delay"`, `"x"`, `"partition":3`, `"partition":null`, `"offset"`, `"x"`, `"layout"`, `"x"`,
			`"seed"`, `"x"`, `"payoff_deadline"`, `"x"`, `"began"`, `"x"`, `"time"`, `"x"`, `"items"`, `"x"`, `["b","a"]`, `[]`, `"decision"`, `"x"`),
		event.MissingImpressionID: replaced(`"impression_id"`, `"x"`, `"i-1"`, `""`),
		event.IDTooLong:           replaced(`"b"`, `"`+long+`"`, `"ranker"`, `"`+long+`"`, `"i-1"`, `"`+long+`"`),
		event.InvalidTime:         replaced(`2026-11-21T10:30`, `2026-11-31T10:30`, `2026-12-21T10:30`, `10:30`, `"2026-11-21T10:00:00.000Z"`, `""`),
		event.DuplicateItem:       replaced(`["b","a"]`, `["b","b"]`),
		event.MissingItem:         replaced(`["b","a"]`, `["b",""]`, `["b","a"]`, `["b",null]`),
		event.NotFinite:           replaced(`0.82`, `1e999`),
	}
}

func requireRefused(t *testing.T, d *event.Decoder, kind, value string, reason event.Reason) {
	t.Helper()
	var err error
	switch key := []byte("i"); kind {
	case "impression":
		err = d.Impression(&event.Impression{}, key, []byte(value))
	case "selection":
		err = d.Selection(&event.Selection{}, key, []byte(value))
	case "payoff":
		err = d.Payoff(&event.Payoff{}, key, []byte(value))
	case "ranking":
		err = d.Ranking(&event.Ranking{}, []byte(value))
	}
	require.Error(t, err, "%s: %q", kind, value)
	require.Equal(t, reason, requireFault(t, err).Reason, "%s: %.200q: %v", kind, value, err)
}

// TestReasonsAreAVocabulary: distinct snake-case words, since they are label values.
func TestReasonsAreAVocabulary(t *testing.T) {
	seen := map[event.Reason]bool{}
	for _, r := range event.Reasons() {
		require.Regexp(t, regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`), string(r))
		require.False(t, seen[r], r)
		seen[r] = true
	}
}

func TestLimits(t *testing.T) {
	key, value, _ := typical(100)
	var dst event.Impression
	require.NoError(t, event.NewDecoder(event.Limits{}).Impression(&dst, key, value), "0 is no limit")
	require.NoError(t, event.NewDecoder(event.Limits{MaxCandidates: 100, MaxRecordBytes: len(value)}).Impression(&dst, key, value))
	d := event.NewDecoder(event.Limits{MaxCandidates: 99, MaxRecordBytes: len(value)})
	require.ErrorContains(t, d.Impression(&dst, key, value), "too_many_candidates")
	d = event.NewDecoder(event.Limits{MaxCandidates: 100, MaxRecordBytes: len(value) - 1})
	require.ErrorContains(t, d.Impression(&dst, key, value), "record_too_large")

	id := []byte(strings.Repeat("é", event.MaxIDBytes/2))
	var p event.Payoff
	require.NoError(t, d.Payoff(&p, id, fmt.Appendf(nil, `{"impression_id":%q,"payoff":1}`, id)))
	var r event.Ranking
	require.NoError(t, event.NewDecoder(event.Limits{MaxCandidates: 1, MaxRecordBytes: 1}).Ranking(&r, []byte(sampleRanking)),
		"limits of the day do not make a ranking unreadable")
}

// hostile records are as large as is allowed and made to be expensive.
func hostile() map[string][]byte {
	const size = 1 << 20
	fill := func(head, body, tail string) []byte {
		return []byte(head + strings.Repeat(body, (size-len(head)-len(tail))/len(body)) + tail)
	}
	many := []byte(`{"impression_id":"i","candidates":[`)
	for k := 0; len(many) < size-64; k++ {
		many = fmt.Appendf(many, `{"item":"%d"},`, k)
	}
	return map[string][]byte{
		"open arrays":        fill("", "[", ""),
		"open objects":       fill("", `{"":`, ""),
		"junk at depth":      fill(strings.Repeat("[", event.MaxDepth)+"n", "\x01", ""),
		"zeros":              fill(`{"x":[0`, ",0", `]}`),
		"empty objects":      fill(`{"x":[0`, ",{}", `]}`),
		"one key":            fill(`{"impression_id":"i"`, `,"x":0`, `}`),
		"escaped keys":       fill(`{"impression_id":"i"`, `,"\\\\\\\\":0`, `}`),
		"backslashes":        fill(`{"x":"`, `\\`, `"}`),
		"in candidates":      fill(`{"impression_id":"i","candidates":[{"item":"a","x":[0`, ",0", `]}]}`),
		"in place of a text": fill(`{"impression_id":[0`, ",0", `]}`),
		"no candidates":      fill(`{"impression_id":"i","candidates":[0`, ",0", `]}`),
		"unclosed":           fill(`{"x":"`, `\"`, ``),
		"digits":             fill(`{"impression_id":"i","candidates":[{"item":"a","utility":0.`, "1", `}]}`),
		"exponent":           fill(`{"impression_id":"i","candidates":[{"item":"a","utility":1e`, "9", `}]}`),
		"time":               fill(`{"impression_id":"i","time":"2026-11-21T10:00:00.`, "0", `Z"}`),
		"candidates":         append(many, `{"item":"0"}]}`...),
		"the same candidate": fill(`{"impression_id":"i","candidates":[{"item":"a"}`, `,{"item":"a"}`, `]}`),
	}
}

// TestHostileRecordsAreCheap: no record costs much more than a sound one of its size. Each of these takes some
// milliseconds. Quadratic ways to read them take minutes or gigabytes: comparing each item with all others, or
// quoting the rest of the record at each level of nesting. So the bounds are far from both.
func TestHostileRecordsAreCheap(t *testing.T) {
	d := event.NewDecoder(event.Limits{MaxCandidates: 10_000})
	key, value, _ := typical(20)
	for name, bad := range hostile() {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(bad), 1<<20)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			_ = d.Impression(&event.Impression{}, []byte("i"), bad)
			require.Less(t, time.Since(start), 10*time.Second)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20))

			// The memory it needed is released with the next record.
			require.NoError(t, d.Impression(&event.Impression{}, key, value))
			runtime.GC()
			runtime.ReadMemStats(&after)
			require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(12<<20))
		})
	}
	runtime.KeepAlive(d)
}

// TestDecoderRecoversFromAnything: after each kind of refusal it reads the next record as a fresh one would.
func TestDecoderRecoversFromAnything(t *testing.T) {
	key, value, want := typical(20)
	d := event.NewDecoder(event.Limits{})
	var dst event.Impression
	for name, bad := range hostile() {
		_ = d.Impression(&dst, []byte("i"), bad)
		require.NoError(t, d.Impression(&dst, key, value), name)
		require.Equal(t, show(*want), show(dst), name)
	}
}

// TestDecodedSlicesLastUntilTheNextCall: they do not alias the record, whose memory belongs to the reader of the log.
func TestDecodedSlicesLastUntilTheNextCall(t *testing.T) {
	key, value, want := typical(20)
	d := event.NewDecoder(event.Limits{})
	var dst event.Impression
	copied := bytes.Clone(value)
	require.NoError(t, d.Impression(&dst, key, copied))
	clear(copied)
	require.Equal(t, show(*want), show(dst))
}

// TestFaultsPoint: a fault says in which field it is, so that whoever sent the record finds it.
func TestFaultsPoint(t *testing.T) {
	d := event.NewKeylessDecoder(event.Limits{MaxCandidates: 2})
	for value, pointer := range map[string]string{
		`{`:                                    "",
		`[]`:                                   "",
		`{}`:                                   "/impression_id",
		`{"impression_id":3}`:                  "/impression_id",
		`{"impression_id":"i"}`:                "/candidates",
		`{"impression_id":"i","candidates":7}`: "/candidates",
		`{"impression_id":"i","time":"x"}`:     "/time",
		`{"impression_id":"i","time":null,"time":"x"}`:                              "/time",
		`{"impression_id":"i","learner":"` + long + `"}`:                            "/learner",
		`{"impression_id":"i","candidates":[{"item":"a"},7]}`:                       "/candidates/1",
		`{"impression_id":"i","candidates":[{"item":"a"},{}]}`:                      "/candidates/1/item",
		`{"impression_id":"i","candidates":[{"item":"a"},{"item":"a"}]}`:            "/candidates/1/item",
		`{"impression_id":"i","candidates":[{"item":"a","utility":"1"}]}`:           "/candidates/0/utility",
		`{"impression_id":"i","candidates":[{"item":"a","utility":1e999}]}`:         "/candidates/0/utility",
		`{"impression_id":"i","candidates":[{"item":"a","utility":1,"utility":1}]}`: "/candidates/0/utility",
		`{"impression_id":"i","candidates":[{},{},{}]}`:                             "/candidates",
	} {
		err := d.Impression(&event.Impression{}, nil, []byte(value))
		require.Error(t, err, value)
		require.Equal(t, pointer, requireFault(t, err).Pointer, value)
	}
	require.Equal(t, "/payoff", requireFault(t, d.Payoff(&event.Payoff{}, nil, []byte(`{"impression_id":"i"}`))).Pointer)
	require.Equal(t, "/item", requireFault(t, d.Selection(&event.Selection{}, nil, []byte(`{"impression_id":"i"}`))).Pointer)
}

// TestContextFaults: in both forms, a fault of the context differs from a fault of the record.
func TestContextFaults(t *testing.T) {
	d := event.NewFormatsDecoder(event.Limits{}, event.Formats{event.Protobuf}).WithContext()
	look := func(value, pointer string, reason event.Reason) {
		t.Helper()
		var i event.Impression
		require.NoError(t, d.Impression(&i, []byte("i"), []byte(value)), "%q", value)
		if pointer == "" {
			require.Nil(t, i.Context.Fault, "%q", value)
			return
		}
		require.NotNil(t, i.Context.Fault, "%q", value)
		require.Equal(t, []any{pointer, reason}, []any{i.Context.Fault.Pointer, i.Context.Fault.Reason}, "%q: %v", value, i.Context.Fault)
	}
	many := strings.Repeat("0,", event.MaxFeatures)
	for _, c := range []struct {
		user, candidate, pointer string
		reason                   event.Reason
	}{
		{`"x":1`, `"x":1`, "", ""},
		{`"features":null`, `"features":null,"predicted":null`, "", ""},
		{`"features":{}`, `"x":1`, "/features", event.WrongType},
		{`"features":[1,"2"]`, `"x":1`, "/features/1", event.WrongType},
		{`"features":[1,null,1e999]`, `"x":1`, "/features/2", event.NotFinite},
		{`"features":[` + many + `0]`, `"x":1`, "/features", event.WrongFeatures},
		{`"x":1`, `"features":7`, "/candidates/1/features", event.WrongType},
		{`"x":1`, `"features":[[]]`, "/candidates/1/features/0", event.WrongType},
		{`"x":1`, `"predicted":1e999,"features":[` + many + `0]`, "/candidates/1/features", event.WrongFeatures},
		{`"x":1`, `"predicted":"1"`, "/candidates/1/predicted", event.WrongType},
		{`"segment":null`, `"category":null`, "", ""},
		{`"segment":7`, `"x":1`, "/segment", event.WrongType},
		{`"segment":"` + strings.Repeat("x", event.MaxIDBytes+1) + `"`, `"category":1`, "/segment", event.IDTooLong},
		{`"segment":7,"features":{}`, `"x":1`, "/features", event.WrongType},
		{`"x":1`, `"category":["news"]`, "/candidates/1/category", event.WrongType},
	} {
		look(`{"impression_id":"i",`+c.user+`,"candidates":[{"item":"a"},{"item":"b",`+c.candidate+`}]}`, c.pointer, c.reason)
	}
	a := message(1, "a")
	packed := func(n int) string { return strings.Repeat("\x00", 8*n) }
	for _, c := range []struct {
		value   []byte
		pointer string
		reason  event.Reason
	}{
		{message(1, "i", 4, a, 7, 0.5, 7, packed(2), 7, math.NaN()), "", ""},
		{message(1, "i", 4, a, 7, packed(event.MaxFeatures)), "", ""},
		{message(1, "i", 4, a, 7, 7), "/features", event.WrongType},
		{message(1, "i", 4, a, 7, "1234567"), "/features", event.MalformedProtobuf},
		{message(1, "i", 4, a, 7, packed(event.MaxFeatures), 7, 0.5, 7, 0.5), "/features", event.WrongFeatures},
		{message(1, "i", 4, a, 7, 0.5, 7, math.Inf(1)), "/features/1", event.NotFinite},
		{message(1, "i", 4, a, 4, message(1, "b", 4, 0.5, 4, 1)), "/candidates/1/features", event.WrongType},
		{message(1, "i", 4, a, 4, message(1, "b", 5, math.Inf(-1))), "/candidates/1/predicted", event.NotFinite},
		{message(1, "i", 4, a, 4, message(1, "b", 5, "1")), "/candidates/1/predicted", event.WrongType},
		{message(1, "i", 4, a, 8, 7), "/segment", event.WrongType},
		{message(1, "i", 4, a, 8, "\xff"), "/segment", event.MalformedProtobuf},
		{message(1, "i", 4, a, 4, message(1, "b", 6, 0.5)), "/candidates/1/category", event.WrongType},
	} {
		look(string(c.value), c.pointer, c.reason)
	}
	var i event.Impression
	require.NoError(t, d.Impression(&i, []byte("i"), message(1, "i", 7, 0.5, 4, message(1, "a", 4, 1.5), 7, packed(1), 7, 2.5)))
	require.Equal(t, []float64{0.5, 0, 2.5}, i.Context.Features, "a list may come in parts")
	require.Equal(t, []float64{1.5}, i.Context.Candidates[0].Features)
}

// TestKeylessDecoder: a record that has no key yet is read as one with the right key.
func TestKeylessDecoder(t *testing.T) {
	key, value, want := typical(3)
	var dst event.Impression
	require.NoError(t, event.NewKeylessDecoder(event.Limits{}).Impression(&dst, nil, value))
	require.Equal(t, show(*want), show(dst))
	require.Equal(t, string(key), string(dst.ID))
}
