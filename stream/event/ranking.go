package event

import (
	"bytes"
	"strconv"
)

var rankings = tableOf([]field[Ranking]{
	{name: "impression_id", need: MissingImpressionID, text: func(r *Ranking) *[]byte { return &r.ID }},
	{name: "learner", text: func(r *Ranking) *[]byte { return &r.Learner }},
	{name: "time", need: MissingField, time: func(r *Ranking) *Millis { return &r.Time }},
	{name: "items", need: MissingField, own: other},
	{name: "decision", need: MissingField, own: other},
})

// Rows of rankings.
const (
	itemsRow    = 3
	decisionRow = 4
)

var decisions = tableOf([]field[Decision]{
	{name: "group", need: MissingField, empty: true, word: func(r *Decision) *string { return &r.Group }},
	{name: "policy", need: MissingField, empty: true, word: func(r *Decision) *string { return &r.Policy }},
	{name: "delay", need: MissingField, empty: true, word: func(r *Decision) *string { return &r.Delay }},
	{name: "partition", need: MissingField, integer: func(r *Decision) any { return &r.Partition }},
	{name: "offset", need: MissingField, integer: func(r *Decision) any { return &r.Offset }},
	{name: "layout", need: MissingField, integer: func(r *Decision) any { return &r.Layout }},
	{name: "propensities", read: propensities},
	{name: "expected", read: expected},
	{name: "instance", integer: func(r *Decision) any { return &r.Instance }},
	{name: "explored", truth: func(r *Decision) *bool { return &r.Explored }},
	{name: "ranks", read: func(_ *Decoder, r *Decision, v value) (f *Fault) {
		r.Ranks, f = ranks(r.Ranks, &v, "ranks")
		return f
	}},
	{name: "undecided", read: func(_ *Decoder, r *Decision, v value) (f *Fault) {
		r.Undecided, f = ranks(r.Undecided, &v, "undecided")
		return f
	}},
	{name: "decided", read: func(_ *Decoder, r *Decision, v value) (f *Fault) {
		r.Decided, f = ranks(r.Decided, &v, "decided")
		return f
	}},
	{name: "experiment", word: func(r *Decision) *string { return &r.Assignment.Experiment }},
	{name: "run", where: inExperiment, need: MissingField, low: 1, integer: func(r *Decision) any { return &r.Assignment.Run }},
	{name: "arm", where: inExperiment, need: MissingField, word: func(r *Decision) *string { return &r.Assignment.Arm }},
	{name: "arm_probability", where: inExperiment, need: MissingField, read: armProbability},
	{name: "unit", where: inExperiment, read: func(_ *Decoder, r *Decision, v value) *Fault {
		unit, f := v.text("unit")
		r.Assignment.Unit = bytes.Clone(unit)
		return f
	}},
	{name: "fallback", where: inExperiment, truth: func(r *Decision) *bool { return &r.Assignment.Fallback }},
	{name: "covariate", where: inExperiment, read: covariate},
	{name: "verdict", where: inExperiment, read: func(d *Decoder, r *Decision, v value) *Fault {
		if v.kind != object {
			return v.wrongType("verdict", "an object")
		}
		return verdicts.nested(d, &r.Verdict, v.raw)
	}},
	{name: "shadows", read: (*Decoder).shadows},
	{name: "seed", need: MissingField, read: seed},
	{name: "began", need: MissingField, time: func(r *Decision) *Millis { return &r.Began }},
	{name: "selection_deadline", time: func(r *Decision) *Millis { return &r.SelectionDeadline },
		given: func(r *Decision) *bool { return &r.HasSelection }},
	{name: "payoff_deadline", need: MissingField, time: func(r *Decision) *Millis { return &r.PayoffDeadline }},
})

// inExperiment: without the experiment's name its other fields are ignored.
func inExperiment(r *Decision) bool { return len(r.Assignment.Experiment) > 0 }

var verdicts = tableOf([]field[Verdict]{
	{name: "run", need: MissingField, low: 1, integer: func(r *Verdict) any { return &r.Run }},
	{name: "arm", need: MissingField, word: func(r *Verdict) *string { return &r.Arm }},
	{name: "n", need: MissingField, integer: func(r *Verdict) any { return &r.Units }},
	{name: "lower", need: MissingField, number: func(r *Verdict) *float64 { return &r.Lower }},
	{name: "upper", need: MissingField, number: func(r *Verdict) *float64 { return &r.Upper }},
})

// Ranking reads a ranking into dst, whose slices it reuses: Items and their bytes are valid until the next call, strings for good. Limits
// do not apply. All fields that AppendRanking always writes are required, since the update needs them: a ranking by another program without
// them cannot be adopted.
func (d *Decoder) Ranking(dst *Ranking, value []byte) error {
	*dst = Ranking{
		Items: dst.Items[:0],
		Decision: Decision{
			Propensities: dst.Decision.Propensities[:0], Ranks: dst.Decision.Ranks[:0],
			Undecided: dst.Decision.Undecided[:0], Decided: dst.Decision.Decided[:0], Expected: dst.Decision.Expected[:0], Instance: -1,
			Shadows: dst.Decision.Shadows[:0],
		},
	}
	if f := d.ranking(dst, value); f != nil {
		return f
	}
	return nil
}

func (d *Decoder) ranking(dst *Ranking, b []byte) *Fault {
	var v [decisionRow + 1]value
	f := d.record(Rankings, b, rankings.names, v[:])
	if f == nil {
		f = rankings.fromJSON(d, dst, v[:])
	}
	if f == nil {
		f = d.items(dst, &v[itemsRow])
	}
	if f != nil {
		return f
	}
	switch o := &v[decisionRow]; o.kind {
	case object:
		f = decisions.nested(d, &dst.Decision, o.raw)
	case absent:
		return faultf(MissingField, "decision is absent")
	default:
		return o.wrongType("decision", "an object")
	}
	if f != nil {
		f.Detail = "decision: " + f.Detail
		return f
	}
	return d.checkDecision(dst)
}

// checkDecision requires that a decision's lists fit the items.
func (d *Decoder) checkDecision(dst *Ranking) *Fault {
	if n := len(dst.Decision.Propensities); n != 0 && n != len(dst.Items) {
		return faultf(WrongType, "decision: %d propensities for %d items", n, len(dst.Items))
	}
	if n := len(dst.Decision.Expected); n != 0 && n != len(dst.Items) {
		return faultf(WrongType, "decision: %d are expected of %d items", n, len(dst.Items))
	}
	if n := len(dst.Decision.Decided); n > 0 {
		if n != len(dst.Items) {
			return faultf(WrongType, "decision: %d decided for %d items", n, len(dst.Items))
		}
		if f := d.permutes("decided", dst.Decision.Decided, n); f != nil {
			return f
		}
	}
	if f := d.checkShadows(dst); f != nil {
		return f
	}
	return d.checkRanks(dst)
}

func (d *Decoder) items(dst *Ranking, list *value) *Fault {
	f := list.elements("items", func(i int, e value) *Fault {
		if e.kind == null {
			return faultf(MissingItem, "items[%d] is null", i)
		}
		item, f := e.text("item")
		if f != nil {
			return within(f, "items", i)
		}
		if len(item) == 0 {
			return faultf(MissingItem, "items[%d] is empty", i)
		}
		dst.Items = append(dst.Items, item)
		return nil
	})
	again := d.distinct.repeated(len(dst.Items), func(i int) []byte { return dst.Items[i] })
	switch {
	case again >= 0:
		return faultf(DuplicateItem, "items[%d] %s has occurred before", again, quote(dst.Items[again]))
	case f == nil && len(dst.Items) == 0:
		return faultf(MissingField, "items is absent or empty")
	}
	return f
}

// shadows reads positions by learner.
func (d *Decoder) shadows(dst *Decision, o value) *Fault {
	if o.kind != object {
		return o.wrongType("shadows", "an object")
	}
	p := parser{b: o.raw}
	for more := p.enter('}'); more; more = p.next('}') {
		name := p.name()
		s := Shadow{Name: string(name)}
		for i := range dst.Shadows {
			if dst.Shadows[i].Name == s.Name {
				return givenTwice(s.Name)
			}
		}
		list, f := p.value(), (*Fault)(nil)
		if list.kind != array {
			return list.wrongType("shadows", "an object of arrays")
		}
		if s.Order, f = ranks(nil, &list, "shadows"); f != nil {
			return f
		}
		dst.Shadows = append(dst.Shadows, s)
	}
	return nil
}

// truth returns a boolean.
func (v *value) truth(name string) (bool, *Fault) {
	if v.kind != isTrue && v.kind != isFalse {
		return false, v.wrongType(name, "true or false")
	}
	return v.kind == isTrue, nil
}

func ranks(dst []int32, list *value, name string) ([]int32, *Fault) {
	f := list.elements(name, func(i int, e value) *Fault {
		var r int32
		if f := e.integer("rank", 0, &r); f != nil {
			return within(f, name, i)
		}
		dst = append(dst, r)
		return nil
	})
	return dst, f
}

// checkRanks requires that ranks are a permutation of 0..n-1, and that undecided ranks are among them, ascending. The lowest, 0,
// stands alone.
func (d *Decoder) checkRanks(r *Ranking) *Fault {
	ranks, undecided := r.Decision.Ranks, r.Decision.Undecided
	if len(ranks) == 0 && len(undecided) == 0 {
		return nil
	}
	n := len(r.Items)
	if len(ranks) != n {
		return faultf(WrongType, "decision: %d ranks for %d items", len(ranks), n)
	}
	if f := d.permutes("ranks", ranks, n); f != nil {
		return f
	}
	last := int32(0)
	if len(undecided) == 1 && n > 1 {
		last = -1
	}
	for i, rank := range undecided {
		if int(rank) >= n || rank <= last {
			return faultf(WrongType, "decision: undecided[%d] is %d, which is not between %d and %d", i, rank, last, n)
		}
		last = rank
	}
	return nil
}

// permutes requires a permutation of 0..n-1.
func (d *Decoder) permutes(name string, numbers []int32, n int) *Fault {
	d.seen = append(d.seen[:0], make([]bool, n)...)
	for i, x := range numbers {
		if int(x) >= n || d.seen[x] {
			return faultf(WrongType, "decision: %s[%d] is %d, which is not below %d or has occurred before", name, i, x, n)
		}
		d.seen[x] = true
	}
	return nil
}

func (d *Decoder) checkShadows(r *Ranking) *Fault {
	for i := range r.Decision.Shadows {
		s := &r.Decision.Shadows[i]
		if len(s.Order) != len(r.Items) {
			return faultf(WrongType, "decision: shadow %s has %d positions for %d items", quote([]byte(s.Name)), len(s.Order), len(r.Items))
		}
		if f := d.permutes("shadows", s.Order, len(r.Items)); f != nil {
			return f
		}
	}
	return nil
}

func propensities(_ *Decoder, dst *Decision, list value) *Fault {
	return list.elements("propensities", func(i int, e value) *Fault {
		p, f := e.float("probability")
		if f != nil {
			return within(f, "propensities", i)
		}
		dst.Propensities = append(dst.Propensities, p)
		return nil
	})
}

// expected reads numbers of at most six decimals.
func expected(_ *Decoder, dst *Decision, list value) *Fault {
	return list.elements("expected", func(i int, e value) *Fault {
		x, f := e.float("number")
		if f != nil {
			return within(f, "expected", i)
		}
		rounded := FromMillionths(Millionths(x)) // it has no -0
		if x != rounded {
			return faultf(WrongType, "expected[%d] is %s, not a number from %d to %d of at most six decimals", i, quote(e.raw),
				-MaxExpected, MaxExpected)
		}
		dst.Expected = append(dst.Expected, rounded)
		return nil
	})
}

// covariate reads a number from 0 to 1 of at most six decimals.
func covariate(_ *Decoder, dst *Decision, v value) *Fault {
	x, f := v.float("covariate")
	n := Millionths(x)
	if f == nil && (x < 0 || x > 1 || x != FromMillionths(n)) {
		return faultf(WrongType, "covariate is %s, not a number from 0 to 1 of at most six decimals", quote(v.raw))
	}
	dst.Assignment.Covariate = int32(n)
	return f
}

func armProbability(_ *Decoder, dst *Decision, v value) *Fault {
	p, f := v.float("arm_probability")
	if f == nil && !(p > 0 && p <= 1) {
		return faultf(WrongType, "arm_probability is %s, not within (0, 1]", quote(v.raw))
	}
	dst.Assignment.Probability = p
	return f
}

// word reads and interns a string: a log of rankings repeats the same few.
func (d *Decoder) word(v *value, name string) (string, *Fault) {
	b, f := v.text(name)
	if f != nil {
		return "", f
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

// seed reads a key of random numbers, 16 hexadecimal digits.
func seed(_ *Decoder, dst *Decision, v value) *Fault {
	b, f := v.text("seed")
	if f != nil {
		return f
	}
	key, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil || len(b) != 16 {
		return faultf(WrongType, "seed is %s, not 16 hexadecimal digits", quote(b))
	}
	dst.Seed = key
	return nil
}
