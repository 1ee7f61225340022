package event

import (
	"bytes"
	"math"
	"strconv"

	"github.com/valyala/fastjson"
)

// domDecoder is a slow second decoder. It checks the syntax of the whole value, has a JSON library build a tree, and
// reads that. It shares only the texts of faults with the Decoder. For any bytes, both must read the same record or
// report the same fault.
type domDecoder struct {
	Decoder
	parser fastjson.Parser
	number []byte
}

func (d *domDecoder) impression(dst *Impression, key, value []byte) *Fault {
	var v [7]*fastjson.Value
	f := d.record(Impressions, value, d.impressionNames, v[:], "candidates")
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(v[0], key); f != nil {
		return f
	}
	if dst.Learner, f = domText(v[1], "learner"); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = domMoment(v[2], "time"); f != nil {
		return f
	}
	if dst.User, f = domText(v[4], "user"); f != nil {
		return f
	}
	c := &dst.Context
	c.Features, c.Fault = d.domFeatures(v[5])
	segment, f := domText(v[6], "segment")
	if c.Segment = segment; c.Fault == nil {
		c.Fault = f
	}
	if f = d.candidates(dst, v[3]); f == nil {
		d.filler.Fill(dst)
	}
	return f
}

// domFeatures reads a list of numbers, of which any may be null.
func (d *domDecoder) domFeatures(v *fastjson.Value) (list []float64, f *Fault) {
	elements, f := domArray(v, "features")
	if len(elements) > MaxFeatures {
		return nil, tooManyFeatures()
	}
	for i, e := range elements {
		if e.Type() == fastjson.TypeNull {
			list = append(list, math.NaN())
			continue
		}
		x, bad := d.float(e, "number")
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
	if !d.readsContext() {
		return
	}
	c, f := CandidateContext{Predicted: math.NaN()}, [3]*Fault{}
	c.Features, f[0] = d.domFeatures(v[0])
	if v[1] != nil {
		c.Predicted, f[1] = d.float(v[1], "predicted")
	}
	c.Category, f[2] = domText(v[2], "category")
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
	var v [5]*fastjson.Value
	if f = d.collect(e, d.candidateNames, v[:]); f != nil {
		return c, false, within(f, "candidates", i)
	}
	d.context(&dst.Context, v[2:], i)
	if c.Item, f = domRequiredItem(v[0]); f != nil {
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

func (d *domDecoder) selection(dst *Selection, key, value []byte) *Fault {
	var v [5]*fastjson.Value
	f := d.record(Selections, value, selectionFields, v[:], "")
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(v[0], key); f != nil {
		return f
	}
	if dst.Item, f = domRequiredItem(v[1]); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = domMoment(v[2], "time"); f != nil {
		return f
	}
	if v[3] != nil {
		dst.HasUtility = true
		if dst.Utility, f = d.float(v[3], "utility"); f != nil {
			return f
		}
	}
	shown, f := domText(v[4], "shown")
	if f == nil {
		dst.ByUtility, f = byUtility(shown)
	}
	return f
}

func (d *domDecoder) payoff(dst *Payoff, key, value []byte) *Fault {
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
	if dst.Time, dst.HasTime, f = domMoment(v[2], "time"); f != nil {
		return f
	}
	if dst.Item, f = domText(v[3], "item"); f != nil {
		return f
	}
	dst.EventID, f = domText(v[4], "event_id")
	return f
}

// record parses an input record and collects its fields. List is the one that holds candidates, if any.
func (d *domDecoder) record(topic Topic, value []byte, names []string, into []*fastjson.Value, list string) *Fault {
	values, f := domSane(value)
	if f != nil {
		return f
	}
	d.topic, d.slipped = topic, false
	return d.object(value, values, names, into)
}

// domSane counts the values of a record, which must be one JSON document.
func domSane(value []byte) (int, *Fault) {
	values, at, flaw := domScan(value)
	if flaw != sound {
		return 0, faultf(MalformedJSON, "at byte %d: %s", at, flaw)
	}
	return values, nil
}

// object parses value, which must be one JSON object with the given number of values, and collects its fields.
func (d *domDecoder) object(value []byte, values int, names []string, into []*fastjson.Value) *Fault {
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
func (d *domDecoder) collect(object *fastjson.Value, names []string, into []*fastjson.Value) *Fault {
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
		return givenTwice(names[twice])
	}
	return nil
}

// impressionID reads the impression id, which the key must repeat, where there is one.
func (d *domDecoder) impressionID(v *fastjson.Value, key []byte) ([]byte, *Fault) {
	id, f := domText(v, "impression_id")
	if f == nil {
		f = d.sameKey(id, key)
	}
	return id, f
}

// domRequiredItem reads the field "item" where there must be one.
func domRequiredItem(v *fastjson.Value) ([]byte, *Fault) {
	item, f := domText(v, "item")
	if f == nil && len(item) == 0 {
		return nil, missingItem()
	}
	return item, f
}

// Ranking reads a ranking into dst, whose slices it reuses: Items and their bytes are valid until the next call, the
// strings for good. The limits do not apply. Everything that AppendRanking always writes is required, because the
// update needs it: a ranking that another program wrote without it cannot be adopted.
func (d *domDecoder) Ranking(dst *Ranking, value []byte) error {
	*dst = Ranking{
		Items: dst.Items[:0],
		Decision: Decision{
			Propensities: dst.Decision.Propensities[:0], Ranks: dst.Decision.Ranks[:0],
			Undecided: dst.Decision.Undecided[:0], Expected: dst.Decision.Expected[:0], Instance: -1,
			Shadows: dst.Decision.Shadows[:0],
		},
	}
	if f := d.ranking(dst, value); f != nil {
		return f
	}
	return nil
}

func (d *domDecoder) ranking(dst *Ranking, value []byte) *Fault {
	var v [5]*fastjson.Value
	d.topic, d.slipped = Rankings, false
	values, f := domSane(value)
	if f == nil {
		f = d.object(value, values, rankingFields, v[:])
	}
	if f != nil {
		return f
	}
	if dst.ID, f = domText(v[0], "impression_id"); f != nil {
		return f
	}
	if len(dst.ID) == 0 {
		return faultf(MissingImpressionID, "impression_id is absent or empty")
	}
	if dst.Learner, f = domText(v[1], "learner"); f != nil {
		return f
	}
	if dst.Time, f = domRequiredMoment(v[2], "time"); f != nil {
		return f
	}
	if f = d.items(dst, v[3]); f != nil {
		return f
	}
	if v[4] == nil {
		return faultf(MissingField, "decision is absent")
	}
	if v[4].Type() != fastjson.TypeObject {
		return domWrongType(v[4], "decision", "an object")
	}
	if f = d.decision(&dst.Decision, v[4]); f != nil {
		f.Detail = "decision: " + f.Detail
		return f
	}
	if n := len(dst.Decision.Propensities); n != 0 && n != len(dst.Items) {
		return faultf(WrongType, "decision: %d propensities for %d items", n, len(dst.Items))
	}
	if n := len(dst.Decision.Expected); n != 0 && n != len(dst.Items) {
		return faultf(WrongType, "decision: %d are expected of %d items", n, len(dst.Items))
	}
	if f = d.checkShadows(dst); f != nil {
		return f
	}
	return d.checkRanks(dst)
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
		item, f := domText(e, "item")
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

func (d *domDecoder) decision(dst *Decision, object *fastjson.Value) *Fault {
	var v [24]*fastjson.Value
	f := d.collect(object, decisionFields, v[:])
	if f != nil {
		return f
	}
	for i, word := range []*string{&dst.Group, &dst.Policy, &dst.Delay} {
		if *word, f = d.word(v[i], decisionFields[i]); f != nil {
			return f
		}
	}
	var partition, layout int64
	if partition, f = d.integer(v[3], "partition", 0, 1<<31-1); f != nil {
		return f
	}
	if dst.Offset, f = d.integer(v[4], "offset", 0, 1<<63-1); f != nil {
		return f
	}
	if layout, f = d.integer(v[5], "layout", 0, 1<<31-1); f != nil {
		return f
	}
	dst.Partition, dst.Layout = int32(partition), int(layout)
	if f = d.propensities(dst, v[6]); f != nil {
		return f
	}
	if f = d.expected(dst, v[15]); f != nil {
		return f
	}
	if v[7] != nil {
		instance, f := d.integer(v[7], "instance", 0, 1<<31-1)
		if f != nil {
			return f
		}
		dst.Instance = int32(instance)
	}
	if v[8] != nil {
		if t := v[8].Type(); t != fastjson.TypeTrue && t != fastjson.TypeFalse {
			return domWrongType(v[8], "explored", "true or false")
		}
		dst.Explored = v[8].Type() == fastjson.TypeTrue
	}
	if dst.Seed, f = domSeed(v[9]); f != nil {
		return f
	}
	if dst.SelectionDeadline, dst.HasSelection, f = domMoment(v[10], "selection_deadline"); f != nil {
		return f
	}
	if dst.PayoffDeadline, f = domRequiredMoment(v[11], "payoff_deadline"); f != nil {
		return f
	}
	if dst.Ranks, f = d.ranks(dst.Ranks, v[12], "ranks"); f != nil {
		return f
	}
	if dst.Began, f = domRequiredMoment(v[14], "began"); f != nil {
		return f
	}
	if dst.Undecided, f = d.ranks(dst.Undecided, v[13], "undecided"); f != nil {
		return f
	}
	if f = d.assignment(dst, v[16:23]); f != nil {
		return f
	}
	return d.shadows(dst, v[23])
}

func (d *domDecoder) assignment(dst *Decision, v []*fastjson.Value) *Fault {
	a := &dst.Assignment
	name := func(i int, what string, must bool) (s string, f *Fault) {
		if v[i] != nil {
			s, f = d.word(v[i], what)
		}
		if f == nil && must && s == "" {
			f = faultf(MissingField, "%s is absent or empty", what)
		}
		return s, f
	}
	var f *Fault
	var run int64
	if a.Experiment, f = name(0, "experiment", false); f != nil || a.Experiment == "" {
		return f
	}
	if run, f = d.integer(v[1], "run", 1, 1<<31-1); f != nil {
		return f
	}
	a.Run = int32(run)
	if a.Arm, f = name(2, "arm", true); f != nil {
		return f
	}
	if a.Probability, f = d.float(v[3], "arm_probability"); f != nil {
		return f
	}
	if a.Probability <= 0 || a.Probability > 1 {
		return faultf(WrongType, "arm_probability is %s, not within (0, 1]", quote(d.number))
	}
	if a.Unit, f = domText(v[4], "unit"); f != nil {
		return f
	}
	a.Unit = bytes.Clone(a.Unit)
	if v[5] != nil {
		if t := v[5].Type(); t != fastjson.TypeTrue && t != fastjson.TypeFalse {
			return domWrongType(v[5], "fallback", "true or false")
		}
		a.Fallback = v[5].Type() == fastjson.TypeTrue
	}
	return d.verdict(&dst.Verdict, v[6])
}

func (d *domDecoder) verdict(dst *Verdict, o *fastjson.Value) *Fault {
	if o == nil {
		return nil
	}
	if o.Type() != fastjson.TypeObject {
		return domWrongType(o, "verdict", "an object")
	}
	var v [5]*fastjson.Value
	f := d.collect(o, verdictFields, v[:])
	if f != nil {
		return f
	}
	var run int64
	if run, f = d.integer(v[0], "run", 1, 1<<31-1); f != nil {
		return f
	}
	dst.Run = int32(run)
	if v[1] != nil {
		if dst.Arm, f = d.word(v[1], "arm"); f != nil {
			return f
		}
	}
	if dst.Arm == "" {
		return faultf(MissingField, "arm is absent or empty")
	}
	if dst.Units, f = d.integer(v[2], "n", 0, 1<<63-1); f != nil {
		return f
	}
	if dst.Lower, f = d.float(v[3], "lower"); f != nil {
		return f
	}
	dst.Upper, f = d.float(v[4], "upper")
	return f
}

func (d *domDecoder) shadows(dst *Decision, o *fastjson.Value) (f *Fault) {
	if o == nil {
		return nil
	}
	if o.Type() != fastjson.TypeObject {
		return domWrongType(o, "shadows", "an object")
	}
	seen := map[string]bool{}
	o.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		name := string(key)
		switch {
		case f != nil:
			return
		case seen[name]:
			f = givenTwice(name)
			return
		case v.Type() != fastjson.TypeArray:
			f = domWrongType(v, "shadows", "an object of arrays")
			return
		}
		seen[name] = true
		s := Shadow{Name: name}
		if s.Order, f = d.ranks(nil, v, "shadows"); f == nil {
			dst.Shadows = append(dst.Shadows, s)
		}
	})
	return f
}

func (d *domDecoder) ranks(dst []int32, list *fastjson.Value, name string) ([]int32, *Fault) {
	elements, f := domArray(list, name)
	if f != nil {
		return dst, f
	}
	for i, e := range elements {
		r, f := d.integer(e, "rank", 0, 1<<31-1)
		if f != nil {
			return dst, within(f, name, i)
		}
		dst = append(dst, int32(r))
	}
	return dst, nil
}

func (d *domDecoder) propensities(dst *Decision, list *fastjson.Value) *Fault {
	elements, f := domArray(list, "propensities")
	if f != nil {
		return f
	}
	for i, e := range elements {
		p, f := d.float(e, "probability")
		if f != nil {
			return within(f, "propensities", i)
		}
		dst.Propensities = append(dst.Propensities, p)
	}
	return nil
}

// expected reads numbers of at most six decimals.
func (d *domDecoder) expected(dst *Decision, list *fastjson.Value) *Fault {
	elements, f := domArray(list, "expected")
	if f != nil {
		return f
	}
	for i, e := range elements {
		x, f := d.float(e, "number")
		if f != nil {
			return within(f, "expected", i)
		}
		rounded := FromMillionths(Millionths(x)) // it has no -0
		if x != rounded {
			return faultf(WrongType, "expected[%d] is %s, not a number from %d to %d of at most six decimals", i, quote(d.number),
				-MaxExpected, MaxExpected)
		}
		dst.Expected = append(dst.Expected, rounded)
	}
	return nil
}

// word reads a required string and interns it: a log of rankings repeats the same few.
func (d *domDecoder) word(v *fastjson.Value, name string) (string, *Fault) {
	b, f := domText(v, name)
	if f != nil {
		return "", f
	}
	if v == nil {
		return "", faultf(MissingField, "%s is absent", name)
	}
	if s, ok := d.words[string(b)]; ok {
		return s, nil
	}
	const most = 256
	if len(d.words) == most {
		clear(d.words)
	}
	s := string(b)
	d.words[s] = s
	return s, nil
}

// integer reads a required number that is written as an integer, from low to high.
func (d *domDecoder) integer(v *fastjson.Value, name string, low, high int64) (int64, *Fault) {
	if v == nil {
		return 0, faultf(MissingField, "%s is absent", name)
	}
	if v.Type() != fastjson.TypeNumber {
		return 0, domWrongType(v, name, "a number")
	}
	d.number = v.MarshalTo(d.number[:0])
	n, err := strconv.ParseInt(string(d.number), 10, 64)
	if err != nil || n < low || n > high {
		return 0, faultf(WrongType, "%s is %s, not an integer from %d to %d", name, quote(d.number), low, high)
	}
	return n, nil
}

// domSeed reads the 16 hexadecimal digits of a key of random numbers.
func domSeed(v *fastjson.Value) (s uint64, f *Fault) {
	b, f := domText(v, "seed")
	if f != nil {
		return 0, f
	}
	if v == nil {
		return 0, faultf(MissingField, "seed is absent")
	}
	for _, c := range b {
		digit, ok := hexDigit(c)
		s = s<<4 | uint64(digit)
		if !ok {
			return 0, faultf(WrongType, "seed is %s, not 16 hexadecimal digits", quote(b))
		}
	}
	if len(b) != 16 {
		return 0, faultf(WrongType, "seed is %s, not 16 hexadecimal digits", quote(b))
	}
	return s, nil
}

// domRequiredMoment reads a time that must be there.
func domRequiredMoment(v *fastjson.Value, name string) (Millis, *Fault) {
	t, ok, f := domMoment(v, name)
	if f == nil && !ok {
		return 0, faultf(MissingField, "%s is absent", name)
	}
	return t, f
}

// domText reads a string of at most MaxIDBytes; nil where v is.
func domText(v *fastjson.Value, name string) ([]byte, *Fault) {
	b, f := domLongText(v, name)
	if f == nil && len(b) > MaxIDBytes {
		return nil, faultf(IDTooLong, "%s has %d bytes, at most %d are allowed", name, len(b), MaxIDBytes).at(name)
	}
	return b, f
}

// domLongText reads a string; nil where v is.
func domLongText(v *fastjson.Value, name string) ([]byte, *Fault) {
	if v == nil {
		return nil, nil
	}
	if v.Type() != fastjson.TypeString {
		return nil, domWrongType(v, name, "a string")
	}
	return v.GetStringBytes(), nil
}

// domMoment reads a time; ok is false where v is nil.
func domMoment(v *fastjson.Value, name string) (t Millis, ok bool, f *Fault) {
	b, f := domLongText(v, name)
	if f != nil || v == nil {
		return 0, false, f
	}
	if t, ok = ParseTime(b); !ok {
		return 0, false, faultf(InvalidTime, "%s is %s, not a time as in 2026-11-21T10:00:00.000Z", name, quote(b)).at(name)
	}
	return t, true, nil
}

// float reads a number exactly: to the nearest float64. The library's own conversion rounds twice where there is an
// exponent.
func (d *domDecoder) float(v *fastjson.Value, name string) (float64, *Fault) {
	if v.Type() != fastjson.TypeNumber {
		return 0, domWrongType(v, name, "a number")
	}
	d.number = v.MarshalTo(d.number[:0])
	x, err := strconv.ParseFloat(string(d.number), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, faultf(NotFinite, "%s is %s, beyond the range of a float64", name, quote(d.number)).at(name)
	}
	return x, nil
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
