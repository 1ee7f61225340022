package event

import (
	"encoding/json"
	"fmt"
	"maps"
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

// schemaFields are the names under properties of an object of a schema.
func schemaFields(t *testing.T, name string, path ...string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/schemas/" + name + ".json")
	require.NoError(t, err)
	var at map[string]any
	require.NoError(t, json.Unmarshal(text, &at))
	for _, step := range append(path, "properties") {
		at = at[step].(map[string]any)
	}
	return slices.Sorted(maps.Keys(at))
}

// The schemas have the fields that the decoder knows, and no others.
func TestSchemas_HaveTheFieldsThereAre(t *testing.T) {
	for name, fields := range map[string][]string{"impression": impressionFields, "selection": selectionFields, "payoff": payoffFields,
		"ranking": rankingFields} {
		require.Equal(t, slices.Sorted(slices.Values(fields)), schemaFields(t, name), name)
	}
	require.Equal(t, slices.Sorted(slices.Values(candidateFields)), schemaFields(t, "impression", "properties", "candidates", "items"))
	require.Equal(t, slices.Sorted(slices.Values(decisionFields)), schemaFields(t, "ranking", "properties", "decision"))
	require.Equal(t, slices.Sorted(slices.Values(verdictFields)), schemaFields(t, "ranking", "properties", "decision", "properties", "verdict"))
}

// The messages of ranker.proto have the fields of the records. In those that are read the numbers are the places of the names.
func TestProtobuf_HasTheFieldsThereAre(t *testing.T) {
	text, err := os.ReadFile("../../docs/schemas/ranker.proto")
	require.NoError(t, err)
	fields := map[string][]string{}
	for _, message := range regexp.MustCompile(`(?s)message (\w+) \{(.*?)\n\}`).FindAllStringSubmatch(string(text), -1) {
		for i, field := range regexp.MustCompile(`(?m)^  .*?(\w+) = (\d+);`).FindAllStringSubmatch(message[2], -1) {
			require.Equal(t, strconv.Itoa(i+1), field[2], "%s.%s", message[1], field[1])
			fields[message[1]] = append(fields[message[1]], field[1])
		}
	}
	require.Equal(t, impressionFields, fields["Impression"])
	require.Equal(t, candidateFields, fields["Candidate"])
	require.Equal(t, selectionFields, fields["Selection"])
	require.Equal(t, payoffFields, fields["Payoff"])
	require.Equal(t, rankingFields, fields["Ranking"])
	require.ElementsMatch(t, decisionFields, fields["Decision"])
	require.Equal(t, verdictFields, fields["Verdict"])
	require.Len(t, fields, 8)
}

// drawObject draws an object of these fields and others, each with a value that it may have or may not.
func drawObject(t *rapid.T, fields []string) string {
	values := []string{"null", `""`, `"i"`, `"b"`, "1", "-2.5e3", "true", "{}", "[]", `"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00.123+01:00"`,
		`"2026-11-21"`, `"` + strings.Repeat("x", MaxIDBytes) + `"`, `"` + strings.Repeat("x", MaxIDBytes+1) + `"`}
	likely := map[string][]string{"impression_id": {`"i"`}, "item": {`"a"`, `"c"`}, "payoff": {"0.5"}, "utility": {"0.5", "1"},
		"time": {`"2026-11-21T10:00:00Z"`}, "learner": {`"feed"`}, "user": {`"u"`}, "event_id": {`"e"`}, "predicted": {"0.5", "-3"}, "segment": {`"new"`}, "category": {`"news"`},
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
				list = append(list, drawObject(t, candidateFields))
			}
			value = "[" + strings.Join(list, ",") + "]"
		case name == "other":
			value = rapid.SampledFrom(values).Draw(t, "value")
		default:
			value = rapid.SampledFrom(likely[name]).Draw(t, "value")
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Schemas and decoder accept the same records, except for two rules that no schema can express: the key is the id,
// and no item occurs twice. A fault of the context alone counts for contextual learners.
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
		"impression": {impressionFields, impression},
		"selection":  {selectionFields, func(k, v []byte) error { return d.Selection(&Selection{}, k, v) }},
		"payoff":     {payoffFields, func(k, v []byte) error { return d.Payoff(&Payoff{}, k, v) }},
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
			if f, ok := err.(*Fault); ok && f.Reason == DuplicateItem {
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
	all.Decision.Assignment = Assignment{Experiment: "feed", Run: 1, Arm: "new", Probability: 0.5, Unit: []byte("1f3"), Fallback: true}
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
	require.Len(t, fieldsOf(record), len(rankingFields)+len(decisionFields)+len(verdictFields)+1)
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
