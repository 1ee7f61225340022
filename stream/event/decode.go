package event

// MaxIDBytes is how long an impression id, item, event id or learner may be, in bytes of UTF-8. Ids stand in the
// state of every pending impression, and every item that was ever a candidate is kept.
const MaxIDBytes = 1024

// Limits bound an input record; 0 is no limit. They do not apply to rankings, which must stay readable when limits
// change.
type Limits struct {
	MaxCandidates  int // of one impression
	MaxRecordBytes int // of the value
}

// Decoder reads records. It reuses its memory between calls, and stops allocating once it has seen records of their
// usual size. It must not be used concurrently; each partition has its own.
//
// These rules hold for all kinds of records. Field names match exactly; unknown fields are ignored. A null field is
// absent. An object with one of our fields twice is faulty, since readers disagree on which one counts. An empty
// optional string is absent. All text must be valid UTF-8. An id, item, event id or learner has at most MaxIDBytes.
// Of several faults of a record, one is reported.
//
// In Protobuf, fields have the numbers of docs/schemas/ranker.proto. Of a field given twice the last counts, as in
// Protobuf. All else is the same.
//
// Every error returned is a *Fault. After an error the contents of dst are undefined.
type Decoder struct {
	limits   Limits
	formats  Formats
	keyless  bool
	copied   []byte    // of the record: the memory that decoded slices alias
	numbers  []float64 // likewise, of features
	filler   Filler
	unfit    candidateFaults
	distinct distinct
	seen     []bool            // scratch, by rank
	words    map[string]string // interned strings of decisions
	topic    Topic             // of the record that is read
	slipped  bool              // a misspelt field of it is counted
	misspelt [Topics]Misspelling
	// Names of the fields that are read: without those of contexts, unless WithContext was called.
	impressionNames, candidateNames []string
}

// NewDecoder makes a decoder of JSON records.
func NewDecoder(l Limits) *Decoder {
	return &Decoder{limits: l, distinct: newDistinct(), words: map[string]string{},
		impressionNames: impressionFields[:contextFeatures], candidateNames: candidateFields[:candidateFeatures]}
}

// NewFormatsDecoder makes a decoder of records in the forms that are expected of each topic, and of JSON.
func NewFormatsDecoder(l Limits, f Formats) *Decoder {
	d := NewDecoder(l)
	d.formats = f
	return d
}

// NewKeylessDecoder makes a decoder of JSON that is not in Kafka yet: it ignores keys, and expects no schema
// registry's header.
func NewKeylessDecoder(l Limits) *Decoder {
	d := NewDecoder(l)
	d.keyless = true
	return d
}

// Names of the fields of each object, with their places in the arrays that collect fills.
var (
	impressionFields = []string{"impression_id", "learner", "time", "candidates", "user", "features", "segment"}
	candidateFields  = []string{"item", "utility", "features", "predicted", "category"}
	selectionFields  = []string{"impression_id", "item", "time", "utility", "shown"}
	payoffFields     = []string{"impression_id", "payoff", "time", "item", "event_id"}
)

// Impression reads an impression into dst, whose Candidates it reuses. key is the record's key.
func (d *Decoder) Impression(dst *Impression, key, value []byte) error {
	return d.ImpressionIn(dst, key, &Content{Form: d.formats.Of(Impressions, value), Value: value})
}

// ImpressionIn reads an impression whose form is known.
func (d *Decoder) ImpressionIn(dst *Impression, key []byte, c *Content) error {
	*dst = Impression{Candidates: dst.Candidates[:0], Filled: dst.Filled[:0], Context: Context{Candidates: dst.Context.Candidates[:0]}}
	d.numbers = d.numbers[:0]
	value, f := d.body(c)
	switch {
	case f != nil:
	case c.Form == JSON:
		f = d.impression(dst, key, value)
	default:
		f = d.protoImpression(dst, key, value)
	}
	if f != nil {
		return f
	}
	d.filler.Fill(dst)
	return nil
}

// Selection reads a selection into dst. key is the record's key.
func (d *Decoder) Selection(dst *Selection, key, value []byte) error {
	return d.SelectionIn(dst, key, &Content{Form: d.formats.Of(Selections, value), Value: value})
}

// SelectionIn reads a selection whose form is known.
func (d *Decoder) SelectionIn(dst *Selection, key []byte, c *Content) error {
	*dst = Selection{}
	value, f := d.body(c)
	switch {
	case f != nil:
	case c.Form == JSON:
		f = d.selection(dst, key, value)
	default:
		f = d.protoSelection(dst, key, value)
	}
	if f != nil {
		return f
	}
	return nil
}

func (d *Decoder) selection(dst *Selection, key, b []byte) *Fault {
	var v [5]value
	f := d.record(Selections, b, selectionFields, v[:])
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(&v[0], key); f != nil {
		return f
	}
	if dst.Item, f = v[1].item(); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = v[2].moment("time"); f != nil {
		return f
	}
	if v[3].kind != absent {
		dst.HasUtility = true
		if dst.Utility, f = v[3].float("utility"); f != nil {
			return f
		}
	}
	shown, f := v[4].text("shown")
	if f == nil {
		dst.ByUtility, f = byUtility(shown)
	}
	return f
}

// Payoff reads a payoff into dst. key is the record's key. That a payoff must name its item where no selections topic
// is configured is for the caller to check.
func (d *Decoder) Payoff(dst *Payoff, key, value []byte) error {
	return d.PayoffIn(dst, key, &Content{Form: d.formats.Of(Payoffs, value), Value: value})
}

// PayoffIn reads a payoff whose form is known.
func (d *Decoder) PayoffIn(dst *Payoff, key []byte, c *Content) error {
	*dst = Payoff{}
	value, f := d.body(c)
	switch {
	case f != nil:
	case c.Form == JSON:
		f = d.payoff(dst, key, value)
	default:
		f = d.protoPayoff(dst, key, value)
	}
	if f != nil {
		return f
	}
	return nil
}

func (d *Decoder) payoff(dst *Payoff, key, b []byte) *Fault {
	var v [5]value
	f := d.record(Payoffs, b, payoffFields, v[:])
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(&v[0], key); f != nil {
		return f
	}
	if v[1].kind == absent {
		return missingPayoff()
	}
	if dst.Payoff, f = v[1].float("payoff"); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = v[2].moment("time"); f != nil {
		return f
	}
	if dst.Item, f = v[3].text("item"); f != nil {
		return f
	}
	dst.EventID, f = v[4].text("event_id")
	return f
}

// parse begins to read a record.
func (d *Decoder) parse(value []byte) parser {
	d.copied = append(d.copied[:0], value...)
	p := parser{b: d.copied}
	p.space()
	return p
}

// malformed is the fault of a record that is not JSON.
func (p *parser) malformed() *Fault { return faultf(MalformedJSON, "at byte %d: %s", p.at, p.flaw) }

// record reads a record that is one object, and of it the named fields: into[i] becomes the value of names[i], absent where it is null.
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

// checked counts a misspelt field of an object that has been read, and refuses one that gives a field twice.
func (d *Decoder) checked(m *members) *Fault {
	if m.slipped() {
		d.noted(m.odd)
	}
	if m.twice != "" {
		return givenTwice(m.twice)
	}
	return nil
}

// notObject is the fault of a record that is no object.
func (p *parser) notObject() *Fault {
	v := p.value()
	p.end()
	if p.flaw != sound {
		return p.malformed()
	}
	return faultf(WrongType, "the record is not an object but: %s", v.kind)
}

// impressionID is the impression id, which the key must repeat, where there is one.
func (d *Decoder) impressionID(v *value, key []byte) ([]byte, *Fault) {
	id, f := v.text("impression_id")
	if f == nil {
		f = d.sameKey(id, key)
	}
	return id, f
}

// sameKey holds an impression id against the key.
func (d *Decoder) sameKey(id, key []byte) *Fault {
	switch {
	case len(id) == 0:
		return faultf(MissingImpressionID, "impression_id is absent or empty").at("impression_id")
	case !d.keyless && string(id) != string(key):
		return faultf(KeyMismatch, "the key is %s, the impression_id %s", quote(key), quote(id)).at("impression_id")
	}
	return nil
}

// byUtility reads the field "shown".
func byUtility(shown []byte) (bool, *Fault) {
	if len(shown) > 0 && string(shown) != ShownByUtility {
		return false, faultf(WrongType, "shown is %s, which can be %q only", quote(shown), ShownByUtility).at("shown")
	}
	return len(shown) > 0, nil
}
