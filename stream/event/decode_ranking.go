package event

var (
	rankingFields  = []string{"impression_id", "learner", "time", "items", "decision"}
	decisionFields = []string{
		"group", "policy", "delay", "partition", "offset", "layout", "propensities", "instance", "explored", "seed",
		"selection_deadline", "payoff_deadline", "ranks", "undecided", "began", "expected",
	}
)

// Ranking reads a ranking into dst, whose slices it reuses: Items and their bytes are valid until the next call, the
// strings for good. The limits do not apply. Everything that AppendRanking always writes is required, because the
// update needs it: a ranking that another program wrote without it cannot be adopted.
func (d *Decoder) Ranking(dst *Ranking, value []byte) error {
	*dst = Ranking{
		Items: dst.Items[:0],
		Decision: Decision{
			Propensities: dst.Decision.Propensities[:0], Ranks: dst.Decision.Ranks[:0],
			Undecided: dst.Decision.Undecided[:0], Expected: dst.Decision.Expected[:0], Instance: -1,
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
	var v [16]value
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
	if v[8].kind != absent {
		if v[8].kind != isTrue && v[8].kind != isFalse {
			return v[8].wrongType("explored", "true or false")
		}
		dst.Explored = v[8].kind == isTrue
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
	if dst.Began, dst.HasBegan, f = v[14].moment("began"); f != nil {
		return f
	}
	dst.Undecided, f = ranks(dst.Undecided, &v[13], "undecided")
	return f
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

// checkRanks holds ranks to what they can be: a permutation of 0..n-1, and undecided ones among them, but the lowest,
// in ascending order.
func (d *Decoder) checkRanks(r *Ranking) *Fault {
	ranks, undecided := r.Decision.Ranks, r.Decision.Undecided
	if len(ranks) == 0 && len(undecided) == 0 {
		return nil
	}
	n := len(r.Items)
	if len(ranks) != n {
		return faultf(WrongType, "decision: %d ranks for %d items", len(ranks), n)
	}
	d.seen = append(d.seen[:0], make([]bool, n)...)
	for i, rank := range ranks {
		if int(rank) >= n || d.seen[rank] {
			return faultf(WrongType, "decision: ranks[%d] is %d, which is not below %d or has occurred before", i, rank, n)
		}
		d.seen[rank] = true
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

// word reads a required string and interns it: a log of rankings repeats the same few.
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

// seed reads the 16 hexadecimal digits of a key of random numbers.
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
