package registry

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// resolve makes a schema that reads the writer's values into our fields, by Avro's schema resolution. Fields match by name, or by an alias.
// Numbers may have any type that fits. Fields that the writer lacks are absent, and its other fields are skipped. Record names do not
// matter.
func resolve(topic event.Topic, context bool, writer *avro.Schema) (*avro.Schema, error) {
	root := writer.Root()
	if root.Type != "record" {
		return nil, errors.New("it is no record but: " + root.Type)
	}
	r, err := readerRecord(root, fullName(root), event.FieldsOf(topic, context))
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
func readerRecord(writer *avro.SchemaNode, name string, ours []event.Field) (object, error) {
	var all []object
	for _, f := range ours {
		theirs := field(writer, f.Name)
		one := object{"name": f.Name, "default": nil}
		if theirs != nil && theirs.Name != f.Name {
			one["aliases"] = []string{theirs.Name}
		}
		t, err := readerType(theirs, f)
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

func readerType(theirs *avro.SchemaField, ours event.Field) (any, error) {
	switch ours.Type {
	case event.Number:
		return "double", nil
	case event.Place:
		return "long", nil
	case event.Texts:
		return object{"type": "array", "items": "string"}, nil
	case event.Features:
		if theirs != nil {
			list := defined(present(&theirs.Type))
			if list.Items != nil && defined(list.Items).Type == "null" { // they take no bytes, so that a short record could hold any number
				return nil, errors.New(ours.Name + " is an array of null only")
			}
		}
		return object{"type": "array", "items": []string{"null", "double"}}, nil
	case event.Time:
		unit := "timestamp-millis"
		if theirs != nil {
			node := present(&theirs.Type)
			if unit = node.LogicalType; !slices.Contains([]string{"timestamp-millis", "timestamp-micros", "timestamp-nanos"}, unit) {
				return nil, errors.New(ours.Name + " is no timestamp: give it the type long and the logicalType timestamp-millis, -micros or -nanos")
			}
		}
		return object{"type": "long", "logicalType": unit}, nil
	case event.Candidates:
		node := &avro.SchemaNode{Name: "Candidate"}
		if theirs != nil {
			list := defined(present(&theirs.Type))
			if list.Type != "array" || list.Items == nil {
				return nil, errors.New(ours.Name + " is no array but: " + list.Type)
			}
			if node = defined(present(list.Items)); node.Type != "record" {
				return nil, errors.New(ours.Name + " is an array of something else than records: " + node.Type)
			}
		}
		items, err := readerRecord(node, fullName(node), ours.Of)
		return object{"type": "array", "items": items}, err
	}
	return "string", nil
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
	into := reflect.New(records[topic])
	left, err := s.Decode(body, into.Interface())
	if err != nil {
		return nil, 0, err
	}
	return appendMessage([]byte{}, into.Elem()), len(left), nil
}
