package experiment

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy/words"
)

// Stored values are words separated by spaces: the version, 1, the experiment's run, then values. Readers refuse unknown versions. A later
// version may have more words, and more numbers in each.

// Reasons to refuse stored text. ErrText: malformed. ErrRun: of another run, hence useless. ErrArms: of this run, with other arms, shares
// or control, which may change only with the run.
var (
	ErrText = errors.New("not an experiment's stored text")
	ErrRun  = errors.New("of another run of the experiment")
	ErrArms = errors.New("of the same run of the experiment with other arms, shares or another control")
)

// Version is the first word of a stored value.
const Version = "1"

// Words returns a reader of the words behind a stored value's version. It fails with ErrText.
func Words(text string) (words.Reader, error) {
	r := words.Of(text, ' ')
	if version := r.Word(); string(version) != Version {
		return r, fmt.Errorf("%w: version %.10q, known is %s", ErrText, version, Version)
	}
	return r, nil
}

// Head writes the version and the run, with which each stored value of the experiment begins.
func (e *Experiment) Head(dst []byte) []byte {
	return strconv.AppendInt(append(dst, Version+" "...), int64(e.Run), 10)
}

// Words returns a reader of the words behind a stored value's Head. It fails with ErrText or ErrRun.
func (e *Experiment) Words(text string) (words.Reader, error) {
	r, err := Words(text)
	if err != nil {
		return r, err
	}
	run := r.Int(math.MinInt64, math.MaxInt64)
	if r.Faulty() {
		return r, ErrText
	}
	if run != int64(e.Run) {
		return r, fmt.Errorf("%w: %d, this is %d", ErrRun, run, e.Run)
	}
	return r, nil
}

// byArm returns readers of the words that are left, one for each arm. It fails with ErrArms.
func (e *Experiment) byArm(r *words.Reader, sep byte) ([]words.Reader, error) {
	all := make([]words.Reader, len(e.Arms))
	for arm := range all {
		all[arm] = words.Of(r.Word(), sep)
	}
	return all, r.End(ErrArms)
}

// AppendCohort writes a cohort's sums, <units>:<X>:<Q>:<Z>:<S>:<M> for each arm in the order of names, with the sums of Counts.
func (e *Experiment) AppendCohort(dst []byte, by []Counts) []byte {
	dst = e.Head(dst)
	for _, c := range by {
		dst = words.Append(append(dst, ' '), ':', c.N, c.X, c.Q, c.Z, c.S, c.M)
	}
	return dst
}

// ParseCohort reads the output of AppendCohort. It fails with ErrText or ErrRun.
func (e *Experiment) ParseCohort(text string) (by []Counts, err error) {
	r, err := e.Words(text)
	if err != nil {
		return nil, err
	}
	arms, err := e.byArm(&r, ':')
	if err != nil {
		return nil, err
	}
	for _, w := range arms {
		by = append(by, Counts{w.Int(0, mostCounted), readSum(&w), readSum(&w), readSum(&w), readSum(&w), readSum(&w)})
		if err := w.End(ErrText); err != nil {
			return nil, err
		}
	}
	return by, nil
}

// AppendTotals writes <arm>:<share>:<units>:<X>:<D>:<E>:<Z>:<S>:<M> for each arm in the order of names, with the sums of Sums in units of 2⁻²⁰. The
// control's share has an equals sign before it.
func (e *Experiment) AppendTotals(dst []byte, t Totals) []byte {
	dst = e.Head(dst)
	for arm, s := range t {
		dst = append(append(dst, ' '), e.label(arm)...)
		dst = words.Append(append(dst, ':'), ':', s.N, s.X, s.D, s.E, s.Z, s.S, s.M)
	}
	return dst
}

// ParseTotals reads the output of AppendTotals. It fails with ErrText, ErrRun or ErrArms.
func (e *Experiment) ParseTotals(text string) (t Totals, err error) {
	r, err := e.Words(text)
	if err != nil {
		return nil, err
	}
	return e.ReadTotals(&r)
}

// ReadTotals reads the words behind Head. It fails with ErrText or ErrArms.
func (e *Experiment) ReadTotals(r *words.Reader) (t Totals, err error) {
	arms, err := e.byArm(r, ':')
	if err != nil {
		return nil, err
	}
	for arm, w := range arms {
		if string(w.Word())+":"+string(w.Word()) != e.label(arm) {
			return nil, ErrArms
		}
		s := Sums{N: w.Int(0, mostUnits)}
		s.X = w.Int(0, s.N*perTotal)
		s.D, s.E = w.Int(math.MinInt64, math.MaxInt64), w.Int(0, math.MaxInt64)
		s.Z, s.S, s.M = readSum(&w), readSum(&w), readSum(&w)
		if err := w.End(ErrText); err != nil {
			return nil, err
		}
		t = append(t, s)
	}
	return t, nil
}

// label identifies an arm in stored totals, by name and share: totals of other shares are refused.
func (e *Experiment) label(arm int) string {
	mark := ""
	if arm == e.control {
		mark = "="
	}
	return e.Arms[arm].Name + ":" + mark + strconv.FormatFloat(e.Arms[arm].Share, 'g', -1, 64)
}

// AppendGroups writes the groups with an impression among those from one number up to another, <number>:<impressions>:<sum of payoffs>
// each, in units of 2⁻³⁰.
func (e *Experiment) AppendGroups(dst []byte, groups Groups, from, to int) []byte {
	dst = e.Head(dst)
	for k := from; k < to; k++ {
		if g := groups[k]; g != (Group{}) {
			dst = words.Append(append(dst, ' '), ':', int64(k), g.N, g.X)
		}
	}
	return dst
}

// ParseGroups replaces groups from and up to the same numbers by the output of AppendGroups. It fails with ErrText or ErrRun, and then
// changes none.
func (e *Experiment) ParseGroups(text string, groups Groups, from, to int) error {
	r, err := e.Words(text)
	if err != nil {
		return err
	}
	read := make(Groups, to-from)
	for last := int64(from) - 1; r.Left(); {
		w := words.Of(r.Word(), ':')
		last = w.Int(last+1, int64(to)-1)
		g := Group{w.Int(0, mostCounted), readSum(&w)}
		if err := w.End(ErrText); err != nil {
			return err
		}
		read[last-int64(from)] = g
	}
	copy(groups[from:to], read)
	return nil
}

// mostUnits bounds units in totals, mostCounted in others, and mostPayoffs sums.
const (
	mostUnits   = 1 << 42
	mostCounted = 1 << 32
	mostPayoffs = 1 << 62
)

// readSum reads a sum of payoffs.
func readSum(r *words.Reader) int64 { return r.Int(0, mostPayoffs) }

// readAny reads a sum that may be negative.
func readAny(r *words.Reader) int64 { return r.Int(math.MinInt64, math.MaxInt64) }

func readEntry(r *words.Reader) EntrySums {
	return EntrySums{r.Int(-mostUnits, mostUnits), readAny(r), readAny(r)}
}

// readPaid reads Paid with up to so many payoffs.
func readPaid(r *words.Reader, most int64) Paid {
	return Paid{r.Int(-most, most), readAny(r), readAny(r), readAny(r), readAny(r)}
}

// AppendRunOff writes a run-off's ended buckets: the numbers of the last one and of the first entry bucket, then a word for each arm in the
// order of names. It is <N>:<Z>:<S> of each entry bucket, the oldest first, in which all with lag 32 or more are one. Then follow
// <K>:<X>:<Q>:<U>:<M> of Paid by lag.
func (e *Experiment) AppendRunOff(dst []byte, r *RunOff) []byte {
	dst = words.Append(append(e.Head(dst), ' '), ':', r.last, r.from)
	for arm := range e.Arms {
		s := r.old[arm]
		dst = words.Append(append(dst, ' '), ':', s.N, s.Z, s.S)
		for l := Lags - 2; l >= 0; l-- {
			s := r.entered[l][arm]
			dst = words.Append(append(dst, ':'), ':', s.N, s.Z, s.S)
		}
		for _, s := range r.lags[arm] {
			dst = words.Append(append(dst, ':'), ':', s.K, s.X, s.Q, s.U, s.M)
		}
	}
	return dst
}

// ParseRunOff replaces a run-off's ended buckets by the output of AppendRunOff. It fails with ErrText, ErrRun or ErrArms, and then changes
// nothing.
func (e *Experiment) ParseRunOff(text string, r *RunOff) error {
	of, err := e.Words(text)
	if err != nil {
		return err
	}
	bounds := words.Of(of.Word(), ':')
	arms, err := e.byArm(&of, ':')
	if err != nil {
		return err
	}
	last, from := bounds.Int(math.MinInt64, math.MaxInt64), bounds.Int(math.MinInt64, math.MaxInt64)
	if err := bounds.End(ErrText); err != nil {
		return err
	}
	entered, paid := make([][Lags]EntrySums, len(arms)), make([][Lags]Paid, len(arms))
	for arm, w := range arms {
		for l := Lags - 1; l >= 0; l-- {
			entered[arm][l] = readEntry(&w)
		}
		for l := range Lags {
			paid[arm][l] = readPaid(&w, mostUnits)
		}
		if err := w.End(ErrText); err != nil {
			return err
		}
	}
	r.last, r.from = last, from
	copy(r.lags, paid)
	for arm := range arms {
		r.old[arm] = entered[arm][Lags-1]
		for l := range r.entered {
			r.entered[l][arm] = entered[arm][l]
		}
	}
	return nil
}

// AppendBucket writes an open bucket of a run-off, a word for each arm in the order of names. It is <N>:<Z>:<S> of its units and, by lag,
// <lag>:<K>:<X>:<Q>:<U>:<M> of Paid, separated by commas. It writes nothing if there is no such bucket.
func (e *Experiment) AppendBucket(dst []byte, r *RunOff, number int64) []byte {
	k, found := r.find(number)
	if !found {
		return dst
	}
	dst = e.Head(dst)
	for arm := range e.Arms {
		s := &r.open[k].by[arm]
		dst = words.Append(append(dst, ' '), ':', s.entered.N, s.entered.Z, s.entered.S)
		for l, p := range s.lags {
			if p != (Paid{}) {
				dst = words.Append(append(dst, ','), ':', int64(l), p.K, p.X, p.Q, p.U, p.M)
			}
		}
	}
	return dst
}

// ParseBucket replaces an open bucket of a run-off by the output of AppendBucket. It fails with ErrText, ErrRun or ErrArms, and then changes
// nothing.
func (e *Experiment) ParseBucket(text string, r *RunOff, number int64) error {
	of, err := e.Words(text)
	if err != nil {
		return err
	}
	arms, err := e.byArm(&of, ',')
	if err != nil {
		return err
	}
	by := make([]openSums, len(arms))
	for arm, w := range arms {
		part := words.Of(w.Word(), ':')
		by[arm].entered = readEntry(&part)
		w.Check(part.Done())
		for last := int64(-1); w.Left(); {
			part = words.Of(w.Word(), ':')
			last = part.Int(last+1, Lags-1)
			p := readPaid(&part, mostPayoffs)
			w.Check(part.Done() && p != Paid{})
			by[arm].lags[last] = p
		}
		if err := w.End(ErrText); err != nil {
			return err
		}
	}
	copy(r.at(number).by, by)
	return nil
}
