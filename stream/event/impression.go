package event

import (
	"math"
	"strconv"
)

type Candidate struct {
	Item    []byte
	Utility float64 // 0 if the impression has no utilities
	Pin     int32   // the place that it is to be shown at, from 1; 0: any
}

// Impression requests one ranking. Excluded items are not among its candidates. A decoded record's byte slices alias the decoder's memory and are valid until its next call.
type Impression struct {
	ID           []byte
	Learner      []byte // empty: the default learner
	Time         Millis
	HasTime      bool
	Candidates   []Candidate
	HasUtilities bool
	// Filled holds the positions, ascending, of candidates that were sent without a utility if others have one. Their Utility is the median
	// of the others'.
	Filled  []int32
	User    []byte // for experiments by user; empty: none
	Context Context
}

var impressions = tableOf([]field[Impression]{
	{name: "impression_id", need: MissingImpressionID, text: func(r *Impression) *[]byte { return &r.ID }},
	{name: "learner", text: func(r *Impression) *[]byte { return &r.Learner }},
	{name: "time", time: func(r *Impression) *Millis { return &r.Time }, given: func(r *Impression) *bool { return &r.HasTime }},
	{name: "candidates", need: NoCandidates, own: Candidates, merge: (*Decoder).protoCandidate},
	{name: "user", text: func(r *Impression) *[]byte { return &r.User }},
	{name: "exclude", own: Texts, read: exclusions, merge: protoExclusion},
	{name: "features", own: Features, merge: (*Decoder).protoUserFeatures},
	{name: "segment", text: func(r *Impression) *[]byte { return &r.Context.Segment }, merge: (*Decoder).protoSegment},
})

// candidates are read and written by code of their own, since a record has many, and faults of contexts are kept apart. So only the parts
// of a context have places.
var candidates = tableOf([]field[CandidateContext]{
	{name: "item", need: MissingItem},
	{name: "utility", own: Number},
	{name: "pin", own: Place},
	{name: "features", own: Features},
	{name: "predicted", number: func(r *CandidateContext) *float64 { return &r.Predicted }},
	{name: "category", text: func(r *CandidateContext) *[]byte { return &r.Category }},
})

// Rows of impressions and of candidates. All from the first of a context on belong to contexts.
const (
	candidatesRow      = 3
	excludeRow         = 5
	contextFeatures    = 6
	contextSegment     = 7
	candidatePin       = 2
	candidateFeatures  = 3
	candidatePredicted = 4
	candidateCategory  = 5
)

// Impression reads an impression into dst, whose Candidates it reuses.
func (d *Decoder) Impression(dst *Impression, key, value []byte) error {
	return d.ImpressionIn(dst, key, Content{Form: d.formats.Of(Impressions, value), Value: value})
}

// ImpressionIn reads an impression of known form.
func (d *Decoder) ImpressionIn(dst *Impression, key []byte, c Content) error {
	*dst = Impression{Candidates: dst.Candidates[:0], Filled: dst.Filled[:0], Context: Context{Candidates: dst.Context.Candidates[:0]}}
	d.numbers, d.excluded = d.numbers[:0], d.excluded[:0]
	value, f := d.body(c)
	switch {
	case f != nil:
	case c.Form == JSON:
		f = d.impression(dst, key, value)
	default:
		f = c.fault(d.protoImpression(dst, key, value))
	}
	if f == nil {
		f = d.admit(dst)
	}
	if f != nil {
		return f
	}
	d.filler.Fill(dst)
	return nil
}

func (d *Decoder) impression(dst *Impression, key, b []byte) *Fault {
	p := d.parse(b)
	if !p.stands('{') {
		return p.notObject()
	}
	var v [contextSegment + 1]value
	var l listed
	var features *Fault
	m := members{names: d.impressionNames}
	for more := p.enter('}'); more; more = p.next('}') {
		i := m.name(&p)
		switch {
		case i < 0 || p.flaw != sound:
			p.skip()
		case i == candidatesRow && p.stands('[') && v[i].kind == absent:
			v[i].kind = array
			d.candidates(dst, &p, &l)
		case i == contextFeatures:
			dst.Context.Features, features = d.features(&p)
		default:
			p.member(&v[i])
		}
	}
	p.end()
	if p.flaw != sound {
		return p.malformed()
	}
	d.topic, d.slipped = Impressions, false
	f := d.checked(&m)
	if f == nil {
		f = impressions.fromJSON(d, dst, v[:contextFeatures])
	}
	if f == nil {
		f = d.sameKey(dst.ID, key)
	}
	if f != nil {
		return f
	}
	if f = impressions.rows[contextSegment].fromJSON(d, dst, &v[contextSegment]); features != nil {
		f = features
	}
	if f != nil {
		dst.Context.Fault = f
	}
	return d.checkCandidates(dst, &v[candidatesRow], &l)
}

// listed collects faults in a list of candidates. They are reported last: invalid JSON behind the list, or a fault of a field, comes first.
type listed struct {
	n     int    // candidates; those before the first faulty one have been read
	fault *Fault // of that one
	odd   slip   // the first misspelt field of these
	oddAt int    // its candidate
}

func (d *Decoder) candidates(dst *Impression, p *parser, l *listed) {
	most := d.limits.MaxCandidates
	for more := p.enter(']'); more; more = p.next(']') {
		if l.fault != nil || most > 0 && l.n >= most {
			p.skip()
		} else {
			l.fault = d.candidate(dst, p, l)
		}
		l.n++
	}
}

func (d *Decoder) candidate(dst *Impression, p *parser, l *listed) *Fault {
	if !p.stands('{') {
		v := p.value()
		return faultf(WrongType, "candidates[%d] is not an object but: %s", l.n, v.kind).at(strconv.Itoa(l.n)).at("candidates")
	}
	var v [candidateFeatures]value
	m := members{names: d.candidateNames}
	if d.readsContext() {
		d.contextual(dst, p, &m, v[:], l.n)
	} else {
		m.read(p, v[:])
	}
	if l.odd.of == nil && m.slipped() {
		l.odd, l.oddAt = m.odd, l.n
	}
	if m.twice != "" {
		return within(givenTwice(m.twice), "candidates", l.n)
	}
	var c Candidate
	var f *Fault
	if c.Item, f = v[0].item(); f != nil {
		return within(f, "candidates", l.n)
	}
	if v[1].kind == absent {
		dst.Filled = append(dst.Filled, int32(l.n))
	} else if c.Utility, f = v[1].float("utility"); f != nil {
		return within(f, "candidates", l.n)
	}
	if p := &v[candidatePin]; p.kind != absent {
		if f = p.integer("pin", 1, &c.Pin); f != nil {
			f.Pointer = ""
			return within(f.at("pin"), "candidates", l.n)
		}
	}
	dst.Candidates = append(dst.Candidates, c)
	return nil
}

// contextual reads a candidate and its context, whose faults are kept apart.
func (d *Decoder) contextual(dst *Impression, p *parser, m *members, v []value, n int) {
	dst.Context.Candidates = append(dst.Context.Candidates, CandidateContext{Predicted: math.NaN()})
	c := &dst.Context.Candidates[n]
	var all [candidateCategory + 1]value
	var fault *Fault
	for more := p.enter('}'); more; more = p.next('}') {
		switch i := m.name(p); {
		case i < 0 || p.flaw != sound:
			p.skip()
		case i == candidateFeatures:
			c.Features, fault = d.features(p)
		default:
			p.member(&all[i])
		}
	}
	copy(v, all[:])
	for i := candidateFeatures + 1; i < len(all); i++ {
		if f := candidates.rows[i].fromJSON(d, c, &all[i]); fault == nil {
			fault = f
		}
	}
	dst.Context.in(fault, n)
}

func (d *Decoder) checkCandidates(dst *Impression, v *value, l *listed) *Fault {
	most := d.limits.MaxCandidates
	switch {
	case v.kind != absent && v.kind != array:
		return v.wrongType("candidates", "an array")
	case l.n == 0:
		return faultf(NoCandidates, "candidates is absent or empty").at("candidates")
	case most > 0 && l.n > most:
		return tooManyCandidates(l.n, most)
	}
	again := d.repeats(dst)
	if l.odd.of != nil && (again < 0 || l.oddAt <= again) {
		d.noted(l.odd)
	}
	if again >= 0 {
		return sameItem(again, dst.Candidates[again].Item)
	}
	return l.fault
}

// repeats returns the index of the first candidate that repeats an item, or -1.
func (d *Decoder) repeats(r *Impression) int {
	return d.distinct.repeated(len(r.Candidates), func(i int) []byte { return r.Candidates[i].Item })
}
