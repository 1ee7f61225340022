package event

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Type is the type of a field of an input record.
type Type uint8

const (
	Text       Type = iota // of at most MaxIDBytes
	Number                 // finite
	Time                   // in Protobuf a Timestamp
	Features               // a list of at most MaxFeatures numbers, of which any may be null
	Place                  // a whole number from 1 on; in Protobuf, 0 is absent
	Texts                  // a list of texts
	Candidates             // a list of objects
	other                  // in rankings only
)

// Field describes a field of an input record.
type Field struct {
	Name string
	Type Type
	Of   []Field // the fields of each candidate; else nil
}

// FieldsOf returns the fields of a topic's input records, in the order of their numbers in Protobuf, from 1. Without context, fields of
// contexts are left out.
func FieldsOf(t Topic, context bool) []Field {
	switch t {
	case Selections:
		return selections.fields()
	case Payoffs:
		return payoffs.fields()
	}
	all, each := impressions.fields(), candidates.fields()
	if !context {
		all, each = all[:contextFeatures], each[:candidateFeatures]
	}
	all[candidatesRow].Of = each
	return all
}

// table holds the fields of a record R. It drives reading and writing in JSON and Protobuf, hints for misspelt fields, and the reading of
// Avro. Tests compare the published descriptions of records with it.
type table[R any] struct {
	rows  []field[R]
	names []string
}

// field is a row of a table. Its number in Protobuf is its position, from 1; JSON is written in the order of rows.
//
// One function gives the place of the value in R, and thereby the type. Those from word on occur in rankings only, which are JSON.
type field[R any] struct {
	name   string
	need   Reason                                           // to refuse a record without the field; "": it is optional
	own    Type                                             // not Text: the field is read and written by code of its own
	given  func(*R) *bool                                   // whether an optional number or time is present; nil: it is required
	merge  func(d *Decoder, dst *R, part protoField) *Fault // reads an own field in Protobuf, piece by piece
	text   func(*R) *[]byte                                 // empty: absent
	number func(*R) *float64
	time   func(*R) *Millis
	only   string // the only value of a text that sets given; "": any value

	word    func(*R) *string // an interned text
	empty   bool             // the word may be empty
	integer func(*R) any     // *int, *int32 or *int64, without a sign
	low     int64            // the least integer
	truth   func(*R) *bool
	read    func(d *Decoder, dst *R, v value) *Fault
	where   func(*R) bool // whether one of these is read, by the fields before it; nil: it always is

	prefix string // in JSON: the name, with the punctuation around it
}

const (
	mostFields       = 8  // of a record
	mostNestedFields = 26 // of an object in a record
)

func tableOf[R any](rows []field[R]) *table[R] {
	t := &table[R]{rows: rows}
	begin := "{"
	for i := range rows {
		rows[i].prefix = begin + strconv.Quote(rows[i].name) + ":"
		t.names = append(t.names, rows[i].name)
		begin = ","
	}
	return t
}

func (t *table[R]) fields() (all []Field) {
	for i := range t.rows {
		c := &t.rows[i]
		one := Field{Name: c.name, Type: c.own}
		switch {
		case c.number != nil:
			one.Type = Number
		case c.time != nil:
			one.Type = Time
		}
		all = append(all, one)
	}
	return all
}

// decode reads an input record whose fields are all in rows without code of their own.
func (t *table[R]) decode(d *Decoder, topic Topic, dst *R, key []byte, c Content) error {
	var zero R
	*dst = zero
	b, f := d.body(c)
	switch {
	case f != nil:
	case c.Form == JSON:
		var v [mostFields]value
		if f = d.record(topic, b, t.names, v[:]); f == nil {
			f = t.fromJSON(d, dst, v[:len(t.rows)])
		}
	default:
		f = c.fault(t.fromProtobuf(d, dst, t.names, b))
	}
	if f == nil {
		f = d.sameKey(*t.rows[0].text(dst), key)
	}
	if f != nil {
		return f
	}
	return nil
}

// nested reads an object within a record.
func (t *table[R]) nested(d *Decoder, dst *R, b []byte) *Fault {
	var v [mostNestedFields]value
	p, m := parser{b: b}, members{names: t.names}
	m.read(&p, v[:])
	if f := d.checked(&m); f != nil {
		return f
	}
	return t.fromJSON(d, dst, v[:len(t.rows)])
}

// fromJSON reads the first rows from their values.
func (t *table[R]) fromJSON(d *Decoder, dst *R, v []value) *Fault {
	for i := range v {
		if f := t.rows[i].fromJSON(d, dst, &v[i]); f != nil {
			return f
		}
	}
	return nil
}

func (c *field[R]) fromJSON(d *Decoder, dst *R, v *value) (f *Fault) {
	switch {
	case v.kind == absent:
		if c.need == "" || c.own != Text || c.where != nil && !c.where(dst) {
			return nil
		}
		return c.missing()
	case c.text != nil:
		at := c.text(dst)
		if *at, f = v.text(c.name); f == nil && len(*at) == 0 && c.need != "" {
			return c.missing()
		}
		return f
	case c.number != nil:
		*c.number(dst), f = v.float(c.name)
	case c.time != nil:
		*c.time(dst), f = v.moment(c.name)
	case c.own == Texts:
		return c.read(d, dst, *v)
	case c.own != Text, c.where != nil && !c.where(dst):
		return nil
	case c.only != "":
		var b []byte
		if b, f = v.text(c.name); f == nil {
			*c.given(dst), f = c.isOnly(b)
		}
		return f
	case c.word != nil:
		at := c.word(dst)
		if *at, f = d.word(v, c.name); f == nil && len(*at) == 0 && c.need != "" && !c.empty {
			return c.missing()
		}
	case c.integer != nil:
		return v.integer(c.name, c.low, c.integer(dst))
	case c.truth != nil:
		*c.truth(dst), f = v.truth(c.name)
	default:
		return c.read(d, dst, *v)
	}
	if c.given != nil {
		*c.given(dst) = true
	}
	return f
}

func (c *field[R]) missing() *Fault {
	if c.text != nil || c.word != nil && !c.empty {
		return faultf(c.need, "%s is absent or empty", c.name).at(c.name)
	}
	return faultf(c.need, "%s is absent", c.name).at(c.name)
}

// isOnly reports whether a text that can have one value is present.
func (c *field[R]) isOnly(b []byte) (bool, *Fault) {
	if len(b) > 0 && string(b) != c.only {
		return false, faultf(WrongType, "%s is %s, which can be %q only", c.name, quote(b), c.only).at(c.name)
	}
	return len(b) > 0, nil
}

// fromProtobuf reads the rows of these names from a message. Of a repeated field the last counts, but each is checked; times are merged.
func (t *table[R]) fromProtobuf(d *Decoder, dst *R, names []string, b []byte) *Fault {
	var last [mostFields]protoField
	var at stamp // a record has one time at most
	for len(b) > 0 {
		part, rest, f := nextField(b, names)
		if f != nil {
			return f
		}
		if b = rest; part.name == "" {
			continue
		}
		switch c := &t.rows[part.row]; {
		case c.merge != nil:
			f = c.merge(d, dst, part)
		case c.time != nil:
			f = at.merge(&part)
		case c.number != nil:
			f = part.as(protowire.Fixed64Type)
		default:
			_, f = part.text()
		}
		if f != nil {
			return f
		}
		last[part.row] = part
	}
	for i := range names {
		if f := t.rows[i].fromProtobuf(dst, &last[i], &at); f != nil {
			return f
		}
	}
	return nil
}

// fromProtobuf stores the last of a field's parts.
func (c *field[R]) fromProtobuf(dst *R, last *protoField, at *stamp) (f *Fault) {
	switch given := last.name != ""; {
	case c.merge != nil:
		return nil
	case c.text != nil:
		if *c.text(dst) = last.bytes; len(last.bytes) == 0 && c.need != "" {
			return c.missing()
		}
		return nil
	case c.only != "":
		*c.given(dst), f = c.isOnly(last.bytes)
		return f
	case !given && c.need != "":
		return c.missing()
	case !given:
		return nil
	case c.number != nil:
		x := math.Float64frombits(last.bits)
		*c.number(dst), f = x, finite(x, c.name)
	default:
		*c.time(dst), f = at.time()
	}
	if c.given != nil {
		*c.given(dst) = true
	}
	return f
}

// has reports whether a field that can be absent is to be written.
func (c *field[R]) has(r *R) bool { return c.given == nil || *c.given(r) }

// appendJSON writes the members of the rows from, from on, up to to. The first row begins the object.
func (t *table[R]) appendJSON(dst []byte, r *R, from, to int) []byte {
	for i := from; i < to; i++ {
		switch c := &t.rows[i]; {
		case c.text != nil:
			if s := *c.text(r); len(s) > 0 || c.need != "" {
				dst = appendText(append(dst, c.prefix...), s)
			}
		case !c.has(r):
		case c.number != nil:
			dst = appendFloat(append(dst, c.prefix...), *c.number(r))
		case c.time != nil:
			dst = appendQuotedTime(append(dst, c.prefix...), *c.time(r))
		default:
			dst = appendText(append(dst, c.prefix...), c.only)
		}
	}
	return dst
}

// appendProtobuf writes the fields of the rows from, from on, up to to.
func (t *table[R]) appendProtobuf(dst []byte, r *R, from, to int) []byte {
	for i := from; i < to; i++ {
		number := protowire.Number(i + 1)
		switch c := &t.rows[i]; {
		case c.text != nil:
			dst = appendProtoText(dst, number, *c.text(r))
		case !c.has(r):
		case c.number != nil:
			dst = appendDouble(dst, number, *c.number(r))
		case c.time != nil:
			dst = appendStamp(dst, number, *c.time(r))
		default:
			dst = appendProtoText(dst, number, []byte(c.only))
		}
	}
	return dst
}
