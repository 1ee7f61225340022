package registry

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// records are the types that Avro records decode into, by topic: structs with the fields of event.FieldsOf, in their order. Fields that a
// schema lacks stay nil.
var records = func() (all [event.Inputs]reflect.Type) {
	for t := range all {
		all[t] = structOf(event.FieldsOf(event.Topic(t), true))
	}
	return all
}()

func structOf(fields []event.Field) reflect.Type {
	var all []reflect.StructField
	for i, f := range fields {
		one := reflect.StructField{Name: fmt.Sprintf("F%d", i), Tag: reflect.StructTag(fmt.Sprintf("avro:%q", f.Name))}
		switch f.Type {
		case event.Text:
			one.Type = reflect.TypeFor[*string]()
		case event.Number:
			one.Type = reflect.TypeFor[*float64]()
		case event.Time:
			one.Type = reflect.TypeFor[*time.Time]()
		case event.Features:
			one.Type = reflect.TypeFor[[]*float64]()
		case event.Place:
			one.Type = reflect.TypeFor[*int64]()
		case event.Texts:
			one.Type = reflect.TypeFor[[]string]()
		case event.Candidates:
			one.Type = reflect.SliceOf(structOf(f.Of))
		}
		all = append(all, one)
	}
	return reflect.StructOf(all)
}

// appendMessage appends a record as a message of docs/schemas/ranker.proto, in which a field has the number of its position, from 1. Absent
// fields stay absent; the decoder judges them.
func appendMessage(dst []byte, record reflect.Value) []byte {
	for i := range record.NumField() {
		field, number := record.Field(i), protowire.Number(i+1)
		if field.IsNil() {
			continue
		}
		switch x := field.Interface().(type) {
		case *string:
			dst = protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), *x)
		case *float64:
			dst = protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), math.Float64bits(*x))
		case *int64:
			dst = protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), uint64(*x))
		case []string:
			for _, s := range x {
				dst = protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), s)
			}
		case *time.Time:
			dst = protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), stamp(x))
		case []*float64:
			dst = appendNumbers(dst, number, x)
		default:
			var one []byte
			for k := range field.Len() {
				one = appendMessage(one[:0], field.Index(k))
				dst = protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), one)
			}
		}
	}
	return dst
}

// stamp returns a google.protobuf.Timestamp.
func stamp(t *time.Time) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(t.Unix()))
	return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(t.Nanosecond()))
}

// appendNumbers appends numbers packed; null is NaN.
func appendNumbers(dst []byte, number protowire.Number, all []*float64) []byte {
	if len(all) == 0 {
		return dst
	}
	dst = protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(8*len(all)))
	for _, x := range all {
		if x == nil {
			dst = protowire.AppendFixed64(dst, math.Float64bits(math.NaN()))
		} else {
			dst = protowire.AppendFixed64(dst, math.Float64bits(*x))
		}
	}
	return dst
}
