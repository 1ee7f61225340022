package event

import (
	"math"
	"strconv"
)

func (d *Decoder) impression(dst *Impression, key, b []byte) *Fault {
	p := d.parse(b)
	if !p.stands('{') {
		return p.notObject()
	}
	const candidates = 3 // in impressionFields
	var v [contextSegment + 1]value
	var l listed
	var features, segment *Fault
	m := members{names: d.impressionNames}
	for more := p.enter('}'); more; more = p.next('}') {
		i := m.name(&p)
		switch {
		case i < 0 || p.flaw != sound:
			p.skip()
		case i == candidates && p.stands('[') && v[i].kind == absent:
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
	if f != nil {
		return f
	}
	if dst.ID, f = d.impressionID(&v[0], key); f != nil {
		return f
	}
	if dst.Learner, f = v[1].text("learner"); f != nil {
		return f
	}
	if dst.Time, dst.HasTime, f = v[2].moment("time"); f != nil {
		return f
	}
	if dst.User, f = v[4].text("user"); f != nil {
		return f
	}
	dst.Context.Segment, segment = v[contextSegment].text("segment")
	if fault := firstFault(features, segment); fault != nil {
		dst.Context.Fault = fault
	}
	return d.checkCandidates(dst, &v[candidates], &l)
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
	var v [2]value
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
	dst.Candidates = append(dst.Candidates, c)
	return nil
}

// contextual reads a candidate and its context, whose faults are kept apart.
func (d *Decoder) contextual(dst *Impression, p *parser, m *members, v []value, n int) {
	c := CandidateContext{Predicted: math.NaN()}
	d.unfit = candidateFaults{}
	for more := p.enter('}'); more; more = p.next('}') {
		switch i := m.name(p); {
		case i < 0 || p.flaw != sound:
			p.skip()
		case i >= candidateFeatures:
			d.unfit[i-candidateFeatures] = d.candidateContext(&c, p, i)
		default:
			p.member(&v[i])
		}
	}
	dst.Context.in(firstFault(d.unfit[:]...), n)
	dst.Context.Candidates = append(dst.Context.Candidates, c)
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
