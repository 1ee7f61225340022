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
	filler   Filler
	unfit    candidateFaults
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
		impressionNames: impressionFields[:contextFeatures], candidateNames: candidateFields[:candidateFeatures]}
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

// Field names of each object, at their index in the arrays that collect fills.
var (
	impressionFields = []string{"impression_id", "learner", "time", "candidates", "user", "features", "segment"}
	candidateFields  = []string{"item", "utility", "features", "predicted", "category"}
	selectionFields  = []string{"impression_id", "item", "time", "utility", "shown"}
	payoffFields     = []string{"impression_id", "payoff", "time", "item", "event_id"}
)

// Impression reads an impression into dst, whose Candidates it reuses.
func (d *Decoder) Impression(dst *Impression, key, value []byte) error {
	return d.ImpressionIn(dst, key, &Content{Form: d.formats.Of(Impressions, value), Value: value})
}

// ImpressionIn reads an impression of known form.
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

func (d *Decoder) Selection(dst *Selection, key, value []byte) error {
	return d.SelectionIn(dst, key, &Content{Form: d.formats.Of(Selections, value), Value: value})
}

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

// Payoff reads a payoff into dst. Without a selections topic, the caller must check that it names its item.
func (d *Decoder) Payoff(dst *Payoff, key, value []byte) error {
	return d.PayoffIn(dst, key, &Content{Form: d.formats.Of(Payoffs, value), Value: value})
}

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

// impressionID returns the impression id, which must equal the key if there is one.
func (d *Decoder) impressionID(v *value, key []byte) ([]byte, *Fault) {
	id, f := v.text("impression_id")
	if f == nil {
		f = d.sameKey(id, key)
	}
	return id, f
}

func (d *Decoder) sameKey(id, key []byte) *Fault {
	switch {
	case len(id) == 0:
		return faultf(MissingImpressionID, "impression_id is absent or empty").at("impression_id")
	case !d.keyless && string(id) != string(key):
		return faultf(KeyMismatch, "the key is %s, the impression_id %s", quote(key), quote(id)).at("impression_id")
	}
	return nil
}

func byUtility(shown []byte) (bool, *Fault) {
	if len(shown) > 0 && string(shown) != ShownByUtility {
		return false, faultf(WrongType, "shown is %s, which can be %q only", quote(shown), ShownByUtility).at("shown")
	}
	return len(shown) > 0, nil
}
