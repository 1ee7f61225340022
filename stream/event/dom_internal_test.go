package event

import (
	"math"
	"strconv"

	"github.com/valyala/fastjson"
)

// domDecoder is a slow second decoder. It checks the syntax of the whole value, has a JSON library build a tree, and
// finds the fields in that. It shares with the Decoder the tables' rules for single values, which the oracle of the
// other tests does not. For any bytes, both must read the same record or report the same fault.
type domDecoder struct {
	Decoder
	parser fastjson.Parser
}

func (d *domDecoder) selection(dst *Selection, key, value []byte) *Fault {
	return domRecord(d, Selections, selections, dst, key, value)
}

func (d *domDecoder) payoff(dst *Payoff, key, value []byte) *Fault {
	return domRecord(d, Payoffs, payoffs, dst, key, value)
}

func domRecord[R any](d *domDecoder, topic Topic, t *table[R], dst *R, key, value []byte) *Fault {
	found, f := d.record(topic, value, t.names)
	if f == nil {
		f = t.fromJSON(&d.Decoder, dst, domValues(found))
	}
	if f == nil {
		f = d.sameKey(*t.rows[0].text(dst), key)
	}
	return f
}

func (d *domDecoder) impression(dst *Impression, key, value []byte) *Fault {
	d.excluded = d.excluded[:0]
	found, f := d.record(Impressions, value, d.impressionNames)
	if f == nil {
		f = impressions.fromJSON(&d.Decoder, dst, domValues(found[:contextFeatures]))
	}
	if f == nil {
		f = d.sameKey(dst.ID, key)
	}
	if f != nil {
		return f
	}
	if d.readsContext() {
		c, segment := &dst.Context, domValue(found[contextSegment])
		c.Features, c.Fault = domFeatures(found[contextFeatures])
		if c.Segment, f = segment.text("segment"); c.Fault == nil {
			c.Fault = f
		}
	}
	if f = d.candidates(dst, found[candidatesRow]); f == nil {
		f = d.admit(dst)
	}
	if f == nil {
		d.filler.Fill(dst)
	}
	return f
}

// domFeatures reads a list of numbers, of which any may be null.
func domFeatures(v *fastjson.Value) (list []float64, f *Fault) {
	elements, f := domArray(v, "features")
	if len(elements) > MaxFeatures {
		return nil, tooManyFeatures()
	}
	for i, e := range elements {
		if e.Type() == fastjson.TypeNull {
			list = append(list, math.NaN())
			continue
		}
		number := domValue(e)
		x, bad := number.float("number")
		if bad != nil && f == nil {
			f = inFeatures(bad, i)
		}
		list = append(list, x)
	}
	if f != nil {
		return nil, f
	}
	return list, nil
}

// context reads a candidate's, whose own fields are v.
func (d *domDecoder) context(dst *Context, v []*fastjson.Value, i int) {
	c, f := CandidateContext{Predicted: math.NaN()}, [3]*Fault{}
	c.Features, f[0] = domFeatures(v[0])
	if v[1] != nil {
		predicted := domValue(v[1])
		c.Predicted, f[1] = predicted.float("predicted")
	}
	category := domValue(v[2])
	c.Category, f[2] = category.text("category")
	for _, one := range f {
		if one != nil && dst.Fault == nil {
			dst.Fault = within(one, "candidates", i)
		}
	}
	dst.Candidates = append(dst.Candidates, c)
}

func (d *domDecoder) candidates(dst *Impression, list *fastjson.Value) *Fault {
	elements, f := domArray(list, "candidates")
	if f != nil {
		return f
	}
	if len(elements) == 0 {
		return faultf(NoCandidates, "candidates is absent or empty").at("candidates")
	}
	if most := d.limits.MaxCandidates; most > 0 && len(elements) > most {
		return tooManyCandidates(len(elements), most)
	}
	seen := map[string]bool{}
	for i, e := range elements {
		c, hasUtility, f := d.candidate(dst, e, i)
		if f != nil {
			return f
		}
		if !hasUtility {
			dst.Filled = append(dst.Filled, int32(i))
		}
		dst.Candidates = append(dst.Candidates, c)
		if seen[string(c.Item)] {
			return sameItem(i, c.Item)
		}
		seen[string(c.Item)] = true
	}
	return nil
}

func (d *domDecoder) candidate(dst *Impression, e *fastjson.Value, i int) (c Candidate, hasUtility bool, f *Fault) {
	if e.Type() != fastjson.TypeObject {
		return c, false, faultf(WrongType, "candidates[%d] is not an object but: %s", i, e.Type()).at(strconv.Itoa(i)).at("candidates")
	}
	found, f := d.collect(e, d.candidateNames)
	if f != nil {
		return c, false, within(f, "candidates", i)
	}
	if d.readsContext() {
		d.context(&dst.Context, found[candidateFeatures:], i)
	}
	item, utility := domValue(found[0]), domValue(found[1])
	if c.Item, f = item.item(); f != nil {
		return c, false, within(f, "candidates", i)
	}
	if utility.kind != absent {
		if c.Utility, f = utility.float("utility"); f != nil {
			return c, false, within(f, "candidates", i)
		}
	}
	if pin := domValue(found[candidatePin]); pin.kind != absent {
		if f = pin.integer("pin", 1, &c.Pin); f != nil {
			f.Pointer = ""
			return c, false, within(f.at("pin"), "candidates", i)
		}
	}
	return c, utility.kind != absent, nil
}

// record parses an input record or a ranking and finds its fields.
func (d *domDecoder) record(topic Topic, value []byte, names []string) ([]*fastjson.Value, *Fault) {
	d.topic, d.slipped = topic, false
	if _, at, flaw := domScan(value); flaw != sound {
		return nil, faultf(MalformedJSON, "at byte %d: %s", at, flaw)
	}
	root, err := d.parser.ParseBytes(value)
	if err != nil {
		// Not to be reached: scan is the stricter of the two, and the fuzz targets hold it to that.
		return nil, faultf(MalformedJSON, "%.200q", err.Error())
	}
	if root.Type() != fastjson.TypeObject {
		return nil, faultf(WrongType, "the record is not an object but: %s", root.Type())
	}
	return d.collect(root, names)
}

// collect finds the named fields of an object, nil where one is absent or null.
func (d *domDecoder) collect(object *fastjson.Value, names []string) ([]*fastjson.Value, *Fault) {
	into := make([]*fastjson.Value, len(names))
	seen, twice, odd := 0, -1, slip{}
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
			if odd.of == nil && near(key, name) {
				odd = slip{key, i, names}
			}
		}
	})
	if odd.of != nil && seen&(1<<odd.name) == 0 {
		d.noted(odd)
	}
	if twice >= 0 {
		return nil, givenTwice(names[twice])
	}
	return into, nil
}

func (d *domDecoder) ranking(dst *Ranking, value []byte) *Fault {
	found, f := d.record(Rankings, value, rankings.names)
	if f == nil {
		f = rankings.fromJSON(&d.Decoder, dst, domValues(found))
	}
	if f == nil {
		f = d.items(dst, found[itemsRow])
	}
	if f != nil {
		return f
	}
	decision := found[decisionRow]
	if decision == nil {
		return faultf(MissingField, "decision is absent")
	}
	if decision.Type() != fastjson.TypeObject {
		return domWrongType(decision, "decision", "an object")
	}
	if found, f = d.collect(decision, decisions.names); f == nil {
		f = decisions.fromJSON(&d.Decoder, &dst.Decision, domValues(found))
	}
	if f != nil {
		f.Detail = "decision: " + f.Detail
		return f
	}
	return d.checkDecision(dst)
}

func (d *domDecoder) items(dst *Ranking, list *fastjson.Value) *Fault {
	elements, f := domArray(list, "items")
	if f != nil {
		return f
	}
	if len(elements) == 0 {
		return faultf(MissingField, "items is absent or empty")
	}
	seen := map[string]bool{}
	for i, e := range elements {
		if e.Type() == fastjson.TypeNull {
			return faultf(MissingItem, "items[%d] is null", i)
		}
		text := domValue(e)
		item, f := text.text("item")
		if f != nil {
			return within(f, "items", i)
		}
		if len(item) == 0 {
			return faultf(MissingItem, "items[%d] is empty", i)
		}
		dst.Items = append(dst.Items, item)
		if seen[string(item)] {
			return faultf(DuplicateItem, "items[%d] %s has occurred before", i, quote(item))
		}
		seen[string(item)] = true
	}
	return nil
}

// domValues converts the values of an object's fields.
func domValues(found []*fastjson.Value) []value {
	all := make([]value, len(found))
	for i, v := range found {
		all[i] = domValue(v)
	}
	return all
}

// domValue converts a value of the tree: nil or null is absent. Lists and objects are written out again. A number is left to the standard
// library, since the tree's own conversion rounds twice where there is an exponent.
func domValue(v *fastjson.Value) value {
	if v == nil {
		return value{}
	}
	kinds := map[fastjson.Type]kind{fastjson.TypeObject: object, fastjson.TypeArray: array, fastjson.TypeString: text, fastjson.TypeNumber: number,
		fastjson.TypeTrue: isTrue, fastjson.TypeFalse: isFalse, fastjson.TypeNull: null}
	one := value{kind: kinds[v.Type()]}
	if one.kind == text {
		one.raw = v.GetStringBytes()
	} else {
		one.raw = domWritten(nil, v)
	}
	return one
}

// domWritten appends a value in JSON. The library's own function quotes as Go does.
func domWritten(dst []byte, v *fastjson.Value) []byte {
	switch v.Type() {
	case fastjson.TypeString:
		return appendText(dst, v.GetStringBytes())
	case fastjson.TypeArray:
		return appendElements(append(dst, '['), v.GetArray(), domWritten)
	case fastjson.TypeObject:
		dst = append(dst, '{')
		first := true
		v.GetObject().Visit(func(key []byte, one *fastjson.Value) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = domWritten(append(appendText(dst, key), ':'), one)
		})
		return append(dst, '}')
	}
	return v.MarshalTo(dst)
}

// domArray reads the elements of an array; none where v is nil.
func domArray(v *fastjson.Value, name string) ([]*fastjson.Value, *Fault) {
	if v == nil {
		return nil, nil
	}
	if v.Type() != fastjson.TypeArray {
		return nil, domWrongType(v, name, "an array")
	}
	return v.GetArray(), nil
}

func domWrongType(v *fastjson.Value, name, want string) *Fault {
	return faultf(WrongType, "%s is not %s but: %s", name, want, v.Type()).at(name)
}
