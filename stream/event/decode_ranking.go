package event

import (
	"strconv"

	"github.com/valyala/fastjson"
)

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

func (d *Decoder) ranking(dst *Ranking, value []byte) *Fault {
	var v [5]*fastjson.Value
	d.topic, d.slipped = Rankings, false
	values, f := sane(value)
	if f == nil {
		f = d.object(value, values, rankingFields, v[:])
	}
	if f != nil {
		return f
	}
	if dst.ID, f = text(v[0], "impression_id"); f != nil {
		return f
	}
	if len(dst.ID) == 0 {
		return faultf(MissingImpressionID, "impression_id is absent or empty")
	}
	if dst.Learner, f = text(v[1], "learner"); f != nil {
		return f
	}
	if dst.Time, f = requiredMoment(v[2], "time"); f != nil {
		return f
	}
	if f = d.items(dst, v[3]); f != nil {
		return f
	}
	if v[4] == nil {
		return faultf(MissingField, "decision is absent")
	}
	if v[4].Type() != fastjson.TypeObject {
		return wrongType(v[4], "decision", "an object")
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
	return d.checkRanks(dst)
}

func (d *Decoder) items(dst *Ranking, list *fastjson.Value) *Fault {
	elements, f := array(list, "items")
	if f != nil {
		return f
	}
	if len(elements) == 0 {
		return faultf(MissingField, "items is absent or empty")
	}
	d.distinct.start(len(elements))
	itemAt := func(i int) []byte { return dst.Items[i] }
	for i, e := range elements {
		if e.Type() == fastjson.TypeNull {
			return faultf(MissingItem, "items[%d] is null", i)
		}
		item, f := text(e, "item")
		if f != nil {
			return within(f, "items", i)
		}
		if len(item) == 0 {
			return faultf(MissingItem, "items[%d] is empty", i)
		}
		dst.Items = append(dst.Items, item)
		if !d.distinct.add(i, item, itemAt) {
			return faultf(DuplicateItem, "items[%d] %s has occurred before", i, quote(item))
		}
	}
	return nil
}

func (d *Decoder) decision(dst *Decision, object *fastjson.Value) *Fault {
	var v [16]*fastjson.Value
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
			return wrongType(v[8], "explored", "true or false")
		}
		dst.Explored = v[8].Type() == fastjson.TypeTrue
	}
	if dst.Seed, f = seed(v[9]); f != nil {
		return f
	}
	if dst.SelectionDeadline, dst.HasSelection, f = moment(v[10], "selection_deadline"); f != nil {
		return f
	}
	if dst.PayoffDeadline, f = requiredMoment(v[11], "payoff_deadline"); f != nil {
		return f
	}
	if dst.Ranks, f = d.ranks(dst.Ranks, v[12], "ranks"); f != nil {
		return f
	}
	if dst.Began, dst.HasBegan, f = moment(v[14], "began"); f != nil {
		return f
	}
	dst.Undecided, f = d.ranks(dst.Undecided, v[13], "undecided")
	return f
}

func (d *Decoder) ranks(dst []int32, list *fastjson.Value, name string) ([]int32, *Fault) {
	elements, f := array(list, name)
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

func (d *Decoder) propensities(dst *Decision, list *fastjson.Value) *Fault {
	elements, f := array(list, "propensities")
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
func (d *Decoder) expected(dst *Decision, list *fastjson.Value) *Fault {
	elements, f := array(list, "expected")
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
func (d *Decoder) word(v *fastjson.Value, name string) (string, *Fault) {
	b, f := text(v, name)
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
func (d *Decoder) integer(v *fastjson.Value, name string, low, high int64) (int64, *Fault) {
	if v == nil {
		return 0, faultf(MissingField, "%s is absent", name)
	}
	if v.Type() != fastjson.TypeNumber {
		return 0, wrongType(v, name, "a number")
	}
	d.number = v.MarshalTo(d.number[:0])
	n, err := strconv.ParseInt(string(d.number), 10, 64)
	if err != nil || n < low || n > high {
		return 0, faultf(WrongType, "%s is %s, not an integer from %d to %d", name, quote(d.number), low, high)
	}
	return n, nil
}

// seed reads the 16 hexadecimal digits of a key of random numbers.
func seed(v *fastjson.Value) (s uint64, f *Fault) {
	b, f := text(v, "seed")
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

// requiredMoment reads a time that must be there.
func requiredMoment(v *fastjson.Value, name string) (Millis, *Fault) {
	t, ok, f := moment(v, name)
	if f == nil && !ok {
		return 0, faultf(MissingField, "%s is absent", name)
	}
	return t, f
}
