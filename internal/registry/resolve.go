package registry

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/avro"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Records decode into these types; an optional field is a pointer.
type (
	candidate struct {
		Item      *string    `avro:"item"`
		Utility   *float64   `avro:"utility"`
		Features  []*float64 `avro:"features"`
		Predicted *float64   `avro:"predicted"`
		Category  *string    `avro:"category"`
	}
	impression struct {
		ID         *string     `avro:"impression_id"`
		Learner    *string     `avro:"learner"`
		Time       *time.Time  `avro:"time"`
		Candidates []candidate `avro:"candidates"`
		User       *string     `avro:"user"`
		Features   []*float64  `avro:"features"`
		Segment    *string     `avro:"segment"`
	}
	selection struct {
		ID      *string    `avro:"impression_id"`
		Item    *string    `avro:"item"`
		Time    *time.Time `avro:"time"`
		Utility *float64   `avro:"utility"`
		Shown   *string    `avro:"shown"`
	}
	payoff struct {
		ID      *string    `avro:"impression_id"`
		Payoff  *float64   `avro:"payoff"`
		Time    *time.Time `avro:"time"`
		Item    *string    `avro:"item"`
		EventID *string    `avro:"event_id"`
	}
)

var fields = [event.Inputs][][2]string{
	event.Impressions: {{"impression_id", "string"}, {"learner", "string"}, {"time", "time"}, {"candidates", "candidates"}, {"user", "string"}},
	event.Selections:  {{"impression_id", "string"}, {"item", "string"}, {"time", "time"}, {"utility", "double"}, {"shown", "string"}},
	event.Payoffs:     {{"impression_id", "string"}, {"payoff", "double"}, {"time", "time"}, {"item", "string"}, {"event_id", "string"}},
}

var candidateFields = [][2]string{{"item", "string"}, {"utility", "double"}}

// Fields of contexts are read only if a learner uses them. Otherwise a producer's fields of these names may have any type.
var (
	contextFields          = [][2]string{{"features", "doubles"}, {"segment", "string"}}
	candidateContextFields = [][2]string{{"features", "doubles"}, {"predicted", "double"}, {"category", "string"}}
)

func wanted(topic event.Topic, context bool) (record, ofCandidate [][2]string) {
	if topic != event.Impressions || !context {
		return fields[topic], candidateFields
	}
	return slices.Concat(fields[topic], contextFields), slices.Concat(candidateFields, candidateContextFields)
}

// resolve makes a schema that reads the writer's values into our fields, by Avro's schema resolution. Fields match by name, or by an alias.
// Numbers may have any type that fits. Fields that the writer lacks are absent, and its other fields are skipped. Record names do not
// matter.
func resolve(topic event.Topic, context bool, writer *avro.Schema) (*avro.Schema, error) {
	root := writer.Root()
	if root.Type != "record" {
		return nil, errors.New("it is no record but: " + root.Type)
	}
	ours, ofCandidate := wanted(topic, context)
	r, err := readerRecord(root, fullName(root), ours, ofCandidate)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	reader, err := avro.Parse(string(text))
	if err != nil {
		return nil, err
	}
	return avro.Resolve(writer, reader)
}

type object map[string]any

// readerRecord returns our schema for one of the writer's records. All fields are optional: the decoder refuses a record that lacks one.
func readerRecord(writer *avro.SchemaNode, name string, ours, ofCandidate [][2]string) (object, error) {
	var all []object
	for _, f := range ours {
		theirs := field(writer, f[0])
		one := object{"name": f[0], "default": nil}
		if theirs != nil && theirs.Name != f[0] {
			one["aliases"] = []string{theirs.Name}
		}
		t, err := readerType(theirs, f[0], f[1], ofCandidate)
		if err != nil {
			return nil, err
		}
		one["type"] = []any{"null", t}
		all = append(all, one)
	}
	return object{"type": "record", "name": name, "fields": all}, nil
}

// field finds a field of the writer's by our name, or by one of its aliases.
func field(writer *avro.SchemaNode, name string) *avro.SchemaField {
	i := slices.IndexFunc(writer.Fields, func(f avro.SchemaField) bool { return f.Name == name })
	if i < 0 {
		i = slices.IndexFunc(writer.Fields, func(f avro.SchemaField) bool { return slices.Contains(f.Aliases, name) })
	}
	if i < 0 {
		return nil
	}
	return &writer.Fields[i]
}

func readerType(theirs *avro.SchemaField, name, ours string, ofCandidate [][2]string) (any, error) {
	switch ours {
	case "doubles":
		return object{"type": "array", "items": []string{"null", "double"}}, nil
	case "time":
		unit := "timestamp-millis"
		if theirs != nil {
			node := present(&theirs.Type)
			if unit = node.LogicalType; !slices.Contains([]string{"timestamp-millis", "timestamp-micros", "timestamp-nanos"}, unit) {
				return nil, errors.New(name + " is no timestamp: give it the type long and the logicalType timestamp-millis, -micros or -nanos")
			}
		}
		return object{"type": "long", "logicalType": unit}, nil
	case "candidates":
		node := &avro.SchemaNode{Name: "Candidate"}
		if theirs != nil {
			list := defined(present(&theirs.Type))
			if list.Type != "array" || list.Items == nil {
				return nil, errors.New(name + " is no array but: " + list.Type)
			}
			if node = defined(present(list.Items)); node.Type != "record" {
				return nil, errors.New(name + " is an array of something else than records: " + node.Type)
			}
		}
		items, err := readerRecord(node, fullName(node), ofCandidate, nil)
		return object{"type": "array", "items": items}, err
	}
	return ours, nil
}

// present returns a union's only branch beside null, if any.
func present(n *avro.SchemaNode) *avro.SchemaNode {
	if n.Type != "union" {
		return n
	}
	var only *avro.SchemaNode
	for i := range n.Branches {
		if n.Branches[i].Type == "null" {
			continue
		}
		if only != nil {
			return n
		}
		only = &n.Branches[i]
	}
	if only == nil {
		return n
	}
	return only
}

func defined(n *avro.SchemaNode) *avro.SchemaNode {
	if s, err := n.Schema(); err == nil {
		return s.Root()
	}
	return n
}

func fullName(n *avro.SchemaNode) string {
	if n.Namespace == "" || strings.Contains(n.Name, ".") {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// decode converts a body to Protobuf; rest is the number of unread bytes.
func decode(topic event.Topic, s *avro.Schema, body []byte) (plain []byte, rest int, err error) {
	var into interface{ plain() []byte }
	switch topic {
	case event.Impressions:
		into = &impression{}
	case event.Selections:
		into = &selection{}
	default:
		into = &payoff{}
	}
	left, err := s.Decode(body, into)
	if err != nil {
		return nil, 0, err
	}
	return into.plain(), len(left), nil
}
