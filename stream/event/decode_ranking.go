package event

import "bytes"

var (
	rankingFields  = []string{"impression_id", "learner", "time", "items", "decision"}
	decisionFields = []string{
		"group", "policy", "delay", "partition", "offset", "layout", "propensities", "instance", "explored", "seed",
		"selection_deadline", "payoff_deadline", "ranks", "undecided", "began", "expected",
		"experiment", "run", "arm", "arm_probability", "unit", "fallback", "verdict", "shadows",
	}
	verdictFields = []string{"run", "arm", "n", "lower", "upper"}
)

// Ranking reads a ranking into dst, whose slices it reuses: Items and their bytes are valid until the next call, strings for good. Limits
// do not apply. All fields that AppendRanking always writes are required, since the update needs them: a ranking by another program without
// them cannot be adopted.
func (d *Decoder) Ranking(dst *Ranking, value []byte) error {
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

func (d *Decoder) ranking(dst *Ranking, b []byte) *Fault {
	var v [5]value
	f := d.record(Rankings, b, rankingFields, v[:])
	if f != nil {
		return f
	}
	if dst.ID, f = v[0].text("impression_id"); f != nil {
		return f
	}
	if len(dst.ID) == 0 {
		return faultf(MissingImpressionID, "impression_id is absent or empty")
	}
	if dst.Learner, f = v[1].text("learner"); f != nil {
		return f
	}
	if dst.Time, f = v[2].requiredMoment("time"); f != nil {
		return f
	}
	if f = d.items(dst, &v[3]); f != nil {
		return f
	}
	if v[4].kind == absent {
		return faultf(MissingField, "decision is absent")
	}
	if v[4].kind != object {
		return v[4].wrongType("decision", "an object")
	}
	if f = d.decision(&dst.Decision, &v[4]); f != nil {
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

func (d *Decoder) decision(dst *Decision, o *value) *Fault {
	var v [24]value
	p, m := parser{b: o.raw}, members{names: decisionFields}
	m.read(&p, v[:])
	f := d.checked(&m)
	if f != nil {
		return f
	}
	for i, word := range []*string{&dst.Group, &dst.Policy, &dst.Delay} {
		if *word, f = d.word(&v[i], decisionFields[i]); f != nil {
			return f
		}
	}
	var partition, layout int64
	if partition, f = v[3].integer("partition", 0, 1<<31-1); f != nil {
		return f
	}
	if dst.Offset, f = v[4].integer("offset", 0, 1<<63-1); f != nil {
		return f
	}
	if layout, f = v[5].integer("layout", 0, 1<<31-1); f != nil {
		return f
	}
	dst.Partition, dst.Layout = int32(partition), int(layout)
	if f = propensities(dst, &v[6]); f != nil {
		return f
	}
	if f = expected(dst, &v[15]); f != nil {
		return f
	}
	if v[7].kind != absent {
		instance, f := v[7].integer("instance", 0, 1<<31-1)
		if f != nil {
			return f
		}
		dst.Instance = int32(instance)
	}
	if dst.Explored, f = v[8].truth("explored"); f != nil {
		return f
	}
	if dst.Seed, f = v[9].seed(); f != nil {
		return f
	}
	if dst.SelectionDeadline, dst.HasSelection, f = v[10].moment("selection_deadline"); f != nil {
		return f
	}
	if dst.PayoffDeadline, f = v[11].requiredMoment("payoff_deadline"); f != nil {
		return f
	}
	if dst.Ranks, f = ranks(dst.Ranks, &v[12], "ranks"); f != nil {
		return f
	}
	if dst.Began, f = v[14].requiredMoment("began"); f != nil {
		return f
	}
	if dst.Undecided, f = ranks(dst.Undecided, &v[13], "undecided"); f != nil {
		return f
	}
	if f = d.assignment(dst, v[16:23]); f != nil {
		return f
	}
	return d.shadows(dst, &v[23])
}

// assignment reads a decision's experiment. Without its name the other fields are ignored.
func (d *Decoder) assignment(dst *Decision, v []value) *Fault {
	a := &dst.Assignment
	var f *Fault
	if a.Experiment, f = d.named(&v[0], "experiment"); f != nil || len(a.Experiment) == 0 {
		return f
	}
	run, f := v[1].integer("run", 1, 1<<31-1)
	if f != nil {
		return f
	}
	a.Run = int32(run)
	if a.Arm, f = d.required(&v[2], "arm"); f != nil {
		return f
	}
	if a.Probability, f = v[3].float("arm_probability"); f != nil {
		return f
	}
	if !(a.Probability > 0 && a.Probability <= 1) {
		return faultf(WrongType, "arm_probability is %s, not within (0, 1]", quote(v[3].raw))
	}
	unit, f := v[4].text("unit")
	if f != nil {
		return f
	}
	a.Unit = bytes.Clone(unit)
	if a.Fallback, f = v[5].truth("fallback"); f != nil {
		return f
	}
	return d.verdict(&dst.Verdict, &v[6])
}

func (d *Decoder) verdict(dst *Verdict, o *value) *Fault {
	if o.kind == absent {
		return nil
	}
	if o.kind != object {
		return o.wrongType("verdict", "an object")
	}
	var v [5]value
	p, m := parser{b: o.raw}, members{names: verdictFields}
	m.read(&p, v[:])
	f := d.checked(&m)
	if f != nil {
		return f
	}
	run, f := v[0].integer("run", 1, 1<<31-1)
	if f != nil {
		return f
	}
	dst.Run = int32(run)
	if dst.Arm, f = d.required(&v[1], "arm"); f != nil {
		return f
	}
	if dst.Units, f = v[2].integer("n", 0, 1<<63-1); f != nil {
		return f
	}
	if dst.Lower, f = v[3].float("lower"); f != nil {
		return f
	}
	dst.Upper, f = v[4].float("upper")
	return f
}

// shadows reads positions by learner.
func (d *Decoder) shadows(dst *Decision, o *value) *Fault {
	switch o.kind {
	case absent:
		return nil
	case object:
	default:
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

// truth returns a boolean; false if absent.
func (v *value) truth(name string) (bool, *Fault) {
	if v.kind != absent && v.kind != isTrue && v.kind != isFalse {
		return false, v.wrongType(name, "true or false")
	}
	return v.kind == isTrue, nil
}

// required reads and interns a text that is present and not empty.
func (d *Decoder) required(v *value, name string) (string, *Fault) {
	s, f := d.named(v, name)
	if f == nil && len(s) == 0 {
		return "", faultf(MissingField, "%s is absent or empty", name)
	}
	return s, f
}

// named reads and interns a text; empty if absent.
func (d *Decoder) named(v *value, name string) (string, *Fault) {
	if v.kind == absent {
		return "", nil
	}
	return d.word(v, name)
}

func ranks(dst []int32, list *value, name string) ([]int32, *Fault) {
	f := list.elements(name, func(i int, e value) *Fault {
		r, f := e.integer("rank", 0, 1<<31-1)
		if f != nil {
			return within(f, name, i)
		}
		dst = append(dst, int32(r))
		return nil
	})
	return dst, f
}

// checkRanks requires that ranks are a permutation of 0..n-1, and that undecided ranks are among them, ascending, without the lowest.
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

func propensities(dst *Decision, list *value) *Fault {
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
func expected(dst *Decision, list *value) *Fault {
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

// word reads and interns a required string: a log of rankings repeats the same few.
func (d *Decoder) word(v *value, name string) (string, *Fault) {
	b, f := v.text(name)
	if f != nil {
		return "", f
	}
	if v.kind == absent {
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

// seed reads a key of random numbers, 16 hexadecimal digits.
func (v *value) seed() (s uint64, f *Fault) {
	b, f := v.text("seed")
	if f != nil {
		return 0, f
	}
	if v.kind == absent {
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
