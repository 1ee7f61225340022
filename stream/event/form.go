package event

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Form is a record's format.
type Form uint8

// Numbers are stored with parked records: they are never changed.
const (
	JSON Form = iota
	Protobuf
	Avro

	Forms = iota
)

// forms are the names in the configuration.
var forms = []string{"json", "protobuf", "avro"}

func (f Form) String() string {
	if f < Forms {
		return forms[f]
	}
	return fmt.Sprintf("form %d", uint8(f))
}

// FormOf returns the form of a name.
func FormOf(name string) Form { return Form(slices.Index(forms, name)) }

// Formats are the expected formats by topic. The zero value is JSON throughout.
type Formats [Inputs]Form

// Of returns the form of a value. A value that begins with '{' is always JSON, so that a topic in use can change from JSON to another form.
// Neither our Protobuf nor a schema registry's header begins so.
func (f *Formats) Of(t Topic, value []byte) Form {
	if len(value) > 0 && value[0] == '{' {
		return JSON
	}
	return f[t]
}

type Content struct {
	Form  Form
	Value []byte // as it stands in the topic
	// Plain is the same record in Protobuf, for a form whose value cannot be read alone: Avro.
	Plain []byte
}

// SchemaHeader is the length of a schema registry's header: 0, and the schema's id in 4 bytes.
const SchemaHeader = 5

// SchemaID returns the schema id in a value's header; ok is false without a header. No JSON document or Protobuf message begins with the
// byte 0.
func SchemaID(value []byte) (id uint32, body []byte, ok bool) {
	if len(value) < SchemaHeader || value[0] != 0 {
		return 0, value, false
	}
	return binary.BigEndian.Uint32(value[1:]), value[SchemaHeader:], true
}

// body returns the part to be read, JSON or Protobuf.
func (d *Decoder) body(c Content) ([]byte, *Fault) {
	if most := d.limits.MaxRecordBytes; most > 0 && len(c.Value) > most {
		return nil, faultf(RecordTooLarge, "the value has %d bytes, at most %d are allowed", len(c.Value), most)
	}
	switch c.Form {
	case JSON:
		if d.keyless {
			return c.Value, nil
		}
		_, b, _ := SchemaID(c.Value)
		return b, nil
	case Protobuf:
		return message(c.Value)
	}
	if c.Plain == nil {
		return nil, faultf(MalformedAvro, "the value does not begin with the header of a schema registry, 0 and the schema's id in 4 bytes")
	}
	return c.Plain, nil
}

// fault returns the fault of a record that was read. An Avro record is read in Protobuf, which its producer does not know.
func (c *Content) fault(f *Fault) *Fault {
	if f != nil && c.Form == Avro && f.Reason == MalformedProtobuf {
		f.Reason = MalformedAvro
	}
	return f
}

// message strips a schema registry's header from a Protobuf value: 0, the id, and the message's indexes in its file, which are ignored.
// These are their number and each of them, or a single 0 for the first message. The topic determines the message's type.
func message(value []byte) ([]byte, *Fault) {
	if len(value) == 0 || value[0] != 0 {
		return value, nil
	}
	_, b, ok := SchemaID(value)
	if !ok {
		return nil, malformedProtobuf("the value begins with 0 and ends within the header of a schema registry")
	}
	count, n := binary.Varint(b)
	for i := int64(0); n > 0 && i < count; i++ {
		b = b[n:]
		_, n = binary.Varint(b)
	}
	if n <= 0 || count < 0 {
		return nil, malformedProtobuf("the header of a schema registry is not followed by the indexes of a message")
	}
	return b[n:], nil
}
