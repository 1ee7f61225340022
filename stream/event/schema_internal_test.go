package event

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// published is a schema of docs/schemas, by a validator that others keep.
func published(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("../../docs/schemas/" + name + ".json")
	require.NoError(t, err)
	return s
}

func fits(t require.TestingT, s *jsonschema.Schema, record string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(record))
	require.NoError(t, err, record)
	return s.Validate(doc)
}

// described is a schema of docs/schemas, without texts for readers.
func described(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../docs/schemas/" + name + ".json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	var strip func(v map[string]any)
	strip = func(v map[string]any) {
		for _, word := range []string{"$schema", "title", "description"} {
			if _, ok := v[word].(string); ok {
				delete(v, word)
			}
		}
		for _, one := range v {
			if inner, ok := one.(map[string]any); ok {
				strip(inner)
			}
		}
	}
	strip(schema)
	return schema
}

// schemaOf is the JSON Schema of a table's object; each is that of a candidate.
func schemaOf[R any](t *table[R], each any) map[string]any {
	properties, required := map[string]any{}, []any{}
	for i, f := range t.fields() {
		one, typ := map[string]any{}, map[Type]string{Text: "string", Number: "number", Time: "string", Features: "array", Candidates: "array", Place: "integer", Texts: "array"}[f.Type]
		if one["type"] = typ; t.rows[i].need == "" {
			one["type"] = []any{typ, "null"}
		} else {
			required = append(required, f.Name)
		}
		switch only := t.rows[i].only; {
		case only != "":
			one = map[string]any{"enum": []any{only, "", nil}}
		case f.Type == Text:
			if one["maxLength"] = float64(MaxIDBytes); t.rows[i].need != "" {
				one["minLength"] = 1.0
			}
		case f.Type == Time:
			one["format"] = "date-time"
		case f.Type == Features:
			one["maxItems"], one["items"] = float64(MaxFeatures), map[string]any{"type": []any{"number", "null"}}
		case f.Type == Place:
			one["minimum"], one["maximum"] = 1.0, float64(math.MaxInt32)
		case f.Type == Texts:
			one["items"] = map[string]any{"type": "string", "maxLength": float64(MaxIDBytes)}
		case f.Type == Candidates:
			one["minItems"], one["items"] = 1.0, each
		}
		properties[f.Name] = one
	}
	return map[string]any{"type": "object", "required": required, "properties": properties}
}

// The schemas of input records are those of their tables; that of rankings has the fields of its tables.
func TestSchemas_AreThoseOfTheTables(t *testing.T) {
	require.Equal(t, schemaOf(impressions, schemaOf(candidates, nil)), described(t, "impression"))
	require.Equal(t, schemaOf(selections, nil), described(t, "selection"))
	require.Equal(t, schemaOf(payoffs, nil), described(t, "payoff"))
	object := described(t, "ranking")
	for _, step := range []struct {
		name  string
		names []string
	}{{"decision", rankings.names}, {"verdict", decisions.names}, {"", verdicts.names}} {
		properties := object["properties"].(map[string]any)
		require.ElementsMatch(t, step.names, slices.Collect(maps.Keys(properties)))
		object, _ = properties[step.name].(map[string]any)
	}
}

// The messages of ranker.proto have the fields of the tables. In those that are read, numbers and types are those of the rows.
func TestProtobuf_HasTheFieldsOfTheTables(t *testing.T) {
	text, err := os.ReadFile("../../docs/schemas/ranker.proto")
	require.NoError(t, err)
	names, lines := map[string][]string{}, map[string][]string{}
	for _, message := range regexp.MustCompile(`(?s)message (\w+) \{(.*?)\n\}`).FindAllStringSubmatch(string(text), -1) {
		for i, field := range regexp.MustCompile(`(?m)^  (.*?) (\w+) = (\d+);`).FindAllStringSubmatch(message[2], -1) {
			require.Equal(t, strconv.Itoa(i+1), field[3], "%s.%s", message[1], field[2])
			names[message[1]] = append(names[message[1]], field[2])
			lines[message[1]] = append(lines[message[1]], field[1]+" "+field[2])
		}
	}
	types := map[Type]string{Text: "string", Number: "optional double", Time: "google.protobuf.Timestamp", Features: "repeated double",
		Candidates: "repeated Candidate", Place: "uint32", Texts: "repeated string"}
	for message, fields := range map[string][]Field{"Impression": FieldsOf(Impressions, true), "Candidate": FieldsOf(Impressions, true)[candidatesRow].Of,
		"Selection": FieldsOf(Selections, true), "Payoff": FieldsOf(Payoffs, true)} {
		var want []string
		for _, f := range fields {
			want = append(want, types[f.Type]+" "+f.Name)
		}
		require.Equal(t, want, lines[message])
	}
	require.Equal(t, rankings.names, names["Ranking"])
	require.ElementsMatch(t, decisions.names, names["Decision"])
	require.Equal(t, verdicts.names, names["Verdict"])
	require.Len(t, names, 8)
}

// drawObject draws an object of these fields and others, each with a value that it may have or may not.
func drawObject(t *rapid.T, fields []string) string {
	values := []string{"null", `""`, `"i"`, `"b"`, "1", "-2.5e3", "true", "{}", "[]", `"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00.123+01:00"`,
		`"2026-11-21"`, `"` + strings.Repeat("x", MaxIDBytes) + `"`, `"` + strings.Repeat("x", MaxIDBytes+1) + `"`}
	likely := map[string][]string{"impression_id": {`"i"`}, "item": {`"a"`, `"c"`}, "payoff": {"0.5"}, "utility": {"0.5", "1"},
		"time": {`"2026-11-21T10:00:00Z"`}, "learner": {`"feed"`}, "user": {`"u"`}, "event_id": {`"e"`}, "predicted": {"0.5", "-3"}, "segment": {`"new"`}, "category": {`"news"`}, "pin": {"1", "2", "7"}, "exclude": {"[]", `["x"]`, `["x","y"]`},
		"features": {"[1,null,-0.5]", "[]", "[0]", "[1,2]", "[null]", "[1," + strings.Repeat("0,", MaxFeatures-1) + "2]", `["1"]`}, "shown": {`"utility"`, `"ranking"`}, "candidates": {`[{"item":"a"}]`}}
	var parts []string
	for _, name := range append([]string{"other"}, fields...) {
		value := ""
		switch kind := rapid.IntRange(0, 99).Draw(t, name); {
		case kind == 0:
			value = rapid.SampledFrom(values).Draw(t, "value")
		case kind < 5, kind < 20 && name != "impression_id" && name != "candidates" && name != "item" && name != "payoff":
			continue
		case name == "candidates":
			var list []string
			for range rapid.IntRange(0, 3).Draw(t, "candidates") {
				list = append(list, drawObject(t, candidates.names))
			}
			value = "[" + strings.Join(list, ",") + "]"
		case name == "other":
			value = rapid.SampledFrom(values).Draw(t, "value")
		case likely[name] == nil:
			value = rapid.SampledFrom(values).Draw(t, "value")
		default:
			value = rapid.SampledFrom(likely[name]).Draw(t, "value")
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Schemas and decoder accept the same records, except for two rules that no schema can express: the key is the id,
// and no item or pin occurs twice. A fault of the context alone counts for contextual learners.
func TestSchemas_AgreeWithTheDecoder(t *testing.T) {
	d := NewDecoder(Limits{}).WithContext()
	impression := func(k, v []byte) error {
		var i Impression
		if err := d.Impression(&i, k, v); err != nil || i.Context.Fault == nil {
			return err
		}
		return i.Context.Fault
	}
	for name, one := range map[string]struct {
		fields []string
		decode func(key, value []byte) error
	}{
		"impression": {impressions.names, impression},
		"selection":  {selections.names, func(k, v []byte) error { return d.Selection(&Selection{}, k, v) }},
		"payoff":     {payoffs.names, func(k, v []byte) error { return d.Payoff(&Payoff{}, k, v) }},
	} {
		schema, sound, faulty := published(t, name), 0, 0
		check := func(t *rapid.T) {
			record := drawObject(t, one.fields)
			var id struct {
				Of any `json:"impression_id"`
			}
			_ = json.Unmarshal([]byte(record), &id)
			key, _ := id.Of.(string)
			err := one.decode([]byte(key), []byte(record))
			if f, ok := err.(*Fault); ok && (f.Reason == DuplicateItem || f.Reason == DuplicatePin) {
				return
			}
			if err == nil {
				sound++
				require.NoError(t, fits(t, schema, record), record)
			} else {
				faulty++
				require.Error(t, fits(t, schema, record), "%s: %v", record, err)
			}
		}
		for runs := 0; runs == 0 || runs < 30 && min(sound, faulty) == 0; runs++ { // of an object with many fields most are faulty
			rapid.Check(t, check)
		}
		require.Positive(t, min(sound, faulty), name)
	}
}

// A worker's rankings fit the schema of rankings, with all fields and with as few as possible.
func TestSchemas_FitRankings(t *testing.T) {
	schema := published(t, "ranking")
	least := Ranking{ID: []byte("i"), Learner: []byte("feed"), Time: 1, Items: [][]byte{[]byte("a"), []byte("b")},
		Decision: Decision{Group: "g", Policy: "moss", Delay: "direct", Layout: 1, Instance: -1, Began: 2, PayoffDeadline: 5}}
	all := least
	all.Decision.Propensities, all.Decision.Instance, all.Decision.Explored = []float64{0.5, 0.5}, 3, true
	all.Decision.Expected = []float64{0.25, -0.000001}
	all.Decision.Ranks, all.Decision.Undecided = []int32{1, 0}, []int32{1}
	all.Decision.SelectionDeadline, all.Decision.HasSelection = 3, true
	all.Decision.Decided = []int32{1, 0}
	all.Decision.Assignment = Assignment{Experiment: "feed", Run: 1, Arm: "new", Probability: 0.5, Unit: []byte("1f3"), Fallback: true, Covariate: 31_250}
	all.Decision.Verdict = Verdict{Run: 1, Arm: "new", Units: 7, Lower: -1, Upper: -0.5}
	for _, r := range []*Ranking{&least, &all} {
		record := string(AppendRanking(nil, r))
		require.NoError(t, fits(t, schema, record), record)
		require.NoError(t, NewDecoder(Limits{}).Ranking(&Ranking{}, []byte(record)))
		for _, field := range []string{"time", "items", "decision", "payoff_deadline"} {
			require.Error(t, fits(t, schema, strings.Replace(record, `"`+field+`"`, `"x"`, 1)), field)
		}
	}
	all.Decision.Shadows = []Shadow{{Name: "x", Order: []int32{1, 0}}}
	record := string(AppendRanking(nil, &all))
	require.NoError(t, fits(t, schema, record), record)
	require.Len(t, fieldsOf(record), len(rankings.names)+len(decisions.names)+len(verdicts.names)+1)
}

// fieldsOf are the names of all fields of a record without lists of objects.
func fieldsOf(record string) []string {
	var names []string
	for i, part := range strings.Split(record, `":`) {
		if at := strings.LastIndexByte(part, '"'); i < strings.Count(record, `":`) {
			names = append(names, part[at+1:])
		}
	}
	return names
}
