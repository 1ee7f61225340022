package event

// MaxIDBytes bounds an impression id, item, event id or learner, in bytes of UTF-8. Ids are kept with every pending impression, and every
// candidate's item is kept for good.
const MaxIDBytes = 1024

// Limits bound an input record; 0: no limit. They do not apply to rankings, which must stay readable after a change.
type Limits struct {
	MaxCandidates  int // of one impression
	MaxRecordBytes int // of the value
}

// Decoder reads records. It reuses its memory, and does not allocate for records of the usual size. It is not safe for concurrent use.
//
// For all kinds of records: field names match exactly, and unknown fields are ignored. A null field is absent. An object that repeats one
// of our fields is faulty, since readers disagree on which one counts. An empty optional string is absent. All text must be valid UTF-8. An
// id, item, event id or learner has at most MaxIDBytes. Of several faults, one is reported.
//
// In Protobuf, fields have the numbers of docs/schemas/ranker.proto, and of a repeated field the last counts.
//
// Every error returned is a *Fault. After an error the contents of dst are undefined.
type Decoder struct {
	limits   Limits
	formats  Formats
	keyless  bool
	copied   []byte    // bytes of the record, aliased by decoded slices
	numbers  []float64 // features, likewise
	excluded [][]byte  // items, likewise
	pins     []int32   // scratch
	filler   Filler
	distinct distinct
	seen     []bool            // scratch, by rank
	words    map[string]string // interned strings of decisions
	topic    Topic             // of the record that is read
	slipped  bool              // a misspelt field of it has been counted
	misspelt [Topics]Misspelling
	// Names of the fields read: without those of contexts, unless WithContext was called.
	impressionNames, candidateNames []string
}

func NewDecoder(l Limits) *Decoder {
	return &Decoder{limits: l, distinct: newDistinct(), words: map[string]string{},
		impressionNames: impressions.names[:contextFeatures], candidateNames: candidates.names[:candidateFeatures]}
}

// NewFormatsDecoder returns a decoder of the given format of each topic, and of JSON.
func NewFormatsDecoder(l Limits, f Formats) *Decoder {
	d := NewDecoder(l)
	d.formats = f
	return d
}

// NewKeylessDecoder returns a decoder of JSON that is not in Kafka: it ignores keys, and expects no schema registry's header.
func NewKeylessDecoder(l Limits) *Decoder {
	d := NewDecoder(l)
	d.keyless = true
	return d
}

func (d *Decoder) parse(value []byte) parser {
	d.copied = append(d.copied[:0], value...)
	p := parser{b: d.copied}
	p.space()
	return p
}

func (p *parser) malformed() *Fault { return faultf(MalformedJSON, "at byte %d: %s", p.at, p.flaw) }

// record reads an object: into[i] becomes the value of names[i], absent if null.
func (d *Decoder) record(topic Topic, b []byte, names []string, into []value) *Fault {
	p := d.parse(b)
	if !p.stands('{') {
		return p.notObject()
	}
	m := members{names: names}
	m.read(&p, into)
	p.end()
	if p.flaw != sound {
		return p.malformed()
	}
	d.topic, d.slipped = topic, false
	return d.checked(&m)
}

// checked counts a misspelt field of an object, and refuses a repeated field.
func (d *Decoder) checked(m *members) *Fault {
	if m.slipped() {
		d.noted(m.odd)
	}
	if m.twice != "" {
		return givenTwice(m.twice)
	}
	return nil
}

func (p *parser) notObject() *Fault {
	v := p.value()
	p.end()
	if p.flaw != sound {
		return p.malformed()
	}
	return faultf(WrongType, "the record is not an object but: %s", v.kind)
}

// sameKey requires that a record's key, if there is one, is its impression id.
func (d *Decoder) sameKey(id, key []byte) *Fault {
	if !d.keyless && string(id) != string(key) {
		return faultf(KeyMismatch, "the key is %s, the impression_id %s", quote(key), quote(id)).at("impression_id")
	}
	return nil
}
