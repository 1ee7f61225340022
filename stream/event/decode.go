package event

import (
	"strconv"

	"github.com/valyala/fastjson"
)

// MaxIDBytes is how long an impression id, item, event id or learner may be, in bytes of UTF-8. Ids stand in the
// state of every pending impression, and every item that was ever a candidate is kept.
const MaxIDBytes = 1024

// Limits bound what an input record may hold; 0 is no limit. They do not apply to rankings: what a worker wrote must
// be readable whatever the limits of the day.
type Limits struct {
	MaxCandidates  int // of one impression
	MaxRecordBytes int // of the value
}

// Decoder reads records. It reuses its memory from one call to the next, and does not allocate once it has seen
// records of their usual size. It must not be used concurrently; a partition has its own.
//
// What holds for all kinds of record: fields are found by their exact names, and unknown ones are ignored. A field
// that is null is absent. An object that gives one of our fields twice is faulty, since readers disagree on which one
// counts. An optional string that is empty is absent. All text must be valid UTF-8. An id, item, event id or learner
// has at most MaxIDBytes. Where a record has several faults, one of them is reported.
//
// In Protobuf the fields have the numbers of docs/schemas/ranker.proto, and of a field that is given twice the last counts, as Protobuf
// has it; all else is the same.
//
// Every error returned is a *Fault. After one the contents of dst mean nothing.
type Decoder struct {
	limits   Limits
	formats  Formats
	keyless  bool
	parser   fastjson.Parser // its copy of the record is the memory that decoded slices alias
	outgrown bool            // the parser has become too big to be kept
	distinct distinct
	number   []byte            // scratch
	seen     []bool            // scratch, by rank
	words    map[string]string // interned strings of decisions
	topic    Topic             // of the record that is read
	slipped  bool              // a misspelt field of it is counted
	misspelt [Topics]Misspelling
}

// NewDecoder makes a decoder of JSON records.
func NewDecoder(l Limits) *Decoder {
	return &Decoder{limits: l, distinct: newDistinct(), words: map[string]string{}}
}

// NewFormatsDecoder makes a decoder of records in the forms that are expected of each topic, and of JSON.
func NewFormatsDecoder(l Limits, f Formats) *Decoder {
	d := NewDecoder(l)
	d.formats = f
	return d
}

// NewKeylessDecoder makes a decoder for input records that have not got a Kafka key yet: keys that it is given do not matter.
func NewKeylessDecoder(l Limits) *Decoder {
	d := NewDecoder(l)
	d.keyless = true
	return d
}

// Names of the fields of each object, with their places in the arrays that collect fills.
var (
	impressionFields = []string{"impression_id", "learner", "time", "candidates"}
	candidateFields  = []string{"item", "utility"}
	selectionFields  = []string{"impression_id", "item", "time", "utility", "shown"}
	payoffFields     = []string{"impression_id", "payoff", "time", "item", "event_id"}
)

// Impression reads an impression into dst, whose Candidates it reuses. key is the record's key.
func (d *Decoder) Impression(dst *Impression, key, value []byte) error {
	return d.ImpressionIn(dst, key, &Content{Form: d.formats.Of(Impressions, value), Value: value})
}

// ImpressionIn reads an impression whose form is known.
func (d *Decoder) ImpressionIn(dst *Impression, key []byte, c *Content) error {
	*dst = Impression{Candidates: dst.Candidates[:0]}
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
	return nil
}

func (d *Decoder) impression(dst *Impression, key, value []byte) *Fault {
	var v [4]*fastjson.Value
	f := d.record(Impressions, value, impressionFields, v[:], "candidates")
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(v[0], key); f != nil {
		return f
	}
	if dst.Learner, f = text(v[1], "learner"); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = moment(v[2], "time"); f != nil {
		return f
	}
	return d.candidates(dst, v[3])
}

func (d *Decoder) candidates(dst *Impression, list *fastjson.Value) *Fault {
	elements, f := array(list, "candidates")
	if f != nil {
		return f
	}
	if len(elements) == 0 {
		return faultf(NoCandidates, "candidates is absent or empty").at("candidates")
	}
	if most := d.limits.MaxCandidates; most > 0 && len(elements) > most {
		return tooManyCandidates(len(elements), most)
	}
	d.distinct.start(len(elements))
	itemAt := func(i int) []byte { return dst.Candidates[i].Item }
	for i, e := range elements {
		c, hasUtility, f := d.candidate(e, i)
		if f != nil {
			return f
		}
		if i == 0 {
			dst.HasUtilities = hasUtility
		} else if hasUtility != dst.HasUtilities {
			return partialUtilities(i)
		}
		dst.Candidates = append(dst.Candidates, c)
		if !d.distinct.add(i, c.Item, itemAt) {
			return sameItem(i, c.Item)
		}
	}
	return nil
}

func (d *Decoder) candidate(e *fastjson.Value, i int) (c Candidate, hasUtility bool, f *Fault) {
	if e.Type() != fastjson.TypeObject {
		return c, false, faultf(WrongType, "candidates[%d] is not an object but: %s", i, e.Type()).at(strconv.Itoa(i)).at("candidates")
	}
	var v [2]*fastjson.Value
	if f = d.collect(e, candidateFields, v[:]); f != nil {
		return c, false, within(f, "candidates", i)
	}
	if c.Item, f = requiredItem(v[0]); f != nil {
		return c, false, within(f, "candidates", i)
	}
	if v[1] == nil {
		return c, false, nil
	}
	if c.Utility, f = d.float(v[1], "utility"); f != nil {
		return c, false, within(f, "candidates", i)
	}
	return c, true, nil
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

func (d *Decoder) selection(dst *Selection, key, value []byte) *Fault {
	var v [5]*fastjson.Value
	f := d.record(Selections, value, selectionFields, v[:], "")
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(v[0], key); f != nil {
		return f
	}
	if dst.Item, f = requiredItem(v[1]); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = moment(v[2], "time"); f != nil {
		return f
	}
	if v[3] != nil {
		dst.HasUtility = true
		if dst.Utility, f = d.float(v[3], "utility"); f != nil {
			return f
		}
	}
	shown, f := text(v[4], "shown")
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

func (d *Decoder) payoff(dst *Payoff, key, value []byte) *Fault {
	var v [5]*fastjson.Value
	f := d.record(Payoffs, value, payoffFields, v[:], "")
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(v[0], key); f != nil {
		return f
	}
	if v[1] == nil {
		return missingPayoff()
	}
	if dst.Payoff, f = d.float(v[1], "payoff"); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = moment(v[2], "time"); f != nil {
		return f
	}
	if dst.Item, f = text(v[3], "item"); f != nil {
		return f
	}
	dst.EventID, f = text(v[4], "event_id")
	return f
}

// record parses an input record and collects its fields. List is the one that holds candidates, if any.
func (d *Decoder) record(topic Topic, value []byte, names []string, into []*fastjson.Value, list string) *Fault {
	values, f := sane(value)
	if f != nil {
		return f
	}
	if values > keepValues {
		var pruned []byte
		if pruned, f = prune(nil, value, names, list, candidateFields, d.limits.MaxCandidates); f != nil {
			return f
		}
		value = pruned
		values, _, _ = scan(value)
	}
	d.topic, d.slipped = topic, false
	return d.object(value, values, names, into)
}

// keepValues is the number of JSON values up to which the parser keeps its memory, about 100 bytes for each: enough
// for an impression of 10,000 candidates. Without it a megabyte of "[0,0,0,…" would cost each decoder that has met
// one 50 MB for good. A record that has more is pruned first.
const keepValues = 40_000

// sane counts the values of a record, which must be one JSON document.
func sane(value []byte) (int, *Fault) {
	values, at, flaw := scan(value)
	if flaw != sound {
		return 0, faultf(MalformedJSON, "at byte %d: %s", at, flaw)
	}
	return values, nil
}

// object parses value, which must hold one JSON object and holds so many values, and collects its fields.
func (d *Decoder) object(value []byte, values int, names []string, into []*fastjson.Value) *Fault {
	if d.outgrown {
		d.parser, d.outgrown = fastjson.Parser{}, false
	}
	d.outgrown = values > keepValues
	root, err := d.parser.ParseBytes(value)
	if err != nil {
		// Not to be reached: scan is the stricter of the two, and the fuzz targets hold it to that.
		return faultf(MalformedJSON, "%.200q", err.Error())
	}
	if root.Type() != fastjson.TypeObject {
		return faultf(WrongType, "the record is not an object but: %s", root.Type())
	}
	return d.collect(root, names, into)
}

// collect finds the named fields of an object: into[i] becomes the value of names[i], nil where it is absent or null.
func (d *Decoder) collect(object *fastjson.Value, names []string, into []*fastjson.Value) *Fault {
	seen, twice, odd := 0, -1, slip{name: -1}
	object.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		for i, name := range names {
			if string(key) != name {
				continue
			}
			if seen&(1<<i) != 0 {
				twice = i
			}
			seen |= 1 << i
			if v.Type() != fastjson.TypeNull {
				into[i] = v
			}
			return
		}
		for i, name := range names {
			if odd.name < 0 && near(key, name) {
				odd = slip{key, i}
			}
		}
	})
	d.noted(d.topic, odd, names, odd.name >= 0 && seen&(1<<odd.name) == 0)
	if twice >= 0 {
		return givenTwice(names[twice])
	}
	return nil
}

// impressionID reads the impression id, which the key must repeat, where there is one.
func (d *Decoder) impressionID(v *fastjson.Value, key []byte) ([]byte, *Fault) {
	id, f := text(v, "impression_id")
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

// requiredItem reads the field "item" where there must be one.
func requiredItem(v *fastjson.Value) ([]byte, *Fault) {
	item, f := text(v, "item")
	if f == nil && len(item) == 0 {
		return nil, missingItem()
	}
	return item, f
}
