package dlq

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Hint returns the probable cause of a dead letter, for authors of producers; "" if unknown. Its reason and detail only name the fault.
func Hint(l *Letter) string {
	v := l.Value
	if _, body, ok := event.SchemaID(v); ok && bytes.HasPrefix(body, []byte("{")) { // JSON Schema's serializer: read as JSON
		v = body
	}
	unread := l.Reason == string(event.MalformedJSON) // other reasons are of formats that were understood
	switch {
	case v == nil:
		return "the value is null, a tombstone: nothing is deleted from these topics; keep tombstones out of them (a compacting connector or KTable sends them)"
	case len(v) == 0:
		return "the value is empty"
	case v[0] == 0 && len(v) > 5 && unread:
		return schemaHint(v)
	case bytes.HasPrefix(v, []byte{0x1f, 0x8b}):
		return "the value is gzipped by the application: send the JSON itself, and let the producer compress (compression.type)"
	case bytes.HasPrefix(v, []byte("\xef\xbb\xbf")):
		return "the value begins with a byte order mark: write UTF-8 without one"
	case bytes.HasPrefix(v, []byte{0xff, 0xfe}), bytes.HasPrefix(v, []byte{0xfe, 0xff}):
		return "the value is UTF-16: write UTF-8"
	case v[0] == '"' && json.Valid(v):
		return "the value is a JSON string, most likely of JSON that was encoded twice: send the object itself"
	case !utf8.Valid(v) && unread:
		return "the value is no UTF-8: another format than JSON, such as Protobuf (kafka.formats), or another encoding"
	}
	return cmp.Or(timeHint(v), keyHint(l))
}

// schemaHint is about serializers with a schema registry: 0, the schema's number in 4 bytes, then the content.
func schemaHint(v []byte) string {
	return fmt.Sprintf("the value begins with 0 and, it seems, the number of a schema (%d) in a schema registry, as Confluent's serializers write it; "+
		"most likely Avro or Protobuf: kafka.formats says which a topic has (avro, which needs kafka.schema_registry.url, or protobuf); then "+
		"`dlq replay` sends it again", binary.BigEndian.Uint32(v[1:]))
}

// timeHint is about numbers in place of times.
func timeHint(v []byte) string {
	var fields struct {
		Time json.RawMessage `json:"time"`
	}
	if json.Unmarshal(v, &fields) != nil {
		return ""
	}
	text := bytes.Trim(fields.Time, `"`)
	var n float64
	if json.Unmarshal(text, &n) != nil || n <= 0 {
		return ""
	}
	unit, at := "seconds", time.UnixMilli(int64(n*1000))
	switch {
	case n > 1e17:
		unit, at = "nanoseconds", time.Unix(0, int64(n))
	case n > 1e14:
		unit, at = "microseconds", time.UnixMicro(int64(n))
	case n > 1e11:
		unit, at = "milliseconds", time.UnixMilli(int64(n))
	}
	return fmt.Sprintf("time is a number, most likely of %s since 1970: write it as RFC 3339, which would be %q", unit, at.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// keyHint is about missing or wrapped keys.
func keyHint(l *Letter) string {
	var fields struct {
		ID string `json:"impression_id"`
	}
	switch err := json.Unmarshal(l.Value, &fields); {
	case err != nil || fields.ID == "" || string(l.Key) == fields.ID:
		return ""
	case l.Key == nil:
		return "the record has no key: key it by its impression_id, or records of one impression part"
	case len(l.Key) > 0 && l.Key[0] == '"' && string(bytes.Trim(l.Key, `"`)) == fields.ID:
		return "the key is in quotation marks, as a JSON serializer writes it: use a string serializer for keys"
	case len(l.Key) > 5 && l.Key[0] == 0:
		return "the key was written by a serializer with a schema registry: use a string serializer for keys"
	}
	return ""
}

// TimestampHint is about the refused record's Kafka timestamp.
func TimestampHint(at time.Time) string {
	if at.Year() != 1970 {
		return ""
	}
	return fmt.Sprintf("the record's Kafka timestamp is %s: the producer gives seconds where Kafka takes milliseconds", at.UTC().Format(time.RFC3339))
}
